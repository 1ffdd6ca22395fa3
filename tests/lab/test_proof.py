"""A program whose instances depend on their neighbours, or on the compiler, gives no results."""

import re

import numpy as np
import pytest

import unlazy
from unlazy.errors import InputError
from unlazy.lab import execute
from unlazy.lab.proof import Proof, deviation

GIVE = Proof.give
"""As it is before the tests of other folders do without it."""


@pytest.fixture(autouse=True)
def nothing_is_proven(monkeypatch, tmp_path):
    monkeypatch.setattr(Proof, "give", GIVE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(execute, "_PROGRAMS", {})


@pytest.fixture
def proofs(monkeypatch):
    """How often an instance was computed alone."""
    given, alone = [], execute._alone
    monkeypatch.setattr(execute, "_alone", lambda chunk: given.append(chunk.study.name) or alone(chunk))
    return given


def test_a_program_is_proven_once_also_for_other_processes(study, store, monkeypatch, proofs):
    traced = study("Traced")
    unlazy.run(traced, store=store)
    programs = len(proofs)
    assert programs == len(execute._PROGRAMS) > 0
    monkeypatch.setattr(execute, "_PROGRAMS", {})
    unlazy.run(traced, store=store.with_name("again.sqlite"))
    assert len(proofs) == programs


def test_a_study_that_differs_in_company_stops_with_its_name_and_stores_nothing(study, store, stored):
    with pytest.raises(InputError, match=r"^test-company gives another x inside a chunk than alone, 0.5 of its size"):
        unlazy.run(study("Company"), store=store)
    assert not stored(store)
    assert unlazy.run(study("Company"), set={"error": 1e-9}, store=store.with_name("small.sqlite")).computed


def test_a_chaotic_study_may_differ_in_company(study, store, monkeypatch):
    monkeypatch.setattr(study("Company"), "chaotic", "for the sake of the test")
    assert unlazy.run(study("Company"), store=store).computed


def test_a_chaotic_study_may_not_differ_in_whether_it_has_a_number(study, store, monkeypatch):
    monkeypatch.setattr(study("Company"), "chaotic", "for the sake of the test")
    with pytest.raises(InputError, match="inf of its size apart"):
        unlazy.run(study("Company"), set={"error": 1000}, store=store)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.inf], [1.0, np.inf], 0.0),
        ([4.0, 1e-9], [4.0, 0.0], 2.5e-10),
        ([4.0, 0.0], [2.0, 0.0], 0.5),
        ([3e-12], [1e-12], 2e-8),
        ([1.0, np.nan], [1.0, 2.0], np.inf),
        ([1.0, np.inf], [1.0, 2.0], np.inf),
        ([np.nan], [0.0], np.inf),
        ([True], [False], 1.0),
        ([], [], 0.0),
    ],
)
def test_deviations_are_relative_to_the_largest_entry(one, other, expected):
    assert deviation(np.array(one), np.array(other)) == pytest.approx(expected)
    assert deviation(np.array(other), np.array(one)) == pytest.approx(expected)


def test_a_refusal_names_what_to_do(study, store):
    with pytest.raises(InputError) as refused:
        unlazy.run(study("Company"), store=store)
    assert re.search(r"jaxlib \S+ computes wrong numbers or rounding grows .* \(Study.chaotic\)$", str(refused.value))

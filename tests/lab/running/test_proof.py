"""A program whose instances depend on their neighbours, or on the compiler, gives no results."""

import re

import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.lab.running import execute, pack, packing
from unlazy.lab.running.proof import Proof, deviation

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
    monkeypatch.setattr(execute, "_alone", lambda chunk, index: given.append(index) or alone(chunk, index))
    return given


def test_a_program_is_proven_once_also_for_other_processes(study, store, monkeypatch, proofs):
    traced = study("Traced")
    unlazy.run(traced, store=store)
    programs = len(proofs)
    assert programs == len(execute._PROGRAMS) > 0
    monkeypatch.setattr(execute, "_PROGRAMS", {})
    unlazy.run(traced, store=store.with_name("again.sqlite"))
    assert len(proofs) == programs


def test_what_is_shipped_proves_a_program_without_a_second_one(study, store, monkeypatch, proofs, tmp_path):
    traced, file = study("Traced"), tmp_path / "quick.pack"
    unlazy.run(traced, store=store)
    packing.write(file, [traced], store)
    monkeypatch.setattr(pack, "default_file", lambda: file)
    before = len(proofs)
    for name, needs in (("shipped", 0), ("other-stream", before)):
        monkeypatch.setattr(execute, "_PROGRAMS", {})
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        unlazy.run(traced, store=tmp_path / f"{name}.sqlite", stream="main" if name == "shipped" else name)
        assert len(proofs) == before + needs


@pytest.mark.parametrize("shipped", [1 + 1e-6, np.nan])
def test_another_machine_that_differs_neither_proves_nor_refuses(study, monkeypatch, shipped):
    asked = []
    number, other = {"x": np.array(1.0)}, {"x": np.array(shipped)}
    Proof(study("Traced"), "a program").give(number, lambda: asked.append(1) or number, other)
    assert asked == [1]
    monkeypatch.setattr(study("Traced"), "agreement", np.inf)
    Proof(study("Traced"), "chaotic").give(number, lambda: asked.append(2) or number, other)
    assert asked == ([1, 2] if np.isnan(shipped) else [1])


def test_a_study_that_differs_in_company_stops_with_its_name_and_stores_nothing(study, store, stored, monkeypatch):
    with pytest.raises(InputError, match=r"^test-company gives another x inside a chunk than alone, 0.5 of its size"):
        unlazy.run(study("Company"), store=store)
    assert not stored(store)
    monkeypatch.setattr(execute, "_PROGRAMS", {})
    assert unlazy.run(study("Company"), set={"error": 1e-9}, store=store.with_name("small.sqlite")).computed


def test_a_chaotic_study_may_differ_in_company_until_it_is_called_chaotic_no_more(study, store, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(study("Company"), "agreement", np.inf)
        assert unlazy.run(study("Company"), store=store).computed
    monkeypatch.setattr(execute, "_PROGRAMS", {})
    with pytest.raises(InputError, match=r"0\.5 of its size apart"):
        unlazy.run(study("Company"), store=store.with_name("strict.sqlite"))


def test_what_was_refused_is_refused_for_every_chunk_and_not_remembered_as_proven(study):
    proof = Proof(study("Traced"), "a program")
    number = {"x": np.array(1.0)}
    with pytest.raises(InputError, match="1 of its size"):
        proof.give(number, lambda: {"x": np.array(0.0)})
    with pytest.raises(InputError, match="1 of its size"):
        proof.give(number, lambda: number)
    Proof(study("Traced"), "a program").give(number, lambda: number)
    Proof(study("Traced"), "a program").give(number, lambda: pytest.fail("proven already"))


def test_an_instance_without_a_number_proves_nothing(study):
    proof, asked = Proof(study("Traced"), "a program"), []
    proof.give({"x": np.array(np.nan)}, lambda: pytest.fail("there is nothing to compare"))
    proof.give({"x": np.array(1.0)}, lambda: asked.append(1) or {"x": np.array(1.0)})
    assert asked == [1]


def test_a_chaotic_study_may_not_differ_in_whether_it_has_a_number(study, monkeypatch):
    monkeypatch.setattr(study("Traced"), "agreement", np.inf)
    with pytest.raises(InputError, match="inf of its size apart"):
        Proof(study("Traced"), "a program").give({"x": np.array(1.0)}, lambda: {"x": np.array(np.nan)})


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
        ([np.inf, 1.0], [np.inf, 2.0], 0.5),
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
    assert re.search(r"jaxlib \S+ computes wrong numbers or rounding grows .* \(Study.agreement\)$", str(refused.value))

"""What a run would cost, without running it."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy
from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.running import cost, evidence, execute
from unlazy.lab.running.cost import costs, operations, outlook, peak_bytes
from unlazy.lab.running.laboratory import Laboratory


def test_every_study_has_the_papers_sizes_and_they_are_valid():
    for study in registry.all_studies():
        for preset in ("quick", "full"):
            for grid in preset_grids(study, preset).values():
                grid.validate()


def test_operations_of_products_loops_and_branches_are_counted():
    a, b = np.ones((3, 5), np.float32), np.ones((5, 7), np.float32)

    def scanned(a, b):
        return jax.lax.scan(lambda total, _: (total + jnp.sum(a @ b), None), jnp.float32(0), None, length=11)[0]

    def either(a, b):
        return jax.lax.cond(a[0, 0] > 0, lambda: a @ b, lambda: jnp.zeros((3, 7), jnp.float32))

    product = 2 * 3 * 5 * 7
    assert operations(jax.make_jaxpr(jnp.matmul)(a, b).jaxpr) == product
    assert 11 * product < operations(jax.make_jaxpr(scanned)(a, b).jaxpr) < 11 * product * 1.2
    assert product <= operations(jax.make_jaxpr(either)(a, b).jaxpr) < product * 1.2


def test_memory_is_that_of_what_lives_at_the_same_time():
    a = np.ones((100, 100), np.float32)
    # The argument, one step's input and its output: what came before is gone.
    traced = jax.make_jaxpr(lambda a: jnp.sin(jnp.sin(jnp.sin(jnp.sin(a)))))(a).jaxpr
    assert 2 * a.nbytes <= peak_bytes(traced) <= 3 * a.nbytes
    kept = jax.make_jaxpr(lambda a: (jnp.sin(a), jnp.cos(a), jnp.tan(a)))(a).jaxpr
    assert peak_bytes(kept) == 4 * a.nbytes


def test_seconds_come_from_the_store_where_it_has_them(study, store):
    hosted, traced = study("Hosted"), study("Traced")
    before = outlook([hosted, traced], "quick", store)
    assert before.studies[0].known_from == "unknown: run quick first"
    assert np.isnan(before.studies[0].seconds)
    assert before.studies[1].seconds > 0
    assert before.studies[1].programs == 1
    assert [c.missing for c in before.studies] == [9, 9]
    unlazy.run(hosted, store=store, seeds=1)
    after = outlook([hosted], "quick", store).studies[0]
    assert (after.known_from, after.missing) == ("stored", 6)
    assert 0 < after.seconds < 10


def test_a_study_that_cannot_be_planned_says_why(study, store, monkeypatch):
    hosted = study("Hosted")
    found = outlook([hosted], "full", store).studies[0]
    assert "preset" in found.error
    assert outlook([hosted, study("Traced")], "quick", store, memory=1e-9).too_large[0].study == "test-traced"


def test_traced_work_grows_with_the_papers_sizes(store):
    cls = registry.find("cutmix")
    quick, full = (outlook([cls], preset, store).studies[0] for preset in ("quick", "full"))
    assert full.seconds > quick.seconds
    assert full.bytes >= quick.bytes


def test_compiling_is_in_the_estimate_and_grows_with_the_program(store, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "folder", lambda: tmp_path)
    long, short = (registry.find(name) for name in ("cutmix", "mean-field-particles"))
    found = outlook([long, short], "quick", store).studies
    with Laboratory(store) as laboratory:
        programs = [costs(laboratory, cls, preset_grids(cls, "quick")) for cls in (long, short)]
    for whole, parts in zip(found, programs, strict=True):
        simulating, compiling = (sum(getattr(c, f"{kind}_seconds") for c in parts) for kind in ("core", "compile"))
        assert whole.seconds == pytest.approx(simulating + compiling)
    assert programs[0][0].compile_seconds > programs[1][0].compile_seconds > 1


def test_what_is_on_record_is_not_guessed(store, tmp_path, monkeypatch):
    cls = registry.find("cutmix")
    identity = evidence._identity(cls, "full")
    run = {"date": "2026-01-01", "core_hours": 0.5, **identity, "claims": {}}
    (tmp_path / "full.json").write_text(json.dumps({cls.name: {"main": run}}))
    monkeypatch.setattr(evidence, "folder", lambda: tmp_path)
    found = outlook([cls], "full", store).studies[0]
    assert (found.seconds, found.known_from) == (1800, "on record")
    (tmp_path / "full.json").write_text(json.dumps({cls.name: {"main": {**run, "grid": "another"}}}))
    assert outlook([cls], "full", store).studies[0].known_from != "on record"


def test_a_program_is_traced_once_and_its_size_remembered(store, tmp_path, monkeypatch):
    cls, traces = registry.find("cutmix"), []
    monkeypatch.setattr(cost, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(cost, "traced", lambda chunk: traces.append(chunk) or execute.traced(chunk))
    cost._known_sizes.cache_clear()
    first = outlook([cls], "quick", store)
    assert len(traces) == first.studies[0].programs > 0
    with (tmp_path / "program_sizes").open("a") as file:
        file.write("a line that was cut o")
    cost._known_sizes.cache_clear()
    assert outlook([cls], "quick", store).studies == first.studies
    assert len(traces) == first.studies[0].programs
    cost._known_sizes.cache_clear()

"""A JAX that computes wrong numbers is found, refused in one line, and never believed again."""

import json
import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.lab.grid import preset_grids
from unlazy.lab.running import arithmetic, execute, trials
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.plan import PointSeed, group_points
from unlazy.lab.running.reproduce import reproduce
from unlazy.lab.running.run import run as lab_run
from unlazy.lab.running.store import Store

ROOT = Path(__file__).parents[3]


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A cache folder of its own, and nothing known yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = (arithmetic._fault, arithmetic._found_wrong, arithmetic.made_wrong)
    for function in known:
        function.cache_clear()
    yield tmp_path
    for function in known:
        function.cache_clear()


@pytest.fixture
def faulty(fresh):
    """The present JAX was found to compute wrong numbers."""
    remember(arithmetic.device())


def remember(device):
    fault = {"trials": arithmetic._code(), "fault": "a sum is 5 instead of 4"}
    arithmetic._remember(arithmetic._memory(device), {**device._asdict(), **fault})


def refusal(jaxlib):
    tested = arithmetic.TESTED
    remedy = "" if jaxlib == tested else f": pip install jax=={tested} jaxlib=={tested}"
    return f"jaxlib {re.escape(jaxlib)} computes wrong numbers: .*install another version{remedy}$"


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("constant", ["zeros", "ones"])
@pytest.mark.parametrize("real", ["float64", "float32"])
def test_sums_of_products_with_constants_are_right(real, constant):
    """jaxlib 0.10.2 gives NaN, 1e200 or anything else."""
    with jax.enable_x64(True):
        rows = np.random.default_rng(0).standard_normal((100, 64)).astype(real)
        matrix = getattr(np, constant)((64, 101), real)
        make = partial(getattr(jnp, constant), (64, 101), real)
        found = jax.jit(jax.vmap(lambda v: jnp.sum(v @ make())))(rows)
        np.testing.assert_allclose(found, (rows @ matrix).sum(1), rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize(("real", "count"), [("float64", 16_385), ("float32", 32_769)])
def test_many_rows_times_a_small_matrix_are_right(real, count):
    """jaxlib 0.10.2 gives the last rows the numbers of others."""
    with jax.enable_x64(True):
        rows = np.arange(count, dtype=real)[:, None] * np.array([1, 0, 0], real)
        found = jax.jit(lambda m, x: jax.vmap(lambda row: jnp.sum((m @ row) ** 2))(x))(np.eye(3, dtype=real), rows)
        np.testing.assert_allclose(found, np.arange(count, dtype=float) ** 2, rtol=1e-6)


@pytest.mark.usefixtures("optimised")
def test_training_from_constant_coefficients_does_not_diverge_at_once():
    """jaxlib 0.10.2, in one process of six, has every instance diverge at step 0."""
    from unlazy.functions.elementwise import Activation
    from unlazy.training.signal_noise.token_gram import (
        Network,
        Patch,
        PatchDesign,
        PatchLoss,
        draw,
        gradient_descent,
        train,
    )

    n, d, width = 100, 500, 64
    leaky = Activation("leaky", lambda z: jnp.where(z > 0, z, 0.1 * z), lambda z: jnp.where(z > 0, 1.0, 0.1))
    network = Network(leaky, PatchLoss("errors", lambda f, y: 1.0 * (y * f <= 0), lambda f, y: y * (y * f < 1)))

    def one(key):
        classes = jnp.where(jax.random.bernoulli(key, shape=(n,)), 1.0, -1.0)
        patch = Patch(shared=0.2 * classes[:, None], own=jnp.full((n, 1), 0.97))
        design = PatchDesign((patch,), classes, classes, jnp.full(n, 1 / n))
        second = jnp.where(jnp.arange(width) % 2 == 0, 1.0, -1.0)
        laws = {"initial_deviation": 1 / (width * d**0.5), "noise_deviation": d**-0.5}
        problem = draw(key, design, jnp.ones(1), second, d=d, **laws)
        return train(key, problem, network, gradient_descent(1 / width), 20, stop_loss=1e-6).state.diverged_at

    with jax.enable_x64(True):
        diverged_at = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 100))
    assert np.all(np.asarray(diverged_at) == -1)


@pytest.mark.usefixtures("optimised")
def test_the_trials_find_nothing_wrong_with_this_jax():
    assert trials.first_fault() == ""


@pytest.mark.parametrize("trial", trials._TRIALS, ids=lambda trial: trial.__name__)
def test_the_trials_see_one_wrong_entry(monkeypatch, trial):
    for real in trials._TRIALS[trial]:
        with jax.enable_x64(True):
            found, right = trial(np.random.default_rng(0), np.dtype(real))
        assert set(found) == set(right)
        for name, array in found.items():
            wrong = np.array(array, float)
            wrong[-1, ...].flat[-1] += 1e-2 * (1 + np.abs(wrong).max())
            spoiled = ({name: wrong}, right)
            monkeypatch.setattr(trials, "_TRIALS", {lambda *_: spoiled: (real,)})  # noqa: B023
            assert trials.first_fault().startswith(f"{name} in {real} is ")
    monkeypatch.setattr(trials, "_TRIALS", {lambda *_: ({"a sum": [np.nan]}, {"a sum": [0.0]}): ("float64",)})
    assert trials.first_fault() == "a sum in float64 is nan instead of 0"


def test_a_version_is_tried_once_and_a_failure_is_remembered(fresh, monkeypatch):
    tried = []
    monkeypatch.setattr(trials, "first_fault", lambda coarse: tried.append(coarse) or "a sum is 5 instead of 4")
    for _ in range(2):
        arithmetic._fault.cache_clear()
        with pytest.raises(arithmetic.WrongNumbers, match="a sum is 5 instead of 4 on cpu"):
            arithmetic.check_arithmetic()
    assert tried == [False]
    here = arithmetic.device()
    assert arithmetic.made_wrong(json.dumps({"jaxlib": here.jaxlib, "device": here.kind})) == here.jaxlib
    assert not arithmetic.made_wrong(json.dumps({"jaxlib": here.jaxlib, "device": "another"}))


def test_a_version_that_passed_is_not_tried_again(fresh, monkeypatch):
    monkeypatch.setattr(trials, "first_fault", lambda coarse: "")
    arithmetic.check_arithmetic()
    arithmetic._fault.cache_clear()
    monkeypatch.setattr(trials, "first_fault", lambda coarse: pytest.fail("tried again"))
    arithmetic.check_arithmetic()
    assert not arithmetic._found_wrong()


def test_a_damaged_memory_and_a_folder_that_cannot_be_written_cost_a_trial(fresh, monkeypatch):
    file = arithmetic._memory(arithmetic.device())
    file.parent.mkdir(parents=True)
    file.write_text('{"fau')
    monkeypatch.setattr(trials, "first_fault", lambda coarse: "")
    arithmetic.check_arithmetic()
    assert json.loads(file.read_text())["fault"] == ""
    arithmetic._remember(fresh / "a file" / "x.json", {})
    (fresh / "b").write_text("")
    arithmetic._remember(fresh / "b" / "x.json", {})


@pytest.mark.parametrize("jaxlib", arithmetic.WRONG)
def test_a_version_known_to_be_wrong_is_refused_untried(fresh, monkeypatch, jaxlib):
    monkeypatch.setattr(arithmetic, "version", lambda name: jaxlib)
    monkeypatch.setattr(arithmetic, "device", lambda: pytest.fail("tried"))
    with pytest.raises(arithmetic.WrongNumbers, match=refusal(jaxlib)):
        arithmetic.check_arithmetic()


def test_the_pins_are_the_version_that_a_refusal_recommends_and_exclude_the_wrong_ones():
    pins = (ROOT / "constraints.txt").read_text().split()
    assert {f"jax=={arithmetic.TESTED}", f"jaxlib=={arithmetic.TESTED}"} <= set(pins)
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for package in ("jax", "jaxlib"):
        (line,) = (one for one in required if re.match(rf"{package}\b", one))
        assert all(f"!={wrong}" in line for wrong in arithmetic.WRONG)


def test_run_ends_in_one_line_and_stores_nothing(faulty, unlazy, store, stored, reference_of):
    code, out, err = unlazy("run", reference_of("Traced"), "--store", store)
    assert (code, out) == (2, "")
    assert re.search(refusal(arithmetic.device().jaxlib), err.strip().splitlines()[-1])
    assert "Traceback" not in err
    assert not stored(store)


def test_processes_that_compute_wrong_numbers_end_a_reproduction(fresh, study, store, stored):
    """One thread or more: what a worker has depends on the machine."""
    for threads in range(1, arithmetic.cores() + 1):
        remember(arithmetic.device()._replace(threads=threads))
    with pytest.raises(arithmetic.WrongNumbers, match=refusal(arithmetic.device().jaxlib)):
        reproduce([study("Traced"), study("TracedSingle")], store=store, jobs=2)
    assert not stored(store)


def test_a_hosted_study_that_loads_jax_is_refused_and_one_without_it_is_not(faulty, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from unlazy.lab import Output, Source, Study, static\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Own(Study):\n"
        "    name, topic, question, sources = 'own', 'examples', '?', ()\n"
        "    jax: bool = static(False, 'whether JAX is loaded')\n"
        "    outputs = {'x': Output('x')}\n"
        "    presets = {'quick': {'seeds': 2}}\n\n"
        "    def simulate(self, rng):\n"
        "        if self.jax:\n"
        "            import jax\n"
        "        return {'x': rng.random()}\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}

    def run(*words):
        command = [sys.executable, "-m", "unlazy", "run", f"{file}:Own", "--store", tmp_path / "own.sqlite", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert run().returncode == 0
    refused = run("--set", "jax=true")
    assert refused.returncode == 2
    assert re.search(refusal(arithmetic.device().jaxlib), refused.stderr.strip().splitlines()[-1])


def test_a_worker_of_a_cluster_refuses_by_itself(faulty, study):
    grid = preset_grids(study("Traced"), "quick")["main"]
    group = group_points(grid, "f")[0]
    with pytest.raises(arithmetic.WrongNumbers, match=refusal(arithmetic.device().jaxlib)):
        execute.run_chunk(group.chunk([PointSeed(next(iter(group.points)), 0)]), 2**30)


def test_rows_of_a_refused_version_are_counted_computed_again_and_pruned(study, store, monkeypatch, unlazy):
    first = lab_run(study("Traced"), store=store)
    with Store(store) as opened:
        (made,) = opened.made_by()
        assert json.loads(made)["jaxlib"] == arithmetic.device().jaxlib
        # A row of the first round, which named jax alone, and one that needed no JAX.
        opened._change("UPDATE results SET versions = ? WHERE seed = 0", (json.dumps({"jax": "0.10.2"}),))
        opened._change("UPDATE results SET versions = ? WHERE seed = 1", (json.dumps({"numpy": "2"}),))
        wrong = opened.made_by()[json.dumps({"jax": "0.10.2"})]
    assert 0 < wrong < first.computed
    code, out, _ = unlazy("store", "--store", store)
    assert code == 0
    assert f"{wrong} instances were made by jaxlib 0.10.2" in " ".join(out.split())
    with Store(store) as opened, Laboratory(opened) as laboratory:
        # To look is not to delete.
        _, work = laboratory.load(study("Traced"), preset_grids(study("Traced"), "quick"))
        assert sum(len(w.missing) for w in work) == wrong
        assert opened.made_by()[json.dumps({"jax": "0.10.2"})] == wrong
    again = lab_run(study("Traced"), store=store)
    assert again.computed == wrong
    np.testing.assert_array_equal(again.simulated.risk, first.simulated.risk)
    assert "0.10.2" not in unlazy("store", "--store", store)[1]
    with Store(store) as opened:
        opened._change("UPDATE results SET versions = ? WHERE seed = 0", (json.dumps({"jaxlib": "0.10.2"}),))
        assert opened.prune([]) == wrong

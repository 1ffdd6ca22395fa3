"""A point's numbers depend on its parameters and its seed, not on how, where or beside what they were computed."""

import time
from collections import Counter
from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.lab import Output, Study, path, static, value
from unlazy.lab.grid import preset_grids
from unlazy.lab.running import execute
from unlazy.lab.running.plan import PointSeed, entropy, group_points
from unlazy.lab.running.store import Store

KINDS = ["Traced", "Hosted"]
REAL = ["risk", "draw"]
GIB = 2**30


@pytest.fixture
def run(tmp_path):
    """Run a study in a store of its own."""
    numbers = count()

    def run(study, **options):
        return unlazy.run(study, store=tmp_path / f"{next(numbers)}.sqlite", **options).simulated

    return run


@pytest.fixture
def compilations(monkeypatch):
    """The widths at which programs are compiled from here on."""
    widths, compile = [], execute._compile
    monkeypatch.setattr(execute, "_PROGRAMS", {})

    def counted(chunk, width):
        widths.append(width)
        return compile(chunk, width)

    monkeypatch.setattr(execute, "_compile", counted)
    return widths


def assert_same(one, other):
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def assert_close(one, other, relative=1e-10):
    for name in REAL:
        np.testing.assert_allclose(one[name], other[name], rtol=relative, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_do_not_depend_on_the_grid(study, run, kind):
    grid = run(study(kind), over={"scale": [0.3, 0.5, 1.0, 1.7, 2.0], "label": [2, 3]}, seeds=3)
    for scale in (0.5, 2.0):
        alone = run(study(kind), set={"scale": scale, "label": 2}, over={"shift": [0.0]}, seeds=3)
        assert_close(alone.isel(scale=0, shift=0), grid.sel(scale=scale, label=2))


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_do_not_depend_on_the_width(study, run, monkeypatch, kind):
    results = {}
    for width in (1, 4, 16):
        monkeypatch.setattr(study(kind), "chunk_width", width)
        results[width] = run(study(kind), over={"scale": np.linspace(0.5, 2, 8).tolist()}, seeds=4)
    assert_close(results[1], results[16])
    assert_close(results[4], results[16])


def test_single_precision_does_not_depend_on_the_width(study, run, monkeypatch):
    cls = study("TracedSingle")
    wide = run(cls, seeds=16)
    monkeypatch.setattr(cls, "chunk_width", 1)
    assert_close(wide, run(cls, seeds=16), relative=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_do_not_depend_on_what_was_stored_before(study, run, store, kind):
    """Equal widths: bitwise, although the last run's chunks hold other instances in other places."""
    over = {"scale": np.linspace(0.5, 2, 8).tolist()}
    whole = run(study(kind), over=over, seeds=4)
    grids = preset_grids(study(kind), "quick", over=over, seeds=4)
    unlazy.run(study(kind), over=over, seeds=4, store=store)
    rng = np.random.default_rng(0)
    with Store(store) as opened:
        points = [row[0] for row in opened._query("SELECT point FROM points ORDER BY point")]
        gone = 0
        for point in points:
            seeds = rng.permutation(4)[: rng.integers(0, 4)].tolist()
            opened.discard(point, seeds)
            gone += len(seeds)
    again = unlazy.run(study(kind), over=over, seeds=4, store=store)
    assert again.computed == gone > 0
    assert gone < grids["main"].size * 4
    assert_same(whole, again.simulated)


@pytest.mark.parametrize("instances", [1, 3, 17, 19])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_reach_the_results(study, run, monkeypatch, kind, instances):
    """Counts that the width does not divide, against the same seeds of a grid that it divides."""
    monkeypatch.setattr("unlazy.lab.running.plan.best_width", lambda instances, widest: widest)
    whole = run(study(kind), set={"scale": 0.7}, seeds=32)
    some = run(study(kind), set={"scale": 0.7}, seeds=instances)
    assert some.sizes["seed"] == instances
    assert len(np.unique(some.draw)) == instances
    assert_same(some, whole.isel(seed=slice(instances)))


@pytest.mark.parametrize("kind", KINDS)
def test_paired_parameters_share_randomness_and_others_do_not(study, run, kind):
    def draws(**over):
        return run(study(kind), set={"scale": 1.0}, over=over, seeds=2).draw.isel(scale=0)

    for paired in ({"arm": ["plain", "shifted"]}, {"shift": [0.0, 1.0]}):
        one, other = draws(**paired).transpose(*paired, "seed").values
        np.testing.assert_array_equal(one, other)
    for drawn in ({"d": [5, 6]}, {"label": [3, 4]}):
        values = draws(**drawn).values
        assert len(np.unique(values)) == values.size
    scales = run(study(kind), over={"scale": [1.0, 2.0]}, seeds=2).draw.values
    assert len(np.unique(scales)) == scales.size


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_shares_its_randomness_with_every_other_path(study, run, kind):
    short, long = (run(study(kind), over={"ridge": ridge}, seeds=2) for ridge in ([1.0, 3.0], [0.5, 1.0, 3.0, 9.0]))
    assert_close(short, long.sel(ridge=[1.0, 3.0]))


def test_randomness_is_that_of_study_parameters_and_seed(study):
    point = {n: p.default for n, p in study("Traced").parameters().items()}
    base = entropy(study("Traced"), point, 0)
    assert entropy(study("Traced"), dict(reversed(point.items())), 0) == base
    assert entropy(study("Traced"), {**point, "ridge": (7.0,), "shift": 3.0, "arm": "shifted"}, 0) == base
    others = [
        entropy(study("Traced"), point, 1),
        entropy(study("Hosted"), point, 0),
        *(entropy(study("Traced"), {**point, name: 9}, 0) for name in ("d", "scale", "label")),
    ]
    assert len({base, *others}) == 6


def test_values_share_one_program_and_statics_do_not(study, run, compilations):
    run(study("Traced"), over={"scale": [0.5, 1.0], "label": [1, 2], "shift": [0.0, 0.1]}, seeds=2)
    assert compilations == [8]
    run(study("Traced"), over={"scale": [0.6, 1.1], "label": [1, 2], "shift": [0.2, 0.1]}, seeds=2)
    assert compilations == [8]
    run(study("Traced"), over={"scale": [0.6, 1.1], "d": [6, 7]}, seeds=8)
    assert compilations == [8] * 3
    ridges = ([0.3, 0.2, 0.1], [1.0, 2.0, 3.0])
    for ridge in ridges:
        run(study("Traced"), over={"ridge": ridge}, set={"d": 6, "scale": 1.0}, seeds=16)
    assert compilations == [8] * 3


def test_a_small_memory_budget_halves_the_width(study, run, compilations):
    whole = run(study("Traced"), over={"scale": [0.5, 1.0]}, seeds=16)
    chunk = first_chunk(study("Traced"), over={"scale": [0.5, 1.0]}, seeds=16)
    needed = execute.compiled(chunk, 2**40).bytes
    compilations.clear()
    narrow = run(study("Traced"), over={"scale": [0.5, 1.0]}, seeds=16, memory=needed / 2 / GIB)
    program = execute.compiled(chunk, int(needed / 2))
    assert compilations[-1] == program.width
    assert program.width in (1, 2, 4, 8)
    assert program.bytes <= needed / 2
    assert_close(whole, narrow)


@pytest.mark.parametrize("memory", [1e-7, 1e-15])
def test_an_instance_beyond_the_memory_budget_is_refused_with_its_size(study, run, compilations, memory):
    with pytest.raises(InputError, match=r"one instance of test-traced needs about \S+ GiB.*--memory"):
        run(study("Traced"), memory=memory)
    assert compilations[-1] == 1


def first_chunk(study, **options):
    (group,) = group_points(preset_grids(study, "quick", **options)["main"], "")
    missing = [PointSeed(point, seed) for point in group.points for seed in range(group.grid.seeds)]
    return group.chunk(missing[: group.width])


@pytest.mark.parametrize(("kind", "dtype"), [("Traced", np.float64), ("TracedSingle", np.float32)])
def test_precision_is_as_declared_and_only_inside_the_call(study, run, kind, dtype):
    import jax

    assert jax.config.jax_enable_x64 is False
    results = run(study(kind), seeds=2)
    assert {results[name].dtype for name in ("risk", "draw")} == {np.dtype(dtype)}
    assert jax.config.jax_enable_x64 is False
    assert jax.numpy.ones(1).dtype == np.float32


def test_single_and_double_precision_are_near_each_other(study, run):
    """The same random bits are read as other numbers, so the means over many seeds are compared."""
    double, single = (run(study(kind), set={"scale": 1.0}, seeds=256).risk for kind in ("Traced", "TracedSingle"))
    error = np.sqrt((double.var("seed") + single.var("seed")) / 256)
    np.testing.assert_array_less(np.abs(double.mean("seed") - single.mean("seed")), 5 * error)


@dataclass(frozen=True)
class Threads(Study):
    """A study in a test module. What it sees of threads while it runs; SciPy's BLAS is loaded late."""

    name = "test-threads"
    question = "Are threads set deliberately?"
    sources = ()
    outputs = {"blas": Output("most threads of a BLAS"), "libraries": Output("number of BLAS"), "thread": Output("id")}
    presets = {"quick": {"seeds": 16}}

    scale: float = value(1.0, "scale")

    def simulate(self, rng):
        import threading

        import scipy.linalg
        from threadpoolctl import threadpool_info

        scipy.linalg.eigh(rng.standard_normal((40, 40)))
        threads = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        return {"blas": max(threads), "libraries": len(threads), "thread": threading.get_ident()}


def test_hosted_studies_run_in_threads_with_one_blas_thread_each(run, monkeypatch):
    import threading

    monkeypatch.setattr(execute, "cores", lambda: 4)
    seen = run(Threads)
    assert (seen.blas == 1).all()
    assert (seen.libraries >= 1).all()
    assert threading.get_ident() not in seen.thread
    assert 1 < len(np.unique(seen.thread)) <= 4


LATE = """
import sys, unlazy
seen = unlazy.run(sys.argv[1], store=sys.argv[2]).simulated
print(int(seen.blas.max()), int(seen.libraries.max()))
"""


def test_a_blas_that_simulate_loads_is_limited_from_the_first_call(python, store):
    process = python(LATE, f"{__file__}:Threads", store)
    output, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert output.split()[0] == "1"


def make(simulate_rng=None, simulate_key=None, dims=()):
    """A study with the given simulate, named after its line: a fingerprint does not see into closures."""
    line = (simulate_rng or simulate_key).__code__.co_firstlineno
    fields = {"d": static(1, "dimension"), "scale": value(1.0, "scale"), "ridge": path((1.0, 2.0), "ridge")}

    class Made(Study):
        name = f"test-made-{line}"
        question = "?"
        sources = ()
        outputs = {"result": Output("result", dims=dims)}
        presets = {"quick": {"seeds": 2}}
        __annotations__ = {"d": int, "scale": float, "ridge": tuple}

        behaviour = staticmethod(simulate_rng or simulate_key)

        if simulate_rng is not None:

            def simulate(self, rng):
                return self.behaviour(self, rng)
        else:

            def simulate(self, key):
                return self.behaviour(self, key)

    for name, field in fields.items():
        setattr(Made, name, field)
    return dataclass(frozen=True)(Made)


CHANGES = r"changes its shape .*\((1,\) and \(2|2,\) and \(1),\)"


@pytest.mark.parametrize("kind", ["simulate_rng", "simulate_key"])
@pytest.mark.parametrize(
    ("simulate", "dims", "over", "message"),
    [
        (lambda self, _: {"other": self.scale}, (), {}, "declares the outputs result but simulate returned other"),
        (lambda self, _: {"result": np.zeros(3)}, (), {}, r"is declared .* but has shape \(3,\)"),
        (lambda self, _: {"result": np.zeros(3)}, ("ridge",), {}, "has length 3 along ridge, which has 2 values"),
        (lambda self, _: {"result": np.zeros(self.d)}, ("entry",), {"d": [1, 2]}, CHANGES),
    ],
    ids=["missing", "dimensions", "length", "shape"],
)
def test_outputs_that_are_not_as_declared_are_named(run, kind, simulate, dims, over, message):
    with pytest.raises(InputError, match=rf"test-made-\d+ {message}"):
        run(make(**{kind: simulate}, dims=dims), over=over)


def test_a_shape_that_changes_from_instance_to_instance_is_named(run):
    cls = make(lambda self, rng: {"result": np.zeros(int(self.scale))}, dims=("entry",))
    with pytest.raises(InputError, match=rf"output result of test-made-\d+ {CHANGES}"):
        run(cls, over={"scale": [1.0, 2.0]})


def test_an_output_that_is_not_a_number_is_named(run):
    with pytest.raises(InputError, match=r"output result of test-made-\d+ must be real numbers"):
        run(make(lambda self, rng: {"result": "many"}))


def test_whole_numbers_at_some_points_do_not_truncate_the_others(run):
    cls = make(lambda self, rng: {"result": 1 if self.d == 1 else 0.5})
    np.testing.assert_array_equal(run(cls, over={"d": [1, 2]}).result.isel(seed=0), [1.0, 0.5])


@pytest.mark.parametrize("kind", ["simulate_rng", "simulate_key"])
def test_an_exception_inside_simulate_surfaces_and_what_was_finished_is_stored(store, kind):
    def simulate(self, _):
        if self.d == 3:
            raise ZeroDivisionError("at d = 3")
        return {"result": self.scale}

    cls = make(**{kind: simulate})
    with pytest.raises(ZeroDivisionError, match="at d = 3"):
        unlazy.run(cls, over={"d": [1, 2, 3, 4]}, store=store)
    assert unlazy.run(cls, over={"d": [1, 2]}, store=store).computed == 0


def test_hosted_instances_run_side_by_side_within_the_memory_budget(run, monkeypatch):
    """By what the study says that an instance needs."""
    monkeypatch.setattr(execute, "cores", lambda: 4)
    monkeypatch.setattr(Threads, "memory", lambda self: GIB)
    assert len(np.unique(run(Threads, memory=1.5).thread)) == 1
    assert len(np.unique(run(Threads, memory=2.5).thread)) == 2
    with pytest.raises(InputError, match=r"one instance of test-threads needs about 1 GiB.*--memory"):
        run(Threads, memory=0.5)


def most_at_once(monkeypatch, cls, tmp_path, **options):
    """Run a study and see how many of its compiled calls were under way at one time."""
    inside, most, compile_program = Counter(), Counter(), execute._compile

    def watched(chunk, width):
        program = compile_program(chunk, width)

        def call(*arguments):
            inside["now"] += 1
            most["seen"] = max(most["seen"], inside["now"])
            time.sleep(0.05)
            result = program.call(*arguments)
            inside["now"] -= 1
            return result

        return program._replace(call=call)

    monkeypatch.setattr(execute, "_compile", watched)
    monkeypatch.setattr(execute, "_PROGRAMS", {})
    monkeypatch.setattr(execute, "cores", lambda: 3)
    result = unlazy.run(cls, store=tmp_path / "watched.sqlite", **options)
    return most["seen"], result.simulated


def decomposition(self, key):
    import jax

    matrix = jax.random.normal(key, (6, 6))
    return {"result": self.scale * jax.numpy.linalg.eigh(matrix @ matrix.T)[0].max()}


def test_programs_with_lapack_calls_run_one_at_a_time(monkeypatch, tmp_path):
    """Two threads inside compiled LAPACK calls can deadlock."""
    most, _ = most_at_once(monkeypatch, make(simulate_key=decomposition), tmp_path, seeds=64)
    assert most == 1


def total(self, key):
    import jax

    return {"result": self.scale * jax.random.normal(key, (50,)).sum()}


def test_other_programs_run_side_by_side_with_the_numbers_of_one_at_a_time(monkeypatch, tmp_path):
    cls = make(simulate_key=total)
    monkeypatch.setattr(execute, "cores", lambda: 1)
    alone = unlazy.run(cls, seeds=64, store=tmp_path / "alone.sqlite").simulated
    most, together = most_at_once(monkeypatch, cls, tmp_path, seeds=64)
    assert 1 < most <= 3
    assert_same(alone, together)


def test_chunks_side_by_side_share_the_budget(monkeypatch, tmp_path):
    """A budget for one program but not for two lets one run at a time."""
    cls = make(simulate_key=total)
    (group,) = group_points(preset_grids(cls, "quick", seeds=64)["main"], "f")
    needed = execute.compiled(group.chunk([PointSeed(0, 0)]), 2**40).bytes
    most, _ = most_at_once(monkeypatch, cls, tmp_path, seeds=64, memory=1.5 * needed / 2**30)
    assert most == 1


def test_runs_in_several_threads_give_the_same_numbers(study, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    files = [tmp_path / f"{i}.sqlite" for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda file: unlazy.run(study("Traced"), seeds=8, store=file).simulated, files))
    for result in results[1:]:
        assert_same(results[0], result)


LARGE = """
import resource, sys, unlazy
cls = unlazy.lab.registry.find(sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
unlazy.run(cls, over={"scale": [9.0]}, seeds=1, store=sys.argv[2])
before = peak()
points = [0.5 + i / 10000 for i in range(10000)]
result = unlazy.run(cls, over={"scale": points}, seeds=1, store=sys.argv[2])
print(peak() - before, result.simulated.nbytes, result.computed)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_points_run_in_bounded_memory(python, store, reference_of, kind):
    """Peak memory grows by at most 5 KiB for each point: parameters, keys and results, but no pile of chunks."""
    process = python(LARGE, reference_of(kind), store)
    output, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    kib, nbytes, computed = map(int, output.split())
    assert computed == 10_000
    assert kib * 1024 < nbytes + 10_000 * 5 * 1024

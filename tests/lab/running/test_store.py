"""The store keeps what was finished, hands it on bit for bit, and refuses files that are not its own."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import unlazy
from unlazy.checks import InputError
from unlazy.lab.running.store import SCHEMA, Row, Store

KINDS = ["Traced", "Hosted"]


def change(file, sql, *arguments):
    db = sqlite3.connect(file)
    with db:
        count = db.execute(sql, arguments).rowcount
    db.close()
    return count


def flip_a_byte(file):
    data, point, seed = sqlite3.connect(file).execute("SELECT data, point, seed FROM results LIMIT 1").fetchone()
    broken = bytes([data[0] ^ 1]) + data[1:]
    return change(file, "UPDATE results SET data = ? WHERE point = ? AND seed = ?", broken, point, seed)


def truncate(file):
    return change(file, "UPDATE results SET data = substr(data, 1, length(data) - 8) WHERE seed = 1")


def change_layout(file):
    return change(file, "UPDATE results SET layout = replace(layout, '<f8', '<i8') WHERE seed = 2")


def break_the_text(file):
    return change(file, "UPDATE results SET layout = CAST(x'ff' || layout AS TEXT) WHERE seed = 0")


def swap_seeds(file):
    db = sqlite3.connect(file)
    point = db.execute("SELECT point FROM results LIMIT 1").fetchone()[0]
    db.close()
    for old, new in ((0, -1), (1, 0), (-1, 1)):
        change(file, "UPDATE results SET seed = ? WHERE seed = ? AND point = ?", new, old, point)
    return 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_command_again_computes_nothing_and_gives_the_same_datasets(study, store, kind):
    first = unlazy.run(study(kind), store=store)
    again = unlazy.run(study(kind), store=store)
    assert first.computed == 9
    assert again.computed == 0
    xr.testing.assert_identical(first.simulated, again.simulated)
    assert {n: a.dtype for n, a in first.simulated.items()} == {n: a.dtype for n, a in again.simulated.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_more_seeds_extend_what_is_stored(study, store, stored, kind):
    few = unlazy.run(study(kind), seeds=2, store=store)
    before = stored(store)
    more = unlazy.run(study(kind), seeds=5, store=store)
    after = stored(store)
    assert (few.computed, more.computed) == (6, 9)
    assert before.items() <= after.items()
    xr.testing.assert_identical(few.simulated, more.simulated.isel(seed=slice(2)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_grid_reuses_the_points_it_shares(study, store, stored, kind):
    small = unlazy.run(study(kind), over={"scale": [1.0, 2.0]}, seeds=2, store=store)
    before = stored(store)
    large = unlazy.run(study(kind), over={"scale": [0.5, 1.0, 1.5, 2.0], "d": [5, 6]}, seeds=2, store=store)
    assert large.computed == 12
    assert before.items() <= stored(store).items()
    common = large.simulated.sel(scale=[1.0, 2.0], d=5).drop_vars("d")
    for name in small.simulated:
        np.testing.assert_array_equal(small.simulated[name], common[name])


@pytest.mark.parametrize("damage", [flip_a_byte, truncate, change_layout, break_the_text, swap_seeds])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_row_is_seen_and_computed_again(study, store, kind, damage):
    first = unlazy.run(study(kind), store=store)
    damaged = damage(store)
    assert damaged > 0
    with pytest.warns(UserWarning, match=f"{damaged} damaged rows in store .*{store.name}"):
        again = unlazy.run(study(kind), store=store)
    assert again.computed == damaged
    xr.testing.assert_identical(first.simulated, again.simulated)
    assert unlazy.run(study(kind), store=store).computed == 0


def test_a_damaged_file_is_named(study, store):
    unlazy.run(study("Hosted"), store=store)
    content = bytearray(store.read_bytes())
    content[4096:] = b"\xab" * (len(content) - 4096)
    store.write_bytes(content)
    with pytest.raises(InputError, match=store.name), pytest.warns(UserWarning, match="is damaged"):
        unlazy.run(study("Hosted"), store=store)


def test_a_damaged_page_is_told_though_the_rows_that_are_asked_for_are_whole(study, store):
    first = unlazy.run(study("Hosted"), store=store)
    with Store(store) as opened:
        assert opened.damage() == ""
        for number in range(400):
            # After all others, so that the last page has rows of this study alone.
            key = b"\xff" + number.to_bytes(15, "big")
            opened.write("zzz", "f", {key: "{}"}, [Row(key, 0, 1.0, {"x": np.zeros(400)}, "{}")])
    content = bytearray(store.read_bytes())
    content[-4096:-4032] = b"\xab" * 64
    store.write_bytes(content)
    with pytest.warns(UserWarning, match=f"store .*{store.name} is damaged"):
        again = unlazy.run(study("Hosted"), store=store)
    assert again.computed == 0
    xr.testing.assert_identical(first.simulated, again.simulated)


def a_foreign_database(file):
    change(file, "CREATE TABLE mine (x)")


def a_text(file):
    file.write_text("my notes, which nobody may overwrite\n" * 100)


def a_short_text(file):
    file.write_text("notes")


def a_directory(file):
    file.mkdir()


def a_newer_store(file):
    Store(file).close()
    change(file, f"PRAGMA user_version = {SCHEMA + 1}")


@pytest.mark.parametrize("make", [a_foreign_database, a_text, a_short_text, a_directory, a_newer_store])
def test_a_file_that_is_not_a_store_is_named_and_left_as_it_is(study, store, make):
    make(store)
    before = store.read_bytes() if store.is_file() else list(store.iterdir())
    with pytest.raises(InputError, match=store.name):
        unlazy.run(study("Hosted"), store=store)
    assert (store.read_bytes() if store.is_file() else list(store.iterdir())) == before
    assert list(store.parent.iterdir()) == [store]


@pytest.fixture
def unprivileged():
    """A folder where permissions hold even for root, who becomes nobody while the test runs."""
    if not hasattr(os, "geteuid"):
        pytest.skip("permissions need a POSIX system")
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    folder = Path(tempfile.mkdtemp())
    yield folder
    os.seteuid(user)
    folder.chmod(0o777)
    shutil.rmtree(folder)


def test_an_unreadable_file_is_named(unprivileged):
    file = unprivileged / "results.sqlite"
    Store(file).close()
    file.chmod(0)
    with pytest.raises(InputError, match=str(file)):
        Store(file)


def test_a_folder_that_cannot_be_written_is_named(unprivileged):
    unprivileged.chmod(0o555)
    for file in (unprivileged / "results.sqlite", unprivileged / "below" / "results.sqlite"):
        with pytest.raises(InputError, match=str(file)):
            Store(file)
    assert list(unprivileged.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named_and_can_be_read(study, unprivileged):
    file = unprivileged / "results.sqlite"
    whole = unlazy.run(study("Hosted"), seeds=2, store=file)
    file.chmod(0o444)
    xr.testing.assert_identical(unlazy.run(study("Hosted"), seeds=2, store=file).simulated, whole.simulated)
    with pytest.raises(InputError, match=str(file)):
        unlazy.run(study("Hosted"), seeds=3, store=file)


OPEN = """
import sys
from unlazy.lab.running.store import Store
sys.stdin.readline()
for i in range(20):
    Store(f"{sys.argv[1]}{i}").close()
"""


def test_processes_may_make_the_same_store_at_once(tmp_path):
    command = [sys.executable, "-c", OPEN, str(tmp_path / "store")]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[1] for process in started] == [""] * 4


@pytest.mark.parametrize(
    "array",
    [
        np.array([0.1, np.nan, np.inf, -np.inf, -0.0, 5e-324]),
        np.array([np.uint32(0x7FC00001)]).view(np.float32),
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.array(2**63 - 1),
        np.array([[True], [False]]),
        np.zeros((3, 0, 2)),
        np.array([1 + 2j]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10.0)[::-2],
    ],
    ids=lambda a: f"{a.dtype}{list(a.shape)}",
)
def test_arrays_come_back_bit_for_bit(store, array):
    with Store(store) as opened:
        opened.write("s", "f", {b"p": "{}"}, [Row(b"p", 0, 1.0, {"first": np.array(1.5), "array": array}, "{}")])
    with Store(store) as opened:
        rows, damaged = opened.read(b"p", 1)
    back = rows[0].arrays["array"]
    assert damaged == []
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert rows[0].arrays["first"] == 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_types_are_those_that_simulate_returned(study, store, kind):
    for _ in ("computed", "stored"):
        simulated = unlazy.run(study(kind), seeds=2, store=store).simulated
        kinds = {name: array.dtype.kind for name, array in simulated.items()}
        assert kinds == {"risk": "f", "draw": "f", "sign": "b", "count": "i", "bad": "f"}
        assert simulated.bad.values.tobytes() == np.array([np.nan, np.inf, -0.0] * 6).tobytes()


def test_prune_removes_only_stale_rows_of_known_studies(store):
    def row(name):
        return [Row(name, seed, 1.0, {"x": np.zeros(3)}, "{}") for seed in range(2)]

    with Store(store) as opened:
        for study, fingerprint in (("known", "old"), ("known", "new"), ("own", "old"), ("other", "now")):
            name = f"{study} {fingerprint}".encode()
            opened.write(study, fingerprint, {name: "{}"}, row(name))
        assert opened.prune([("known", "new"), ("other", "now"), ("absent", "x")]) == 2
        kept = {(c.study, c.fingerprint, c.instances) for c in opened.contents()}
    assert kept == {("known", "new", 2), ("own", "old", 2), ("other", "now", 2)}
    assert change(store, "DELETE FROM points") == 3


def test_nothing_in_the_file_is_pickled(study, store):
    for kind in KINDS:
        unlazy.run(study(kind), store=store)
    db = sqlite3.connect(store)
    rows = db.execute("SELECT parameters, versions, layout, data FROM points JOIN results USING (point)").fetchall()
    assert len(rows) == 18
    for *texts, data in rows:
        *_, layout = map(json.loads, texts)
        assert len(data) == sum(np.dtype(dtype).itemsize * int(np.prod(shape)) for _, dtype, shape in layout)
        assert not any(np.dtype(dtype).hasobject for _, dtype, _ in layout)

"""Who can read a store, as `unlazy store` says it."""

import os
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unlazy.cli.commands import app
from unlazy.lab.running.store import Store


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "who"),
    [
        (0o644, 0o755, "all users of this machine"),
        (0o640, 0o755, "your group"),
        (0o600, 0o755, "you alone"),
        (0o644, 0o700, "you alone"),
    ],
)
def test_the_store_says_who_can_read_it(file_mode, folder_mode, who):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        if not all(each.stat().st_mode & 0o001 for each in folder.parents):
            pytest.skip("the folder for temporary files is closed to others")
        file = folder / "results.sqlite"
        Store(file).close()
        file.chmod(file_mode)
        folder.chmod(folder_mode)
        shown = CliRunner().invoke(app, ["store", "--store", str(file)])
        assert shown.exit_code == 0, shown.output
        assert f"can be read by {who})" in " ".join(shown.output.split())

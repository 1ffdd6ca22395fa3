"""What tests of all folders share."""

import os
import sys

import pytest

# Most programs of the tests run for milliseconds: to optimise them takes longer than it saves.
UNOPTIMISED = "JAX_DISABLE_MOST_OPTIMIZATIONS"
os.environ.setdefault(UNOPTIMISED, "1")


@pytest.fixture(scope="module")
def optimised():
    """For programs that run for seconds; to the end of the module, in this process and in those that a test starts."""
    import jax

    before = jax.config.read(UNOPTIMISED.lower())
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(UNOPTIMISED, raising=False)
        _compile_anew(False)
        yield
    _compile_anew(before)


def _compile_anew(unoptimised):
    """Programs that were compiled the other way round differ in the last digit: none of them is kept."""
    import jax

    from unlazy.lab import execute

    jax.config.update(UNOPTIMISED.lower(), unoptimised)
    jax.clear_caches()
    execute._PROGRAMS.clear()


@pytest.fixture(scope="session", autouse=True)
def programs_need_no_proof():
    """Every program would be compiled twice; `tests/lab/test_proof.py` has its own, `unlazy reproduce` proves all."""
    from unlazy.lab.proof import Proof

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Proof, "give", lambda *_: None)
        yield


@pytest.fixture
def unlazy(monkeypatch, capsys):
    """Call the command line in this process; returns exit code, standard output and standard error."""

    from unlazy import cli

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["unlazy", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return call

"""Every public function of the theory has an example in its docstring, and it prints what the docstring says."""

import contextlib
import doctest
import importlib
import inspect
import io
import re

import pytest

from unlazy import theory

TO_COME: set = set()
"""Topics whose functions have no examples yet."""
FUNCTIONS = sorted(
    name
    for name in theory.__all__
    if inspect.isfunction(found := getattr(theory, name)) and found.__module__.split(".")[2] not in TO_COME
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_prints_what_the_docstring_says(name):
    function = getattr(theory, name)
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(function))
    assert any(f"{name}(" in example.source for example in examples)
    assert any(example.want for example in examples)
    scope = dict(vars(importlib.import_module(function.__module__)))
    for example in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, f"example of {name}", "single"), scope)
        assert_alike(printed.getvalue(), example.want)


def assert_alike(printed, want):
    """The same text, and numbers that agree to the digits that are written."""
    assert _NUMBER.sub("#", printed).split() == _NUMBER.sub("#", want).split(), f"{printed!r} is not {want!r}"
    for got, written in zip(_NUMBER.findall(printed), _NUMBER.findall(want), strict=True):
        digits = len(written.lower().partition("e")[0].partition(".")[2])
        power = int(written.lower().partition("e")[2] or 0)
        assert abs(float(got) - float(written)) <= 0.51 * 10.0 ** (power - digits), f"{printed!r} is not {want!r}"


def test_a_wrong_digit_is_seen():
    assert_alike("[0.12345 inf]", "[0.123 inf]")
    for wrong in ("[0.124 inf]", "[0.123 1.0]", "0.123"):
        with pytest.raises(AssertionError):
            assert_alike("[0.12345 inf]", wrong)

"""Public theory at any input: legal numbers give numbers or a clear refusal, illegal ones one line that names them.

Every function is called as in its docstring's example, with numbers drawn from what `docs/glossary.md` allows, over
many powers of ten. `make test-slow` draws for much longer.
"""

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import math
import re
import signal
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unlazy import theory
from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError

FUNCTIONS = sorted(name for name in theory.__all__ if inspect.isfunction(getattr(theory, name)))
SECONDS = 10
DECADES = 12
LARGEST_WHOLE = 200
"""Whole numbers are sizes of arrays as often as not."""
QUICK = settings(
    max_examples=5, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
LONG = settings(QUICK, max_examples=300, derandomize=False)


@cache
def arguments_of(name):
    """What the example in the docstring calls the function with: {argument: value}."""
    function = getattr(theory, name)
    scope = dict(vars(importlib.import_module(function.__module__)))
    for example in doctest.DocTestParser().get_examples(inspect.getdoc(function)):
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                values = [eval(ast.unparse(a), scope) for a in node.args]
                named = {k.arg: eval(ast.unparse(k.value), scope) for k in node.keywords}
                return dict(inspect.signature(function).bind(*values, **named).arguments)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(example.source, name, "single"), scope)
    raise AssertionError(f"the docstring of {name} has no example that calls it")


class Allowed(NamedTuple):
    """A range of the glossary: `> 0`, `>= 0`, `0 to 1`, `whole >= 2`, `any number`."""

    low: float
    high: float
    open: bool
    whole: bool


def allowed_of(text):
    """The range that a glossary's cell says, or None where it says no range."""
    if text == "any number":
        return Allowed(-math.inf, math.inf, True, False)
    if found := re.fullmatch(r"(whole )?(>=?) (-?[\d.]+)", text):
        return Allowed(float(found[3]), math.inf, found[2] == ">", bool(found[1]))
    if found := re.fullmatch(r"(whole )?(-?[\d.]+) to (-?[\d.]+)", text):
        return Allowed(float(found[2]), float(found[3]), False, bool(found[1]))
    return None


def numbers(allowed):
    """Numbers of a range over many decades, its ends among them."""
    low, high, is_open, whole = allowed
    if whole:
        return st.integers(int(low), int(min(high, max(low, LARGEST_WHOLE))))
    if high < math.inf:
        inside = st.floats(low, high)
        near = st.floats(-DECADES, 0).map(lambda e: (high - low) * 10.0**e)
        return st.one_of(inside, near.map(lambda gap: low + gap), near.map(lambda gap: high - gap))
    sizes = st.floats(-DECADES, DECADES).map(lambda e: 10.0**e)
    if low == -math.inf:
        return st.one_of(sizes, sizes.map(lambda x: -x), st.just(0.0))
    above = sizes.map(lambda x: low + x)
    return above if is_open else st.one_of(above, st.just(low))


def is_numeric(value):
    if isinstance(value, bool | str) or callable(value) or value is None:
        return False
    try:
        return np.asarray(value).dtype.kind in "iuf"
    except ValueError:
        return False


def drawn(data, value, allowed):
    """A number of the range in place of a number, an array of them in place of an array."""
    if np.ndim(value) == 0:
        return data.draw(numbers(allowed))
    shape = np.shape(value)
    flat = data.draw(st.lists(numbers(allowed), min_size=math.prod(shape), max_size=math.prod(shape)))
    return np.reshape(np.asarray(flat, dtype=float), shape)


@contextlib.contextmanager
def at_most(seconds):
    """End what takes longer, in seconds of the processor: a busy machine is no fault of the function."""

    def end(*_):
        raise AssertionError(f"takes more than {seconds} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def assert_says_it_in_one_line(error):
    assert str(error)
    assert "\n" not in str(error)


def leaves(result):
    """The arrays of numbers in a result."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in leaves(part)]
    if hasattr(result, "__dataclass_fields__"):
        return [leaf for part in vars(result).values() for leaf in leaves(part)]
    return [np.asarray(result)] if is_numeric(result) else []


def check_result(function, arguments):
    try:
        with at_most(SECONDS):
            result = function(**arguments)
    except (InputError, ConvergenceError) as error:
        assert_says_it_in_one_line(error)
        return
    told = f"{inspect.getdoc(function)} {inspect.getdoc(type(result)) or ''}"
    for leaf in leaves(result):
        assert "nan" in told.lower() or not np.isnan(leaf).any(), f"NaN at {arguments}"
        assert re.search(r"\binf", told) or not np.isinf(leaf).any(), f"infinity that is not documented at {arguments}"


def draw_and_check(data, name, words):
    arguments = dict(arguments_of(name))
    varied = {}
    for argument, value in arguments.items():
        allowed = allowed_of(words[argument].allowed) if argument in words and is_numeric(value) else None
        if allowed is not None:
            varied[argument] = (value, allowed)
    # some of them at once: extremes that meet are where numbers break
    chosen = data.draw(st.sets(st.sampled_from(sorted(varied)), min_size=1)) if varied else ()
    for argument in sorted(chosen):
        arguments[argument] = drawn(data, *varied[argument])
    check_result(getattr(theory, name), arguments)


def draw_often(name, words, often):
    @often
    @given(st.data())
    def attempt(data):
        draw_and_check(data, name, words)

    attempt()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_legal_numbers_give_numbers_or_a_clear_refusal(name, glossary):
    draw_often(name, glossary[0], QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_legal_numbers_give_numbers_or_a_clear_refusal(name, glossary):
    draw_often(name, glossary[0], LONG)


def illegal(value, allowed):
    """What no function should take in place of a value."""
    wrong = ["nonsense", object()]
    if is_numeric(value):
        wrong += [math.nan, [[1.0], [1.0, 2.0]], 1j, []]
        if allowed is not None and allowed.low > -math.inf:
            wrong.append(np.full(np.shape(value), allowed.low - 1.0)[()])
        if allowed is not None and allowed.high < math.inf:
            wrong.append(np.full(np.shape(value), allowed.high + 1.0)[()])
        if allowed is not None and allowed.whole:
            wrong.append(allowed.low + 0.5)
    return wrong


@pytest.mark.parametrize("name", FUNCTIONS)
def test_illegal_input_is_refused_in_one_line_that_names_it(name, glossary):
    words, _ = glossary
    function = getattr(theory, name)
    arguments = arguments_of(name)
    for argument, value in arguments.items():
        allowed = allowed_of(words[argument].allowed) if argument in words else None
        for wrong in illegal(value, allowed):
            with at_most(SECONDS), pytest.raises(InputError) as refusal:
                function(**{**arguments, argument: wrong})
            assert_says_it_in_one_line(refusal.value)
            assert argument in str(refusal.value), f"{argument} = {wrong!r}: {refusal.value}"

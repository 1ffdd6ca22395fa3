"""What holds for all theory: no warning leaks from it."""

import warnings

import pytest


@pytest.fixture(autouse=True)
def _no_warning_leaks():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield

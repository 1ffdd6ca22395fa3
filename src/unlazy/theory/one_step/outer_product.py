"""The mean outer product of a kernel machine's gradients: where its first direction points."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape
from unlazy.theory.one_step.moments import LARGEST, link_moments


def outer_product_misalignment(link: Any, n: ArrayLike, d: ArrayLike, test_error: ArrayLike) -> Any:
    """1 - (v.beta)^2 of the first eigenvector v of E grad f grad f^T, f a kernel ridge fit of n samples.

        1 - (v.beta)^2 = t / (1 + t),        t = (d - 1) E / (n b1^2)

    for y = g(x.beta) + noise, x ~ N(0, I_d), with b1 = E g' and E the `test_error` of the fit, label noise included. A
    fit learns x.beta to some part a, and each linear mode across beta gets a noise of variance a^2 E / n (Simon et al.
    2023): a cancels, and neither kernel nor penalty matter but through E. All other modes add a multiple of the
    identity, which turns no eigenvector. One gradient step, `gradient_cosine`, has E y^2 in place of E. Exact as n and
    d grow in proportion, for kernels of |x - x'| and x.x'; with about d^2 samples other degrees begin to count.

    >>> print(outer_product_misalignment("erf", n=[100, 400, 1600], d=20, test_error=0.06))
    [0.026158   0.00667036 0.00167597]
    """
    slope = link_moments(link).linear
    samples, dimension = check_array("n", n, above=0, high=LARGEST), check_array("d", d, low=1, high=LARGEST)
    error = check_array("test_error", test_error, low=0, high=LARGEST)
    common_shape(n=samples, d=dimension, test_error=error)
    noise = (dimension - 1) / samples * error
    if not (slope**2 + noise > 0).all():
        raise InputError("link must have a linear part, or the fit an error: else there is no gradient")
    return (noise / (slope**2 + noise))[()]

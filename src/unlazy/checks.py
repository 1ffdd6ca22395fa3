"""One kind of error for wrong input, and the checks that raise it.

Every message names the argument, the value it had and what is allowed.
"""

from __future__ import annotations

import difflib
import math
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import combinations
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlazy.words import brief, in_one_line

if TYPE_CHECKING:
    import numpy as np


class InputError(ValueError):
    """The caller's input is wrong; the message is one line that says how to mend it.

    Whatever a message quotes, such as another library's error or the name of a file, becomes part of that line.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(in_one_line(str(message)))


def check_array(
    name: str,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    ndim: int | None = None,
    finite: bool = True,
    whole: bool = False,
) -> np.ndarray:
    """Return `value` as a float64 array, or say what is wrong with it.

    `low` and `high` are inclusive bounds, `above` and `below` exclusive ones; `whole` numbers are integers.
    """
    import numpy as np

    try:
        found = np.asarray(value)
        array = np.asarray(found.real, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be numeric, got {brief(value)}") from None
    if np.iscomplexobj(found):
        raise InputError(f"{name} must be real, got complex numbers")
    if ndim is not None and array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if array.size == 0:
        raise InputError(f"{name} must not be empty, got shape {array.shape}")
    bounds = ((">=", low), (">", above), ("<=", high), ("<", below))
    allowed = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
    if finite and not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].flat[0]
        raise InputError(f"{name} must be finite{allowed and ' and ' + allowed}, got {bad:g}")
    wrong = np.isnan(array)
    if low is not None:
        wrong |= array < low
    if high is not None:
        wrong |= array > high
    if above is not None:
        wrong |= array <= above
    if below is not None:
        wrong |= array >= below
    if wrong.any():
        raise InputError(f"{name} must be {allowed or 'a number'}, got {array[wrong].flat[0]:g}")
    if whole and (array != np.round(array)).any():
        bad = array[array != np.round(array)].flat[0]
        raise InputError(f"{name} must be whole{allowed and ' and ' + allowed}, got {bad:g}")
    return array


def check_known(name: str, value: Any, *, ndim: int | None = None, **allowed: Any) -> Any:
    """Return `value` as it is, or say what `check_array` says of it; of one that JAX traces only the shape is known."""
    if not _is_traced(value):
        check_array(name, value, ndim=ndim, **allowed)
    elif ndim is not None and value.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s), got shape {value.shape}")
    return value


def check_signs(name: str, value: Any, *, ndim: int | None = None) -> Any:
    """Return `value` as an array of 1 and -1, or say what else it has; one that JAX traces as it is."""
    import numpy as np

    if _is_traced(value):
        return value
    found = check_array(name, value, ndim=ndim)
    if (wrong := np.abs(found) != 1).any():
        raise InputError(f"{name} must be 1 or -1, got {found[wrong].flat[0]:g}")
    return found


def _is_traced(value: Any) -> bool:
    """Whether `jit` or `vmap` hides the numbers; JAX is not loaded for it."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def check_kind(name: str, value: Any, kind: type | tuple[type, ...], example: str = "") -> Any:
    """Return `value` if it is of a kind, else say which kind is meant; `example` says how one gets it."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        meant = " or ".join(f"a {each.__name__}" for each in kinds)
        raise InputError(f"{name} must be {meant}{example and ', ' + example}; got {brief(value)}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return a truth value, or say that it is none."""
    import numpy as np

    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {brief(value)}")
    return bool(value)


def check_whole(name: str, value: Any, low: float, high: float = math.inf, *, floats: bool = True) -> int:
    """Return `value` as an int from `low` to `high`, or say what is wrong with it.

    3.0 is an integer, unless `floats` is false as for scikit-learn's estimators; 2.5, True and "3" are not.
    """
    import numpy as np

    value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    number: int | None = None
    if not isinstance(value, bool | np.bool_):
        try:
            number = index(value)
        except TypeError:
            if floats and isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value):
                number = int(value)
    if number is None or not low <= number <= high:
        allowed = f"an integer >= {_plain(low)}" + (f" and <= {_plain(high)}" if high < math.inf else "")
        raise InputError(f"{name} must be {allowed}, got {brief(value if number is None else number)}")
    return number


def _plain(bound: float) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def common_shape(**arrays: np.ndarray) -> tuple[int, ...]:
    """The shape that the named arrays broadcast to; the error names two that do not fit and says how to get a grid."""
    import numpy as np

    shapes = {name: np.shape(array) for name, array in arrays.items()}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        first, second = next(pair for pair in combinations(shapes, 2) if not _fit(shapes[pair[0]], shapes[pair[1]]))
        kinds = (shapes[first], shapes[second])
        if all(len(shape) == 1 for shape in kinds):
            sizes = f"{first} has {kinds[0][0]} values and {second} {kinds[1][0]}"
        else:
            sizes = f"{first} has the shape {kinds[0]} and {second} {kinds[1]}"
        raise InputError(
            f"{sizes}: give arrays that broadcast, e.g. {first}[:, None] and {second}[None, :] for a grid"
        ) from None


def _fit(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(first[::-1], second[::-1], strict=False))


def check_like(like: str, values: np.ndarray, **arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return arrays in the shape of the `values` called `like`, single numbers repeated, or say which has another."""
    import numpy as np

    for name, array in arrays.items():
        if array.ndim and array.shape != values.shape:
            raise InputError(f"{name} must be a number or have shape {values.shape} like {like}, got {array.shape}")
    return tuple(np.broadcast_to(array, values.shape) for array in arrays.values())


def check_symmetric(name: str, value: Any, size: int | None = None, *, largest: float = 1e300) -> np.ndarray:
    """Return a symmetric matrix, symmetric to 1e-9 of its largest entry, or say what is wrong with it."""
    import numpy as np

    matrix = check_array(name, value, ndim=2, low=-largest, high=largest)
    if size is not None and matrix.shape != (size, size):
        raise InputError(f"{name} must have shape ({size}, {size}), got {matrix.shape}")
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} must be a square matrix, got shape {matrix.shape}")
    difference = np.abs(matrix - matrix.T).max()
    if difference > 1e-9 * np.abs(matrix).max():
        raise InputError(f"{name} must be symmetric, got differences up to {difference:g}")
    return matrix


def check_choice(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Return `value` if it is one of `allowed`, else name the allowed values and the nearest one."""
    import numpy as np

    allowed = list(allowed)
    # An array is equal to a name in every entry, which is no truth value.
    if (not np.isscalar(value) and value is not None) or value not in allowed:
        listed = ", ".join(map(str, allowed))
        raise InputError(f"{name} must be one of {listed}; got {brief(value)}{suggest(value, allowed)}")
    return value


def suggest(word: Any, known: Iterable[Any]) -> str:
    """The end of an error message: the known names nearest to `word`, or nothing."""
    near = difflib.get_close_matches(brief(word).strip("'\""), [str(k) for k in known], n=2, cutoff=0.5)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def check_writable(file: Path) -> None:
    """Refuse an output that cannot be written before anything is computed for it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        existed = file.exists()
        with file.open("ab"):
            pass
        if not existed:
            file.unlink()
    except OSError as error:
        raise InputError(f"output {file} cannot be written: {error.strerror or error}") from None


def stamp(file: Path) -> tuple[int, ...]:
    """What tells versions of a file apart; () if there is no such file."""
    return (file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else ()


def write_at_once(text: str, file: Path) -> None:
    """Write a file so that a reader finds the old one or the new one, whole."""
    target = file.resolve()
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(target)
    except OSError as error:
        raise InputError(f"output {file} cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)

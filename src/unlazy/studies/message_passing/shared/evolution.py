"""What the studies of state evolution share: panels of all their cases and draws of fixed numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab.study import Picture
from unlazy.plotting.panels import Panel

if TYPE_CHECKING:
    import xarray as xr

CAPTION = "Lines: theory. Points: means over seeds with 99% intervals."


def case_panel(
    output: str,
    parts: Mapping[str, Callable[[xr.Dataset], str]],
    x: str = "n",
    *,
    columns: int = 0,
    heading: str = "",
    **options: Any,
) -> Panel:
    """A curve for each combination of the parameters of some parts, which are given with the words for a case.

    With `columns` the figure has a legend of so many below its panels.
    """

    def draw(axes: Any, **given: Picture) -> None:
        from unlazy.plotting import style

        found = [
            (words(case[1]), *case) for name, words in parts.items() if name in given for case in _cases(given[name], x)
        ]
        for index, (text, line, points) in enumerate(found):
            color, marker = style.colour(index), style.marker(index)
            if line.sizes[x] > 1:
                style.theory(axes, line[x], line[output], color=color)
            else:
                axes.plot(line[x], line[output], "_", color=color, markersize=15, zorder=2)
            style.simulation(axes, points[x], points[output], color=color, marker=marker, label=text)
        if columns:
            handles = axes.get_legend_handles_labels()
            axes.figure.legend(*handles, loc="outside lower center", ncols=columns, title=heading or None)

    part = next(iter(parts))
    return Panel(output, x, part=part, points=False, theory=False, legend=False, draw=draw, **options)


def _cases(part: Picture, path: str) -> list[tuple[xr.Dataset, xr.Dataset]]:
    """Theory and simulation along a path for each combination of the other parameters of a part."""
    dims = [dim for dim in part.simulated.test_error.dims if dim not in (path, "seed")]
    if not dims:
        return [(part.lines, part.simulated)]
    lines, points = (data.stack(case=dims) for data in (part.lines, part.simulated))
    found = [(lines.isel(case=i), points.isel(case=i)) for i in range(points.sizes["case"])]
    return [(line, point.assign_attrs(part.simulated.attrs)) for line, point in found]


def fixed_count(uniform: np.ndarray, share: float, sizes: Sequence[int]) -> np.ndarray:
    """Which samples are chosen, given a uniform number each: the same number in every draw of each nested set."""
    chosen = np.zeros(uniform.size, bool)
    begin, count = 0, 0
    for end in sorted(sizes):
        more = round(share * end) - count
        chosen[begin + np.argsort(uniform[begin:end])[:more]] = True
        begin, count = end, count + more
    return chosen

"""Figures of learned metrics; apart from what is simulated, so that a new figure recomputes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.lab import Part, parameter
from unlazy.plotting.panels import Panel, Panels, panels

RISKS = ("ridge_risk", "bayes_risk", "evidence_risk", "dof_risk")
LABELS = ("best ridge", "Bayes, prior known", "metric by evidence", "metric with DoF")


def risks_against_size(study: Callable[[], Any], steps: int, rate: float, text: str) -> Panels:
    """The figure of an example in which the dimension grows with n; `study` gives its class, which is not made yet."""
    return panels(
        Panel(
            RISKS,
            x="n",
            at={"steps": steps},
            labels=LABELS,
            legend="lower left",
            log="xy",
            draw=lambda axes, main, **_: _continue_theory(axes, study(), main, rate, text),
        ),
        width=5.2,
        height=3.4,
        caption="Theory is continued to sizes that are not simulated; learned metrics have none. Grey, dashed: only a "
        "slope to compare with.",
    )


def _continue_theory(axes: Any, study: Any, main: Part, rate: float, text: str) -> None:
    """Ridge and Bayes at sizes that nobody can draw, and the rate below them."""
    from unlazy.plotting import style

    points = main.simulated
    base = {name: points.attrs[name] for name in study.parameters() if name in points.attrs and name != "n"}
    drawn = np.atleast_1d(parameter(points, "n"))
    sizes = np.unique(np.geomspace(drawn.max(), max(1280, drawn.max()), 30).astype(int))
    rows = [study(**{**base, "n": int(n)}).predict() for n in sizes]
    for index, name in enumerate(RISKS[:2]):
        style.theory(axes, sizes, [row[name] for row in rows], color=style.colour(index))
    whole = np.geomspace(drawn.min(), sizes[-1], 30)
    guide = 0.6 * rows[-1]["bayes_risk"] * (whole / sizes[-1]) ** rate
    style.theory(axes, whole, guide, color="#888888", dashed=True, label=text)

"""`FeatureProbe` as a line of text and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.diagnostics.pages import figure, mark
from unlazy.plotting import style
from unlazy.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.features.probe import FeatureProbe


def text(probe: FeatureProbe) -> str:
    """The last checkpoint, and for networks the best one."""
    parts = [f"signal share {_share(probe.signal_share[-1])} ({probe.chance_share:.3f} by chance)"]
    if probe.response_gap is not None:
        parts.append(f"response gap {_share(probe.response_gap[-1])}")
    if probe.margin_gap is not None and probe.training_fit is not None and probe.held_out_accuracy is not None:
        best = probe.best
        parts += [
            f"margin gap {_share(probe.margin_gap[-1])}",
            f"training fit {probe.training_fit[-1]:.3f}",
            f"held-out accuracy {probe.held_out_accuracy[-1]:.3f} (best {probe.held_out_accuracy[best]:.3f} at step "
            f"{probe.steps[best]:g})",
        ]
    if probe.flipped_fit is not None:
        parts.append(f"{probe.flipped_fit[-1]:.0%} of {probe.flipped_labels} flipped labels memorised")
    head = f"{probe.n} samples of {probe.classes} classes, {probe.held_out} held out, at step {probe.steps[-1]:g}: "
    return head + ", ".join(parts)


def _share(value: float) -> str:
    return number(value, decimals=3, missing="undefined")


def figure_of(probe: FeatureProbe) -> Figure:
    """One panel for plain weights, two for networks."""
    draw = (_draw_shares,) if probe.training_fit is None else (_draw_shares, _draw_fits)
    return figure(probe, *draw, width=3.6, height=3.2)


def _draw_shares(axes: Axes, probe: FeatureProbe) -> None:
    named = (("response gap", probe.response_gap), ("margin gap", probe.margin_gap))
    curves = [("signal share", probe.signal_share), *((name, gap) for name, gap in named if gap is not None)]
    _draw(axes, probe, curves)
    mark(axes, y=probe.chance_share, linestyle=":", label="share by chance")
    values = np.concatenate([values for _, values in curves])
    finite = values[np.isfinite(values)]
    low = min(0.0, finite.min()) if finite.size else 0.0
    high = max(1.0, finite.max()) if finite.size else 1.0
    axes.set_ylim(max(low, -0.5) - 0.03, min(high, 1.5) + 0.03)
    axes.set_ylabel("share")
    axes.set_title("signal or memory")
    _legend_below(axes)


def _draw_fits(axes: Axes, probe: FeatureProbe) -> None:
    curves = [("held-out", probe.held_out_accuracy)]
    if probe.flipped_fit is None:
        curves.append(("training", probe.training_fit))
    else:
        curves += [
            ("clean training", probe.clean_fit),
            ("flipped, memorised", probe.flipped_fit),
            ("flipped, true label", probe.flipped_recovered),
        ]
    _draw(axes, probe, [(name, values) for name, values in curves if values is not None])
    if probe.steps[probe.best] > 0:
        mark(axes, x=probe.steps[probe.best])
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("share of samples")
    assert probe.held_out_accuracy is not None
    axes.set_title(
        f"held-out accuracy: best {probe.held_out_accuracy[probe.best]:.3f}, last {probe.held_out_accuracy[-1]:.3f}"
    )
    _legend_below(axes)


def _draw(axes: Axes, probe: FeatureProbe, curves: list[tuple[str, np.ndarray]]) -> None:
    steps = probe.steps
    positive = steps[steps > 0]
    wide = positive.size > 1 and positive[-1] > 20 * positive[0]
    # a logarithmic axis has no place for step 0, at which nothing is learned
    shown = steps > 0 if wide else np.ones(steps.size, bool)
    for index, (name, values) in enumerate(curves):
        options: dict[str, Any] = {"marker": style.marker(index), "markersize": 3.5, "color": style.colour(index)}
        axes.plot(steps[shown], values[shown], "-", label=name, **options)
    if wide:
        axes.set_xlim(0.8 * positive[0], 1.25 * positive[-1])
        style.log_scale(axes, "x")
    axes.set_xlabel("step")


def _legend_below(axes: Axes) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

"""The report on a network as sentences, a figure, JSON and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError, write_at_once
from unlazy.diagnostics.pages import mark, paragraph, web_page
from unlazy.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.probing.report import NetworkReport

_SHOWN_SUSPECTS = 10
_TITLES = ("Lazy or rich", "Signal or memory", "What else would do", "More data")


def sentences(report: NetworkReport) -> tuple[str, ...]:
    return tuple(say(report) for say in (_regime, _memory, _others, _more_data))


def _percent(value: float, decimals: int = 0) -> str:
    return f"{100 * value:.{decimals}f}%"


def _regime(report: NetworkReport) -> str:
    from unlazy.diagnostics.probing.report import LAZY, RICH

    data = report.dataset
    if report._unchanged:
        return "Nothing changed between the first and the last checkpoint: their weights and outputs are the same."
    shares = data.outlier_share.to_numpy() if "outlier_share" in data else np.array([np.nan])
    wide = shares[np.isfinite(shares)]
    if report.lazy_or_rich == "untrained":
        words = _untrained(report)
    elif report.lazy_or_rich == "unknown":
        words = "This is not decided: no layer that changed is at least 40 wide on both sides"
    else:
        start = {
            "lazy": "The network learned lazily",
            "rich": "The network learned features",
            "between": "The network is between lazy and rich",
        }[report.lazy_or_rich]
        spread = f" ({_percent(wide.min())} to {_percent(wide.max())})" if wide.size > 1 else ""
        layers = "its wide layer's change" if wide.size == 1 else f"the change of its {wide.size} wide layers"
        words = (
            f"{start}: {_percent(report.outlier_share)}{spread} of {layers} stands out of the noise of the weights "
            f"(lazy below {_percent(LAZY)}, rich above {_percent(RICH)}; cuts are provisional)"
        )
    more = []
    if np.isfinite(report._moved):
        more.append(f"weights moved by {report._moved:.2g} of their initial size (median over layers)")
    if "kernel_alignment" in data:
        more.append(
            f"the last hidden kernel keeps an alignment of {float(data.kernel_alignment[-1]):.2f} with its start"
        )
    if "readout_gain" in data:
        gain, error = float(data.readout_gain), float(data.readout_gain_deviation)
        start, end = (_percent(float(data.readout_error[i]), 1) for i in (0, -1))
        more.append(
            f"a fresh readout errs on {end} of held-out rows where one of the initial features errs on {start} (gain "
            f"{100 * gain:.1f} ± {200 * error:.1f} points)"
        )
    return _ended(words, more)


def _untrained(report: NetworkReport) -> str:
    from unlazy.diagnostics.probing.report import HARDLY

    fit = report.dataset.training_fit.to_numpy()
    start = "has not learned its training labels" if report._moved > HARDLY else "has hardly been trained"
    chance = float(report.dataset.training_fit_by_chance[-1])
    than = f"by chance ({_percent(chance)})" if report._by_chance else f"at its start ({_percent(fit[0])})"
    return f"The network {start}: it predicts {_percent(fit[-1])} of the training labels, no better than {than}"


def _memory(report: NetworkReport) -> str:
    data = report.dataset
    fit, gap, error = (float(data[name][-1]) for name in ("training_fit", "margin_gap", "margin_gap_deviation"))
    shared = f"new rows lack {_percent(gap)} ± {_percent(2 * error)} of the training margin"
    words = {
        "memory": f"It has memorised: it fits {_percent(fit)} of the training labels, and {shared}",
        "signal": f"What it learned is mostly signal: it fits {_percent(fit)} of the training labels, and {shared}",
        "between": f"This is not decided: it fits {_percent(fit)} of the training labels, and {shared}",
        "unfitted": f"It fits only {_percent(fit)} of the training labels, so that its margins do not speak of memory",
    }[report.signal_or_memory]
    more = []
    if "flipped_fit" in data:
        more.append(
            f"of the flipped labels it fits {_percent(float(data.flipped_fit[-1]))} and sees through "
            f"{_percent(float(data.flipped_recovered[-1]))}"
        )
    if "signal_share" in data and data.sizes["checkpoint"] > 2:
        shares = data.signal_share.to_numpy()
        if np.isfinite(shares[-1]) and np.nanmax(shares) > 0:
            kept = shares[-1] / np.nanmax(shares)
            more.append(f"the share of its change along class means is {kept:.2f} of its highest on the way")
    if "labels_predicted" in data:
        more.append(
            f"the {data.label_kernel.item()} predicts {_percent(float(data.labels_predicted))} of the training labels "
            f"from the other rows, {_percent(float(data.labels_expected))} of the held-out ones"
        )
    if "wrong_share" in data and report.suspects.size:
        share, deviation = float(data.wrong_share), float(data.wrong_share_deviation)
        first = ", ".join(map(str, report.suspects[:_SHOWN_SUSPECTS]))
        more.append(
            f"so {_percent(share)} ± {_percent(2 * deviation)} of the training labels look wrong if the held-out ones "
            f"are right, first of all those of rows {first}"
        )
    return _ended(words, more)


def _others(report: NetworkReport) -> str:
    data = report.dataset
    names, errors = data.method.to_numpy(), data.method_error.to_numpy()
    own, apart = data.method_deviation.to_numpy()[0], data.method_difference_deviation.to_numpy()
    found = f"The network errs on {_percent(errors[0], 1)} ± {_percent(2 * own, 1)} of held-out rows"
    parts = []
    for name, error, deviation in zip(names[1:], errors[1:], apart[1:], strict=True):
        difference = error - errors[0]
        word = "as well" if abs(difference) < 2 * deviation else "better" if difference < 0 else "worse"
        parts.append(f"{name} on {_percent(error, 1)} ({word})")
    if not parts:
        return f"{found}."
    count = f"; these had {data.attrs['rows']} of the {data.attrs['n']} training rows"
    return f"{found}, {', '.join(parts)}{count if data.attrs['rows'] < data.attrs['n'] else ''}."


def _more_data(report: NetworkReport) -> str:
    data = report.dataset
    if "forecast_error" not in data:
        return "What more rows would bring is not forecast: there are no features of held-out rows."
    known = np.flatnonzero(np.isfinite(data.forecast_error.to_numpy()))
    if known.size < 2:
        return "What more rows would bring to a readout of its features is out of range of the held-out rows."
    last = known[-1]
    now = float(data.forecast_error[0])
    then, low, high = (float(data[f"forecast_{name}"][last]) for name in ("error", "low", "high"))
    few, many = (int(data["size"][i]) for i in (0, last))
    doubt = "" if bool(data.forecast_reliable[last]) else ", which is doubtful"
    return (
        f"A fresh readout of its features leaves {_percent(now)} of the labels' variance with {few} rows and would "
        f"leave {_percent(then)} ({_percent(low)} to {_percent(high)}{doubt}) with {many}; "
        "this is forecast from held-out rows, as labels of training rows have leaked into their features."
    )


def _ended(words: str, more: list[str]) -> str:
    return "; ".join([words, *more]) + "."


def text(report: NetworkReport) -> str:
    """Notes and the four sentences."""
    lines = [paragraph(f"note: {note}", 6) for note in report.notes]
    attrs = report.dataset.attrs
    lines.append(f"{attrs['n']} training rows of {attrs['classes']} classes, {attrs['held_out']} held out")
    for title, sentence in zip(_TITLES, report.sentences, strict=True):
        lines += ["", paragraph(f"{title}. {sentence}")]
    return "\n".join(lines)


def as_json(report: NetworkReport) -> dict[str, Any]:
    results = {name: value.to_numpy() for name, value in report.dataset.variables.items()}
    return {
        **report.dataset.attrs,
        "lazy_or_rich": report.lazy_or_rich,
        "signal_or_memory": report.signal_or_memory,
        "sentences": list(report.sentences),
        "suspects": report.suspects,
        "notes": list(report.notes),
        "results": {str(name): value.item() if value.ndim == 0 else value for name, value in results.items()},
    }


def figure_of(report: NetworkReport) -> Figure:
    draw = [_draw_fits, _draw_layers, _draw_labels, _draw_others]
    drawing, axes = style.panels(2, 2, width=4.0, height=2.9)
    with style.style():
        for panel, fill in zip(np.ravel(axes), draw, strict=True):
            fill(panel, report)
    return drawing


def _draw_fits(axes: Axes, report: NetworkReport) -> None:
    data = report.dataset
    names = {
        "training_fit": "training labels fitted",
        "held_out_accuracy": "held-out accuracy",
        "flipped_fit": "flipped labels fitted",
        "margin_gap": "margin gap",
        "signal_share": "signal share",
    }
    steps = data.checkpoint.to_numpy()
    places = np.arange(steps.size)
    for index, (name, label) in enumerate((n, label) for n, label in names.items() if n in data):
        axes.plot(
            places, data[name], marker=style.marker(index), color=style.colour(index), label=label, markersize=3.5
        )
    shown = places[:: -(-places.size // 8)]
    axes.set_xticks(shown, [f"{steps[i]:g}" for i in shown])
    axes.set_ylim(-0.05, 1.05)
    axes.set_xlabel("checkpoint")
    axes.set_ylabel("share")
    axes.set_title("signal or memory")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=7)


def _draw_layers(axes: Axes, report: NetworkReport) -> None:
    from unlazy.diagnostics.probing.report import LAZY, RICH

    data = report.dataset
    axes.set_title(f"lazy or rich: {report.lazy_or_rich}")
    if "outlier_share" not in data:
        _empty(axes, "no weights")
        return
    kept = np.isfinite(data.outlier_share.to_numpy())
    if not kept.any():
        _empty(axes, "no layer is 40 wide")
        return
    names, shares = data.layer.to_numpy()[kept], data.outlier_share.to_numpy()[kept]
    places = np.arange(len(names))[::-1]
    axes.barh(places, shares, color=style.colour(0), height=0.6)
    axes.set_yticks(places, [str(name)[-22:] for name in names])
    for cut in (LAZY, RICH):
        mark(axes, x=cut)
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_xlabel("share of the change that stands out of noise")


def _draw_labels(axes: Axes, report: NetworkReport) -> None:
    data = report.dataset
    axes.set_title("training labels, as the other rows see them")
    if "label_margin" not in data:
        _empty(axes, "no kernel")
        return
    margins = data.label_margin.to_numpy()
    suspect = np.isin(data.row.to_numpy(), report.suspects)
    bins = np.linspace(margins.min(), margins.max(), 31).tolist()
    axes.hist(margins[~suspect], bins=bins, color=style.colour(0), label="in accord")
    if suspect.any():
        axes.hist(margins[suspect], bins=bins, color=style.colour(1), label="look wrong")
        axes.legend()
    mark(axes, x=0)
    axes.set_xlabel("leave-one-out margin")
    axes.set_ylabel("rows")


def _draw_others(axes: Axes, report: NetworkReport) -> None:
    data = report.dataset
    errors, deviations = data.method_error.to_numpy(), data.method_deviation.to_numpy()
    places = np.arange(len(errors))[::-1]
    axes.barh(places, 100 * errors, xerr=200 * deviations, color=style.colour(2), height=0.6, capsize=2)
    axes.set_yticks(places, [str(name) for name in data.method.to_numpy()])
    axes.set_xlim(left=0)
    axes.set_xlabel("held-out errors, %")
    axes.set_title("what else would do")


def _empty(axes: Axes, why: str) -> None:
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes)
    axes.set_axis_off()


def save(report: NetworkReport, file: Path) -> None:
    if file.suffix == ".nc":
        report.dataset.to_netcdf(file, engine="h5netcdf")
        return
    if file.suffix != ".html":
        raise InputError(f"output must end in .html or .nc, got {file.name}")
    write_at_once(_page(report), file)


def _page(report: NetworkReport) -> str:
    attrs = report.dataset.attrs
    intro = f"{attrs['n']} training rows of {attrs['classes']} classes, {attrs['held_out']} held out."
    titled = dict(zip(_TITLES, report.sentences, strict=True))
    return web_page(
        "What the network learned", [intro, *(f"Note: {note}" for note in report.notes)], report.figure(), titled=titled
    )

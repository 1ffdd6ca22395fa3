"""Fields, outputs, checks and measures that several studies have, and what a run ends with."""

from __future__ import annotations

from typing import Any

from unlazy.checks import InputError
from unlazy.lab import DIVERGED_AT, Missing, Output, value
from unlazy.plotting.panels import Level

GUESSING = Level(0.5, "guessing", dashed=True)
"""The test error of a coin."""
RUN_OUTPUTS = {
    "training_loss": Output("training loss", scale="log"),
    "signal_coefficient": Output("largest signal coefficient", r"\max\gamma", scale="log"),
    "noise_coefficient": Output("largest noise coefficient", r"\max\rho", scale="log"),
    "diverged_at": DIVERGED_AT,
}
"""Of the studies of training strategies; `end_of_run` has them."""
ATTENTION_OUTPUTS = {
    "training_loss": Output("training loss", "L_S", scale="log"),
    "test_loss": Output("test loss", "L_D", scale="log"),
    "test_error": Output("test error"),
    "attention": Output("attention to the signal, training samples", short="attention to the signal"),
    "fresh_attention": Output("attention to the signal, fresh samples"),
    "value_signal": Output("signal in the value direction", r"\langle v,\mu\rangle"),
    "value_noise": Output("mean noise in the value direction", r"|\langle v,\xi\rangle|"),
    "balance": Output("signal over noise", r"\langle v,\mu\rangle/|\langle v,\xi\rangle|", scale="log"),
    "first_balance": Output("signal over noise in the first step of the value direction", scale="log"),
    "diverged_at": DIVERGED_AT,
}
"""Of the studies of attention; `attention_run` has them."""
ATTENTION_FULL: dict[str, Any] = {
    "signal_strength": [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0],
    "width": [8, 16, 32],
    "n": 40,
    "d": 1000,
    "seeds": 16,
}
UNIFORM = Level(lambda data: 1 / data.attrs["tokens"], "uniform", dashed=True)
"""The weight of every token in uniform attention."""


def signal_strength(default: float, label: str = "signal strength n SNR^2", *, power: str = "2", **bounds: Any) -> Any:
    """The field n SNR^q."""
    symbol = rf"n\,\mathrm{{SNR}}^{power}"
    return value(default, label, symbol=symbol, scale="log", short="signal strength", **bounds)


def relative_step_size(default: float, high: float = 100) -> Any:
    """The field of a step size in units in which a step of descent moves noise alike at all sizes."""
    label, short = "step size, times sigma^2 d/(nm)", "step size"
    return value(default, label, symbol=r"\eta", above=0, high=high, scale="log", paired=True, short=short)


def end_of_run(run: Any) -> dict[str, Any]:
    """The outputs of `RUN_OUTPUTS`, of a `token_gram.PatchRun`."""
    import jax.numpy as jnp

    return {
        "training_loss": run.state.loss,
        "signal_coefficient": jnp.max(run.signals),
        "noise_coefficient": jnp.max(jnp.abs(run.noises)),
        "diverged_at": run.state.diverged_at,
    }


def in_settings(data: Any, names: tuple[str, ...], *settings: tuple[Any, ...]) -> Any:
    """A run's data in these settings of parameters that share an axis; without them the claim is untested."""
    together = len({data[name].dims for name in names}) == 1
    rows = list(zip(*(data[name].values.tolist() for name in names), strict=True)) if together else []
    if missing := [setting for setting in settings if setting not in rows]:
        raise Missing(f"the run has no setting ({', '.join(names)}) = {missing[0]}, which the claim is about")
    return data.isel({data[names[0]].dims[0]: [rows.index(setting) for setting in settings]})


def check_even(name: str, count: int) -> None:
    """Raise unless the samples can be split into two classes of the same size."""
    if count % 2:
        raise InputError(f"{name} must be even, for as many samples of one class as of the other; got {count}")


def check_two_patches(study: Any) -> None:
    """Raise unless the sizes of a study of [y mu, xi] fit together: n, d, width and what memory is kept for."""
    largest_n = "largest_n" if hasattr(study, "largest_n") else "n"
    check_even("n", study.n)
    study.check_at_most(("n", largest_n), ("width", "largest_width"))
    check_dimension(study.d, samples=getattr(study, largest_n), width=study.largest_width)


def check_dimension(d: float, *, samples: int, width: int, shared: int = 1, own: int = 1) -> None:
    """Raise unless there is room for features, `own` noise vectors of each sample and two classes of neurons."""
    least = shared + samples * own + 2 * width
    if d < least:
        raise InputError(
            f"d must be at least {least} = {shared} features + {samples * own} noises + {2 * width} neurons, got {d:g}"
        )

"""Contrastive learning with one modality memorises noise; a second one with a stronger signal makes it learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import (
    DIVERGED_AT,
    Claim,
    Output,
    Part,
    Source,
    Study,
    at_least,
    at_most,
    between,
    parameter,
    relative_deviation,
    static,
    value,
)
from unlazy.studies.signal_noise.shared.checks import check_even, check_room
from unlazy.studies.signal_noise.shared.contrastive import RATE_BETWEEN, draw_modality, largest, learn, probe_error
from unlazy.studies.signal_noise.shared.sources import TUTORIAL

if TYPE_CHECKING:
    import xarray as xr

HUANG = Source(
    "huang2024contrastive",
    "Huang, Wei and Han, Andi and Chen, Yongqiang and Cao, Yuan and Xu, Zhiqiang and Suzuki, Taiji",
    2024,
    "On the comparison between multi-modal and single-modal contrastive learning",
    "Advances in Neural Information Processing Systems 37",
    kind="inproceedings",
)
HUANG_TEXT = "Huang et al. 2024, theorems on the tutorial's slide"
ARMS = ("modalities", "gain")
SINGLE = (1, 1.0)
NEEDS: dict[str, Any] = {"modalities": 4, "strength": (0.6,)}


def _cell(part: Part, name: str, strength: float, arm: tuple[int, float]) -> xr.DataArray:
    data = part.simulated[name].sel(strength=strength)
    rows = list(zip(*(data[key].values.tolist() for key in ARMS), strict=True))
    return data.isel({data.gain.dims[0]: rows.index(arm)})


def _cells(part: Part, name: str, *, above: bool) -> list[xr.DataArray]:
    """An output in the cells whose signal rate is above that of the noise, or not."""
    rows = list(zip(*(part.simulated[key].values.tolist() for key in ARMS), strict=True))
    strengths = np.atleast_1d(parameter(part.simulated, "strength")).tolist()
    cells = [(s, row) for s in strengths for row in rows if (row[1] * s / 2 > 1) == above]
    return [_cell(part, name, *cell) for cell in cells]


def _separation(main: Part, small: Part) -> list[Any]:
    """By how much the log ratio grows away from 0, in the direction that the rate says, from the smaller start."""
    rows = list(zip(*(small.simulated[key].values.tolist() for key in ARMS), strict=True))
    cells = [(s, row) for s in small.simulated.strength.values.tolist() for row in rows]
    return [
        (1 if gain * strength / 2 > 1 else -1)
        * np.log(_cell(small, "balance", strength, (count, gain)) / _cell(main, "balance", strength, (count, gain)))
        for strength, (count, gain) in cells
    ]


@dataclass(frozen=True)
class ContrastiveModalities(Study):
    """Embeddings relu(W x), similarity summed over neurons and patches, negatives of the other class, temperature 1.

    One modality: the partner of [y mu, xi] is [y mu, xi + eps]. Two: it is [y C mu, xi'] under another encoder. Noise
    is orthogonal to mu. The sizes are those of the third round of trials; that signal dominates iff its rate is above
    that of the noise was declared before it. The probe is fitted to 200 fresh labelled samples.
    After inconclusive runs fit asks for a tenth of the first loss instead of 0.1, and small-start for a larger ratio
    instead of twice the ratio.
    """

    name = "contrastive-modalities"
    topic = "signal_noise"
    question = "Why does contrastive learning find the shared signal with two modalities and not with one?"
    caption = "Points: simulation, means over seeds with 99% intervals. Dashed: where theory has signal and noise even."
    sources = (HUANG, TUTORIAL)
    precision = "float32"

    modalities: int = value(2, "modalities: 1 (augmentation) or 2", low=1, high=2, paired=True)
    gain: float = value(4.0, "signal of the second modality over that of the first", symbol="C", above=0, high=1e3)
    strength: float = value(
        0.6, "signal strength n SNR^2 of the first modality", symbol=r"n\,\mathrm{SNR}^2", above=0, high=1e3
    )
    width: int = value(24, "neurons of an encoder", symbol="m", low=1, high=1024)
    start: float = value(
        1e-4, "standard deviation of the initial weights", symbol=r"\sigma_0", above=0, high=1, scale="log"
    )
    most_neurons: int = static(48, "neurons that memory is kept for", low=1, high=1024, paired=True)
    n: int = static(40, "training samples", symbol="n", low=2, high=1000)
    d: int = static(1000, "dimension of a patch", symbol="d", low=3, high=100_000, scale="log")
    augmentation: float = value(0.5, "standard deviation of the augmentation's noise", low=0, high=10)
    learning_rate: float = value(0.5, "learning rate, times sigma^2 d/n", symbol=r"\eta", above=0, high=10)
    steps: int = static(600, "most steps of gradient descent", low=1, high=1_000_000, scale="log")
    target: float = value(0.1, "contrastive loss at which training stops", above=0, high=10)

    outputs = {
        "balance": Output(
            "largest signal over largest noise", r"\max|\langle w,\mu\rangle|/\max|\langle w,\xi_i\rangle|", scale="log"
        ),
        "probe": Output("test error of a linear probe"),
        "contrastive_loss": Output("contrastive loss", scale="log"),
        "signal_growth": Output("growth of the signal per step, early", scale="log"),
        "noise_growth": Output("growth of the noise per step, early", scale="log"),
        "rate": Output("rate of the signal over that of the noise", r"r", theory_only=True),
        "diverged_at": DIVERGED_AT,
    }
    presets = {
        "quick": {
            "main": {
                ARMS: [SINGLE, (2, 1.0), (2, 2.0), (2, 4.0), (2, 8.0)],
                "strength": [0.3, 0.6],
                "width": [24, 48],
                "steps": 400,
                "seeds": 8,
            },
            "small": {
                ARMS: [SINGLE, (2, 2.0), (2, 4.0), (2, 8.0)],
                "strength": [0.6],
                "start": 1e-12,
                "width": [24, 48],
                "steps": 400,
                "seeds": 8,
            },
        },
        "full": {
            "main": {
                ARMS: [SINGLE, (2, 1.0), (2, 2.0), (2, 4.0), (2, 6.0), (2, 8.0), (2, 16.0)],
                "strength": [0.1, 0.3, 0.6, 1.0],
                "width": [24, 48, 96],
                "most_neurons": 96,
                "seeds": 12,
            },
            "small": {
                ARMS: [SINGLE, (2, 1.0), (2, 2.0), (2, 4.0), (2, 8.0)],
                "strength": [0.3, 0.6],
                "start": 1e-12,
                "width": [24, 48, 96],
                "most_neurons": 96,
                "seeds": 12,
            },
        },
    }
    claims = (
        Claim(
            "fit",
            "precondition of the claims below",
            "Training succeeds: it ends with at most a tenth of the contrastive loss at the start, log(1 + n/2).",
            at_most(0.1),
            check=lambda *parts: [
                part.simulated.contrastive_loss / np.log1p(parameter(part.simulated, "n") / 2) for part in parts
            ],
            parts=("main", "small"),
        ),
        Claim(
            "single-memorises",
            HUANG_TEXT,
            "With one modality at n SNR^2 = 0.6 the encoder memorises noise: the largest signal is at most 0.1 of the "
            "largest noise.",
            at_most(0.1),
            check=lambda main: _cell(main, "balance", 0.6, SINGLE),
            needs=NEEDS,
        ),
        Claim(
            "single-probe",
            HUANG_TEXT,
            "A linear probe of it fails: its test error is at least 0.15.",
            at_least(0.15),
            check=lambda main: _cell(main, "probe", 0.6, SINGLE),
            needs=NEEDS,
        ),
        Claim(
            "multi-learns",
            HUANG_TEXT,
            "With a second modality whose signal is C = 8 times as strong it learns the signal: the ratio is at least "
            "1.",
            at_least(1.0),
            check=lambda main: _cell(main, "balance", 0.6, (2, 8.0)),
            needs=NEEDS,
        ),
        Claim(
            "multi-probe",
            HUANG_TEXT,
            "The probe succeeds wherever the signal's rate is above that of the noise: its test error is at most 0.02.",
            at_most(0.02),
            check=lambda main: _cells(main, "probe", above=True),
            needs=NEEDS,
        ),
        Claim(
            "noise-rate",
            "the project's linear rates, declared in advance",
            "Where the signal's rate is not above that of the noise, the ratio is below 1.",
            at_most(1.0),
            check=lambda main: _cells(main, "balance", above=False),
            needs=NEEDS,
        ),
        Claim(
            "signal-rate",
            "the project's linear rates, declared in advance",
            "Where the signal's rate C n SNR^2/2 is above 1, that of the noise, the ratio is above 1.",
            at_least(1.0),
            check=lambda main: _cells(main, "balance", above=True),
            needs=NEEDS,
            known_negative=(
                "At the rate 1.2 the ratio is about 0.3. The largest noise starts ahead, by sqrt(n/(n SNR^2)) and as "
                "the maximum of more numbers; the noises of samples overlap, so that it grows by 1.51 and not by 1.48 "
                "per step, where the signal grows by 1.57; and growth ends after log(1/sigma_0) units of time, too "
                "early to catch up. A smaller start gives it more time (claim small-start)."
            ),
        ),
        Claim(
            "small-start",
            "the project's linear rates",
            "A smaller start separates the two: from sigma_0 = 1e-12 instead of 1e-4, on the same samples, the ratio "
            "is larger where the signal's rate is above 1 and smaller where it is below, by at least 1%.",
            at_least(np.log(1.01)),
            check=_separation,
            parts=("main", "small"),
            needs=NEEDS,
        ),
        Claim(
            "growth",
            "the project's linear rates",
            "Early the signal of two modalities grows by the factor 1 + eta r n/(n + 2) per step, r = C n SNR^2/2 in "
            "units of sigma^2 d/n, within 2%.",
            between(-0.02, 0.02),
            check=lambda small: relative_deviation(small.simulated.signal_growth, small.predicted.signal_growth),
            parts=("small",),
        ),
    )

    def validate(self) -> None:
        check_even("n", self.n)
        check_room(self, width="most_neurons")
        if self.steps <= RATE_BETWEEN[1]:
            raise InputError(f"steps must be more than {RATE_BETWEEN[1]}, got {self.steps}")

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        keys = jax.random.split(key, 3)
        norm = jnp.sqrt(self.strength * self.d / self.n)
        first, second = (
            draw_modality(k, self.n, self.d, self.most_neurons, length, self.width, self.start)
            for k, length in zip(keys[:2], (norm, self.gain * norm), strict=True)
        )
        y = jnp.where(jnp.arange(self.n) % 2 == 0, 1.0, -1.0).astype(first.tokens.dtype)
        learned = learn(
            first,
            second,
            y,
            two=self.modalities == 2,
            augmentation=self.augmentation,
            learning_rate=self.learning_rate * self.n / self.d,
            steps=self.steps,
            target=self.target,
        )
        signal, noise = largest(learned.encoder, self.n)
        growth = [(sizes[1] / sizes[0]) ** (1 / (RATE_BETWEEN[1] - RATE_BETWEEN[0])) for sizes in learned.early]
        return {
            "balance": signal / noise,
            "probe": probe_error(keys[2], first, learned.encoder, self.n),
            "contrastive_loss": learned.loss,
            "signal_growth": growth[0],
            "noise_growth": growth[1],
            "diverged_at": learned.diverged_at,
        }

    def predict(self) -> dict[str, Any]:
        """Linear growth at small weights; the positive's softmax weight 1/(n/2 + 1) is what 1 lacks to n/(n + 2)."""
        from unlazy.theory.signal_noise.two_patches import contrastive_rates

        rate = contrastive_rates(self.strength, self.gain if self.modalities == 2 else None).signal
        return {"rate": rate, "signal_growth": 1 + self.learning_rate * rate * self.n / (self.n + 2)}

    def figure(self, main: Part, small: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.6, height=3.0)
        for index, part in enumerate((main, small)):
            text = rf"$\sigma_0 = 10^{{{np.log10(parameter(part.simulated, 'start')):.3g}}}$"
            data = part.simulated.isel(width=0, missing_dims="ignore")
            rate = part.predicted.rate.isel(width=0, missing_dims="ignore")
            rate = rate.broadcast_like(data.balance.isel(seed=0, drop=True))
            count = (rate * 0 + parameter(data, "modalities")).transpose(*rate.dims).values.ravel()
            for single in (True, False):
                chosen = np.flatnonzero(count == (1 if single else 2))
                # Side by side where the rates are equal.
                place = rate.values.ravel()[chosen] * (0.96 if single else 1.0)
                kind = "one modality" if single else "two"
                for axes, values in ((left, np.log10(data.balance)), (right, data.probe)):
                    cells = values.expand_dims("cell").stack(flat=["cell", *rate.dims]).transpose("flat", "seed")
                    style.simulation(
                        axes,
                        place,
                        cells.isel(flat=chosen),
                        color=style.colour(index),
                        marker=style.marker(0 if single else 1),
                        label=f"{kind}, {text}",
                    )
        for axes in (left, right):
            axes.axvline(1.0, color="#000000", linestyle="--", linewidth=0.9)
            style.log_scale(axes, "x")
            axes.set_xlabel(style.label("signal's rate over the noise's", r"C\,n\,\mathrm{SNR}^2/2"))
        left.axhline(0.0, color="#000000", linestyle="--", linewidth=0.9)
        left.set_ylabel(r"$\log_{10}$(signal / noise)")
        right.set_ylabel("test error of a linear probe")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return figure

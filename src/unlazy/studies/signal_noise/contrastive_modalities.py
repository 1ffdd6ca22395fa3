"""Contrastive learning with one modality memorises noise; a second one with a stronger signal makes it learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import DIVERGED_AT, Output, Study, cite, static, value
from unlazy.lab.claims import OWN, Change, at_least, at_most, claim, enough, kept, over_theory, parameter, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise.shared.checks import check_even, check_room
from unlazy.studies.signal_noise.shared.contrastive import RATE_BETWEEN, draw_modality, largest, learn, probe_error

ARMS = ("modalities", "gain")
SINGLE = (1, 1.0)
STRENGTH = 0.6
RATES = "linear growth rates at small weights"


def _whole(part):
    """The data, if they have the preset's arms and its strength."""
    enough(part.simulated, "modalities", 4)
    part.simulated.sel(strength=STRENGTH)
    return part.simulated


def _rows(data):
    return list(zip(*(data[name].values.tolist() for name in ARMS), strict=True))


def _cell(part, name, arm, strength=STRENGTH):
    """An output of one arm."""
    data = _whole(part)
    return data[name].sel(strength=strength).isel(modalities=_rows(data).index(arm))


def _cells(part, name, *, above):
    """An output in the cells whose signal rate is above that of the noise, or not."""
    data = _whole(part)
    return kept(data[name], (data.gain * data.strength / 2 > 1) == above)


def _along_rate(shown, count):
    """A function of what is shown of this many modalities, along the signal's rate over that of the noise."""

    def of(data):
        cells = shown(data).stack(cell=("modalities", "strength")).reset_index("cell")
        cells = cells.isel(cell=(cells.modalities == count).values)
        beside = 0.96 if count == 1 else 1.0
        return cells.assign_coords(rate=beside * cells.gain * cells.strength / 2).swap_dims(cell="rate")

    return of


def _panel(shown, ylabel, part, title, *marks):
    return Panel(
        (_along_rate(shown, 1), _along_rate(shown, 2)),
        x="rate",
        part=part,
        at={"width": 24},
        labels=("one modality", "two"),
        title=title,
        xlabel=r"signal's rate over the noise's $C\,n\,\mathrm{SNR}^2/2$",
        ylabel=ylabel,
        log="x",
        theory=False,
        xlim=(0.12, 3.0),
        marks=(Level(1.0, vertical=True, dashed=True), *marks),
    )


def _log_balance(data):
    return np.log10(data.balance)


@dataclass(frozen=True)
class ContrastiveModalities(Study):
    """Embeddings relu(W x), similarity summed over neurons and patches, negatives of the other class, temperature 1.

    One modality: the partner of [y mu, xi] is [y mu, xi + eps]. Two: it is [y C mu, xi'] under another encoder. Noise
    is orthogonal to mu. The probe is fitted to 200 fresh labelled samples. That signal dominates iff its rate is above
    that of the noise was declared before the runs.
    """

    question = "Why does contrastive learning find the shared signal with two modalities and not with one?"
    sources = cite("huang2024contrastive", "han2025tutorial")
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
    history = (
        Change("", "sizes", "those of the third round of trials"),
        Change("fit", "a tenth of the first loss in place of 0.1", "runs were inconclusive"),
        Change("small-start", "a larger ratio in place of twice the ratio", "runs were inconclusive"),
    )
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
    figure = panels(
        _panel(_log_balance, r"$\log_{10}$(signal / noise)", "main", r"$\sigma_0 = 10^{-4}$", Level(0.0, dashed=True)),
        _panel(lambda data: data.probe, "test error of a linear probe", "main", r"$\sigma_0 = 10^{-4}$"),
        _panel(
            _log_balance, r"$\log_{10}$(signal / noise)", "small", r"$\sigma_0 = 10^{-12}$", Level(0.0, dashed=True)
        ),
        _panel(lambda data: data.probe, "test error of a linear probe", "small", r"$\sigma_0 = 10^{-12}$"),
        columns=2,
        caption="Dashed: where theory has signal and noise even. One modality is shifted a little aside.",
    )

    @claim(OWN, "precondition of the claims below", at_most(0.1))
    def fit(main, small):
        """Training succeeds: the contrastive loss at its end over that at its start, log(1 + n/2), is {criterion}."""
        return [
            part.simulated.contrastive_loss / np.log1p(parameter(part.simulated, "n") / 2) for part in (main, small)
        ]

    @claim("huang2024contrastive", "theorems on the tutorial's slide", at_most(0.1))
    def single_memorises(main):
        """With one modality at n SNR^2 = 0.6 the encoder memorises noise: the largest signal over the largest noise is
        {criterion}."""
        return _cell(main, "balance", SINGLE)

    @claim("huang2024contrastive", "theorems on the tutorial's slide", at_least(0.15))
    def single_probe(main):
        """A linear probe of it fails: its test error is {criterion}."""
        return _cell(main, "probe", SINGLE)

    @claim("huang2024contrastive", "theorems on the tutorial's slide", at_least(1.0))
    def multi_learns(main):
        """With a second modality whose signal is C = 8 times as strong it learns the signal: the ratio is
        {criterion}."""
        return _cell(main, "balance", (2, 8.0))

    @claim("huang2024contrastive", "theorems on the tutorial's slide", at_most(0.02))
    def multi_probe(main):
        """The probe succeeds wherever the signal's rate is above that of the noise: its test error is {criterion}."""
        return _cells(main, "probe", above=True)

    @claim(OWN, f"{RATES}, declared in advance", at_most(1.0))
    def noise_rate(main):
        """Where the signal's rate is not above that of the noise, the ratio is {criterion}."""
        return _cells(main, "balance", above=False)

    @claim(
        OWN,
        f"{RATES}, declared in advance",
        at_least(1.0),
        known_negative=(
            "At the rate 1.2 the ratio is about 0.3. The largest noise starts ahead, by sqrt(n/(n SNR^2)) and as "
            "the maximum of more numbers; the noises of samples overlap, so that it grows by 1.51 and not by 1.48 "
            "per step, where the signal grows by 1.57; and growth ends after log(1/sigma_0) units of time, too "
            "early to catch up. A smaller start gives it more time (claim small-start)."
        ),
    )
    def signal_rate(main):
        """Where the signal's rate C n SNR^2/2 is above 1, that of the noise, the ratio is {criterion}."""
        return _cells(main, "balance", above=True)

    @claim(OWN, RATES, at_least(np.log(1.01)))
    def small_start(main, small):
        """A smaller start separates the two: from sigma_0 = 1e-12 instead of 1e-4, on the same samples, the ratio is
        larger where the signal's rate is above 1 and smaller where it is below, its logarithm by {criterion}, which is
        1%."""
        _whole(main)
        cells = [(row, s) for s in _whole(small).strength.values.tolist() for row in _rows(small.simulated)]
        return [
            (1 if row[1] * strength / 2 > 1 else -1)
            * np.log(_cell(small, "balance", row, strength) / _cell(main, "balance", row, strength))
            for row, strength in cells
        ]

    @claim(OWN, RATES, within(0.02))
    def growth(small):
        """Early the signal of two modalities grows by the factor 1 + eta r n/(n + 2) per step, r = C n SNR^2/2 in units
        of sigma^2 d/n, {criterion}."""
        return over_theory(small, "signal_growth")

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

"""Adam, sign gradient descent and gradient descent on a sparse signal-noise model with adversarial feature noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import DIVERGED_AT, Output, Study, cite, static, value
from unlazy.lab.claims import OWN, Change, at_least, at_most, between, changes, claim, within
from unlazy.lab.measures import crossing, difference, kept, needs, over_theory, slope
from unlazy.plotting.panels import Level, Map, Panel, panels
from unlazy.studies.signal_noise.shared import GUESSING, check_even
from unlazy.theory.signal_noise.sign_descent import kept_signal, memorising_ridge, reversing_adversary

DESCENT: dict[str, Any] = {
    "optimiser": "gd",
    "relative_step_size": 0.5,
    "adversary": [0.01, 0.1, 0.5],
}
ALPHAS, SPARSITIES = np.geomspace(0.002, 0.5, 14).tolist(), [32, 64, 128, 256]
DEEP: dict[str, Any] = {"noise_coordinates": 64, "largest_noise_coordinates": 64, "adversary": 0.5}
STARTS: dict[Any, Any] = {("n", "initial_reach"): [(20, 1 / 20), (80, 1 / 80)]}
"""As the theorem has it, weights start at 1/n."""
LONG_STARTS: dict[Any, Any] = {("n", "initial_reach", "steps"): [(20, 1 / 20, 2500), (80, 1 / 80, 10_000)]}
"""Descent takes a time that is inverse to its start."""
RIDGES = [1e-5, 8e-5, 3e-4, 1e-3, 3e-3]
THEOREM, SLIDE = ("zou2023adam", "Theorem 4.1"), ("han2025tutorial", "slide on sign-GD and Adam")
SIZES = (
    "n = 20, and the sizes follow the theorem's powers of n with constants of our choice; training ends after T steps"
)


def _boundary(data):
    """alpha_* of every sparsity."""
    return data.noise_coordinates.copy(data=reversing_adversary(data.noise_coordinates.values))


def _errors(main, low, high):
    """Adam's test errors where alpha is so many times alpha_*."""
    data = main.simulated
    ratio = data.adversary / _boundary(data)
    return kept(data.test_error, (ratio >= low) & (ratio <= high))


def _crossing(main):
    """Where along alpha a quarter of Adam's neurons keep the signal's sign: half of those that have it at the start."""
    needs(main.simulated, noise_coordinates=tuple(SPARSITIES))
    return crossing(main.simulated.kept_signal.mean("seed"), "adversary", 0.25)


def _penalised(coupled, low, high, output="test_error"):
    """Test errors, or another output, at ridges that are so many times lambda_c."""
    ratio = coupled.simulated.weight_decay / np.ravel(coupled.predicted.memorising_ridge)[0]
    return kept(coupled.simulated[output], (ratio >= low) & (ratio <= high))


@dataclass(frozen=True)
class AdamVsGradientDescent(Study):
    """f = sum_r j_r [relu(<w_r, y e_1>)^3 + relu(<w_r, xi>)^3], 2m neurons, on patches [y e_1, xi].

    xi has s coordinates N(0, sigma^2) that no other sample has, and -alpha y in the first. As in the theorem |xi| is
    about 1, sigma = 1/sqrt(s), weights start at sigma_0 sqrt(s) = 1/n, and d is so large that supports do not meet.
    """

    question = "Does Adam generalise worse than gradient descent from the same start, and does weight decay repair it?"
    sources = cite("zou2023adam", "han2025tutorial")
    departs = f"{SIZES}, without the ridge that the theorem has."
    precision = "float32"

    optimiser: str = static("adam", "optimiser", choices=("gd", "adam", "sign"), paired=True)
    relative_step_size: float = value(
        0.2, "step size, times sigma_0 but for gradient descent", symbol=r"\eta", above=0, high=100, paired=True
    )
    steps: int = static(1000, "steps", low=1, high=1_000_000, scale="log", paired=True)
    adversary: float = value(
        0.5, "adversarial feature noise", symbol=r"\alpha", low=0, high=10, scale="log", paired=True
    )
    decay: str = static("decoupled", "weight decay", choices=("decoupled", "coupled"), paired=True)
    weight_decay: float = value(
        0.0, "ridge, or decoupled decay times the step size", symbol=r"\lambda", low=0, high=100, paired=True
    )
    width: int = static(20, "neurons of each class", symbol="m", low=1, high=4096)
    n: int = static(20, "training samples", symbol="n", low=2, high=10_000)
    noise_coordinates: int = value(64, "noisy coordinates of a sample", symbol="s", low=1, high=10_000, scale="log")
    largest_noise_coordinates: int = static(
        256, "noisy coordinates that memory is kept for", low=1, high=10_000, paired=True
    )
    noise_norm: float = value(1.0, "length of the noise", symbol=r"|\xi|", above=0, high=100)
    initial_reach: float = value(
        0.05, "initial deviation of a weight, times sqrt(s)", symbol=r"\sigma_0\sqrt{s}", above=0, high=10
    )

    outputs = {
        "test_error": Output("test error"),
        "training_loss": Output("training loss without ridge", scale="log"),
        "kept_signal": Output("share of neurons that keep the signal", r"P(\langle w_{jr},j\mu\rangle>0)"),
        "signal_preactivation": Output("largest signal", r"\max\langle w_{jr},j\mu\rangle", short="signal"),
        "noise_preactivation": Output(
            "largest noise of the sample's class", r"\max\langle w_{y_ir},\xi_i\rangle", short="noise"
        ),
        "noise_step": Output(
            "growth of active noise in a step of the sign rule, over the step size", r"s\sigma\sqrt{2/\pi}"
        ),
        "memorising_ridge": Output("ridge that forgets the noise", r"\lambda_c", scale="log", theory_only=True),
        "diverged_at": DIVERGED_AT,
    }
    history = (
        Change(
            "",
            "the sizes",
            "they were found in three attempts, and are the theorem's now as far as its excerpts tell; two "
            "prototypes and four runs, with other step sizes and 500 to 2,500 steps, told that the start must be as "
            "small as the theorem has it",
        ),
        *changes(
            "curve boundary exponent reversed learned small-ridge repair",
            "the factors around the prediction",
            "set after looks at other seeds",
        ),
        Change(
            "curve",
            "from alpha_*/4 on, where first it was everywhere",
            "far below alpha_* neurons of the wrong sign hover about 0 and end with either: 0.39 too many keep it",
        ),
        Change(
            "repair",
            "up to 2 lambda_c, where first it had no end",
            "with 3 lambda_c a class was not learned in 2 of 8 runs in their 1,000 steps",
        ),
        Change(
            "fit",
            "0.05, where first it was 0.01, and ridges up to 2 lambda_c, where first it had all",
            "a ridge of 3 lambda_c holds the loss at 0.016, and in one run of 48 at 0.35",
        ),
        Change(
            "learned",
            "40 seeds in the full preset, first 16",
            "there one run of 16 had learned one class only",
        ),
        Change(
            "",
            "the full preset: alpha from 0.0005 on, no s = 16, starts of 1/n also for n = 80",
            "its first run had no alpha below alpha_* of s = 1024, started n = 80 four times too large, and at s = 16 "
            "the share of neurons that keep the signal was 0.16 off the theory, which is for large s",
        ),
        Change(
            "",
            "10,000 steps of descent for n = 80 in the full preset, first 2,500",
            "after a look: descent had not fitted the samples, and takes a time that is inverse to its start",
        ),
        Change(
            "curve",
            "n = 20 alone",
            "after a look at the full preset: with n = 80 the shares fall more steeply, and a boundary that is 20% "
            "lower than the theory's, which the claim on it allows, is 0.23 in the share",
        ),
        Change(
            "gradient-descent",
            "the median over runs in place of the mean",
            "one run in about 80 learns one class only in its 2,500 steps",
        ),
    )
    presets = {
        "quick": {
            "main": {"adversary": ALPHAS, "noise_coordinates": SPARSITIES, "seeds": 40},
            "descent": {**DESCENT, "steps": 2500, "noise_coordinates": SPARSITIES, "seeds": 40},
            "growth": {"optimiser": "sign", "steps": 10, "noise_coordinates": SPARSITIES, "seeds": 100},
            "coupled": {**DEEP, "decay": "coupled", "weight_decay": RIDGES, "seeds": 6},
            "decoupled": {**DEEP, "weight_decay": 1.0, "seeds": 16},
        },
        "full": {
            "main": {
                "adversary": np.geomspace(0.0005, 0.5, 26).tolist(),
                "noise_coordinates": [*SPARSITIES, 512, 1024],
                "largest_noise_coordinates": 1024,
                **STARTS,
                "seeds": 40,
            },
            "descent": {**DESCENT, "noise_coordinates": SPARSITIES, **LONG_STARTS, "seeds": 24},
            "growth": {"optimiser": "sign", "steps": 10, "noise_coordinates": SPARSITIES, **STARTS, "seeds": 100},
            "coupled": {**DEEP, "decay": "coupled", "weight_decay": RIDGES, "width": [20, 40], "seeds": 24},
            "decoupled": {**DEEP, "weight_decay": [0.1, 1.0], "width": [20, 40], "seeds": 24},
        },
    }
    lines = {"main": "adversary"}
    figure = panels(
        Map(
            "kept_signal",
            x="noise_coordinates",
            y="adversary",
            limits=(0, 0.5),
            contour=0.25,
        ),
        Panel(
            "test_error",
            x="adversary",
            at={"noise_coordinates": 64},
            labels=("Adam",),
            line=True,
            marks=(GUESSING,),
            also=(
                Panel(
                    "test_error",
                    x="adversary",
                    part="descent",
                    at={"noise_coordinates": 64},
                    labels=("gradient descent",),
                    line=True,
                ),
            ),
        ),
        Panel(
            "test_error",
            x="weight_decay",
            part="coupled",
            log="x",
            title=r"dashed: $\lambda_c$, above which noise is forgotten",
            xlabel=r"ridge $\lambda$",
            ylabel="test error of Adam",
            ylim=(-0.03, 1.03),
            line=True,
            marks=(Level(lambda data: np.ravel(data.memorising_ridge)[0], vertical=True, dashed=True, theory=True),),
        ),
    )

    @claim(*THEOREM, at_most(0.05), departs=f"{SIZES}; AdamW, which it lacks, is judged too.")
    def fit(main, descent, coupled, decoupled):
        """Every optimiser fits the training samples, without a ridge and with one of up to 2 lambda_c. The training
        loss is {criterion}."""
        losses = [part.simulated.training_loss for part in (main, descent, decoupled)]
        return [*losses, _penalised(coupled, 0.0, 2.0, "training_loss")]

    @claim(*SLIDE, within(0.02))
    def growth(growth):
        """A step of sign gradient descent moves an active <w, xi_i> by eta s sigma sqrt(2/pi), {criterion}."""
        return over_theory(growth, "noise_step")

    @claim(*THEOREM, at_most(0.05), resampled=True)
    def gradient_descent(descent):
        """Gradient descent generalises for alpha from 0.01 to 1/2. Its test error is {criterion} (median over runs)."""
        return descent.simulated.test_error.median("seed")

    @claim(OWN, "balance of the pulls on the signal", within(0.15, absolute=True))
    def curve(main):
        """As alpha grows fewer of Adam's neurons keep the signal. Their share is the share of neurons whose active
        samples pull less than the signal, {criterion} from alpha_*/4 on (n = 20)."""
        data, off = main.simulated, difference(main, "kept_signal")
        return kept(off.sel(n=20) if "n" in off.dims else off, data.adversary >= _boundary(data) / 4)

    @claim(OWN, "balance of the pulls on the signal", within(0.25), resampled=True)
    def boundary(main):
        """From alpha = alpha_* on the adversarial noise pulls more than the signal under steps of equal size. For s
        from 32 to 256 Adam's neurons lose the signal at alpha_*, {criterion}."""
        found = _crossing(main)
        return found / _boundary(found) - 1

    @claim(OWN, "balance of the pulls on the signal", between(-1.15, -0.85), resampled=True)
    def exponent(main):
        """The boundary alpha_* falls as 1/s. The slope of log alpha_* against log s is {criterion}."""
        return slope(_crossing(main), "noise_coordinates", least=4)

    @claim(*THEOREM, at_least(0.5))
    def reversed(main):
        """From 2 alpha_* on Adam does worse than guessing. Its test error is {criterion}."""
        return _errors(main, 2.0, np.inf)

    @claim(OWN, "balance of the pulls on the signal", at_most(0.05))
    def learned(main):
        """Up to alpha_*/5 Adam generalises. Its test error is {criterion}."""
        return _errors(main, 0.0, 0.2)

    @claim(*THEOREM, at_least(0.5), departs=f"{SIZES}.")
    def small_ridge(coupled):
        """A small ridge in the objective does not help Adam. At alpha = 10 alpha_*, with a ridge of at most
        lambda_c/10, its test error is {criterion}."""
        return _penalised(coupled, 0.0, 0.1)

    @claim(OWN, "balance of the pulls on the noise", at_most(0.05))
    def repair(coupled):
        """A ridge between lambda_c and 2 lambda_c makes Adam forget the noise of most samples from the start, and
        repairs it. Its test error is {criterion}."""
        return _penalised(coupled, 1.0, 2.0)

    @claim(OWN, "own observation", at_least(0.5))
    def decoupled_decay(decoupled):
        """Decoupled weight decay (AdamW, rate 1) does not repair it. The test error is {criterion}."""
        return decoupled.simulated.test_error

    def validate(self) -> None:
        check_even("n", self.n)
        self.check_at_most(("noise_coordinates", "largest_noise_coordinates"))

    def simulate(self, key: Any) -> dict[str, Any]:
        from unlazy.training.signal_noise.sparse_patches import sparse_patch_run

        return sparse_patch_run(key, **self.as_dict())

    def predict(self) -> dict[str, Any]:
        s, start = self.noise_coordinates, self.initial_reach / self.noise_coordinates**0.5
        found = {"memorising_ridge": memorising_ridge(self.n, self.width, start, self.noise_norm)}
        if self.optimiser == "adam" and self.weight_decay == 0:
            found["kept_signal"] = kept_signal(self.adversary, s, self.n, self.noise_norm)
        if self.optimiser == "sign":
            found["noise_step"] = self.noise_norm * (2 * s / np.pi) ** 0.5
        return found

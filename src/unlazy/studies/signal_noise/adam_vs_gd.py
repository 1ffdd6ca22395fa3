"""Adam, sign gradient descent and gradient descent on a sparse signal-noise model with adversarial feature noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import DIVERGED_AT, Output, Study, cite, static, value
from unlazy.lab.claims import OWN, Change, at_least, at_most, claim, enough, parameter
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise.shared.checks import check_even, check_room
from unlazy.studies.signal_noise.shared.race import paired_neurons

if TYPE_CHECKING:
    from jax import Array

ARMS = ("optimiser", "learning_rate", "steps")
DESCENT, ADAM, SIGN = ("gd", 0.5, 1000), ("adam", 2e-3, 1000), ("sign", 2e-3, 600)
DECAYS = ("adversary", "coupled", "decoupled")
PLAIN, HARMLESS, DECOUPLED = (0.4, 0.0, 0.0), (0.0, 0.0, 0.0), (0.4, 0.0, 1.0)
COUPLED = tuple((0.4, penalty, 0.0) for penalty in (1e-6, 1e-5, 1e-4, 1e-3))
FRESH = 500
"""Fresh samples on which the test error is measured."""


def draw_supports(key: Array, rows: int, size: int, d: int) -> Array:
    """Uniform subsets of `size` of the numbers 0..d-1, one in each row of a (rows, size) array; Floyd's algorithm."""
    import jax
    import jax.numpy as jnp

    last = jnp.arange(d - size, d)
    # Flat, as in `unlazy.random`: a small trailing dimension compiles many times slower.
    uniform = jax.random.uniform(key, (rows * size,)).reshape(rows, size)
    proposed = jnp.floor(uniform * (last + 1)).astype(int)
    # In float32 a uniform number just below 1 times last + 1 may round up.
    proposed = jnp.minimum(proposed, last)

    def choose(k: Any, chosen: Array) -> Array:
        taken = (chosen == proposed[:, k, None]).any(axis=1)
        return chosen.at[:, k].set(jnp.where(taken, last[k], proposed[:, k]))

    return jax.lax.fori_loop(0, size, choose, jnp.full((rows, size), -1))


def _arm(decay, *chosen):
    """The test error at the chosen (adversary, coupled, decoupled)."""
    enough(decay.simulated, "adversary", 5)
    rows = list(zip(*(decay.simulated[key].values.tolist() for key in DECAYS), strict=True))
    return decay.simulated.test_error.isel(adversary=[rows.index(row) for row in chosen])


def _penalised(data):
    """The test error with the adversary and without decoupled decay, along the penalty."""
    shown = np.broadcast_to((data.adversary > 0) & (parameter(data, "decoupled") == 0), data.adversary.shape)
    return data.test_error.isel(adversary=shown).swap_dims(adversary="coupled")


def _balance(axes, decay, **_):
    axes.axvline(float(np.ravel(decay.predicted.balancing_penalty)[0]), color="black", linestyle="--", linewidth=0.9)


@dataclass(frozen=True)
class AdamVsGd(Study):
    """f = sum_r j_r [relu(<w_r, y e_1>)^3 + relu(<w_r, xi>)^3], 2m neurons, on patches [y e_1, xi].

    xi has s random coordinates N(0, sigma^2), never the first, whose entry is the adversarial -alpha y. The thresholds
    are a test of the implementation at these sizes, not evidence for the theorem's constants.
    """

    question = "Does Adam generalise worse than gradient descent from the same start, and does weight decay repair it?"
    sources = cite("zou2023adam", "han2025tutorial")
    precision = "float32"

    optimiser: str = static("adam", "optimiser", choices=("gd", "adam", "sign"), paired=True)
    learning_rate: float = value(2e-3, "learning rate", symbol=r"\eta", above=0, high=100, scale="log", paired=True)
    steps: int = static(1000, "steps", low=1, high=1_000_000, scale="log", paired=True)
    adversary: float = value(0.4, "adversarial feature noise", symbol=r"\alpha", low=0, high=10, paired=True)
    coupled: float = value(0.0, "coupled L2 penalty", symbol=r"\lambda", low=0, high=1, paired=True)
    decoupled: float = value(0.0, "decoupled weight decay, times the learning rate", low=0, high=100, paired=True)
    width: int = value(20, "neurons of each class", symbol="m", low=1, high=4096)
    most_neurons: int = static(40, "neurons of each class that memory is kept for", low=1, high=4096, paired=True)
    n: int = static(20, "training samples", symbol="n", low=2, high=10_000)
    d: int = static(400, "dimension of a patch", symbol="d", low=2, high=100_000, scale="log")
    sparsity: int = static(16, "noisy coordinates of a sample", symbol="s", low=1, high=10_000)
    deviation: float = value(0.2, "standard deviation of the noise", symbol=r"\sigma", low=0, high=100)
    start: float = value(0.01, "standard deviation of the initial weights", symbol=r"\sigma_0", above=0, high=10)

    outputs = {
        "test_error": Output("test error"),
        "training_loss": Output("training loss without penalty", scale="log"),
        "signal": Output("largest signal", r"\max\langle w_{jr},j\mu\rangle", short="signal"),
        "noise": Output(
            "largest noise of a neuron of the sample's class", r"\max\langle w_{y_ir},\xi_i\rangle", short="noise"
        ),
        "balancing_penalty": Output("penalty that balances the data", r"\lambda_*", scale="log", theory_only=True),
        "diverged_at": DIVERGED_AT,
    }
    history = (
        Change("", "sizes", "found in three attempts: before, gradient descent was too short or m too small"),
        Change("sign", "threshold", "set after first numbers were seen"),
        Change("what-is-learned", "threshold", "set after first numbers were seen"),
        Change("small-penalty", "threshold", "set after first numbers were seen"),
    )
    presets = {
        "quick": {
            "main": {ARMS: [DESCENT, ADAM, SIGN], "width": [20, 40], "seeds": 12},
            "decay": {DECAYS: [HARMLESS, *COUPLED, DECOUPLED], "width": [40], "seeds": 8},
        },
        "full": {
            "main": {ARMS: [DESCENT, ADAM, SIGN], "width": [20, 40, 80], "most_neurons": 80, "seeds": 24},
            "decay": {
                DECAYS: [HARMLESS, *COUPLED, (0.4, 0.0, 0.1), DECOUPLED],
                "width": [20, 40, 80],
                "most_neurons": 80,
                "seeds": 24,
            },
        },
    }
    figure = panels(
        Panel(
            "test_error",
            x="optimiser",
            by="width",
            theory=False,
            title="no penalty",
            xlim=(-0.4, 2.4),
            ylim=(-0.03, 1.03),
            marks=(Level(0.5, "guessing", dashed=True),),
        ),
        Panel(
            ("signal", "noise"),
            x="optimiser",
            by="width",
            theory=False,
            ylabel="largest pre-activation",
            xlim=(-0.4, 2.4),
            legend="center left",
        ),
        Panel(
            _penalised,
            x="coupled",
            by="width",
            theory=False,
            part="decay",
            title=r"dashed: $\lambda_*$, where the pulls are equal",
            ylabel="test error of Adam",
            log="x",
            ylim=(-0.03, 1.03),
            legend="center right",
            draw=_balance,
        ),
        width=3.1,
    )

    @claim("zou2023adam", "Theorem 4.1", at_most(0.01))
    def fit(main, decay):
        """Every optimiser fits the training samples, with and without decay: the training loss is {criterion}."""
        return [main.simulated.training_loss, decay.simulated.training_loss]

    @claim("zou2023adam", "Theorem 4.1", at_most(0.05))
    def gradient_descent(main):
        """Gradient descent generalises: its test error is {criterion}."""
        return main.simulated.test_error.sel(optimiser="gd")

    @claim("zou2023adam", "Theorem 4.1", at_least(0.4))
    def adam(main):
        """Adam without regularisation does not: its test error is {criterion} from the same start on the same samples
        (our criterion; the theorem's limit is 1/2)."""
        return main.simulated.test_error.sel(optimiser="adam")

    @claim("han2025tutorial", "slide on sign-GD and Adam", at_least(0.4))
    def sign(main):
        """Nor does sign gradient descent, Adam without memory: its test error is {criterion}."""
        return main.simulated.test_error.sel(optimiser="sign")

    @claim("han2025tutorial", "slide on sign-GD and Adam", at_least(np.log(2.0)))
    def what_is_learned(main):
        """Gradient descent learns the signal and Adam the noise: the logarithm of the largest <w, j mu> over the
        largest <w, xi_i> under the one, and of the inverse under the other, is {criterion}, a factor of 2."""
        descent, adam = (main.simulated.sel(optimiser=name) for name in ("gd", "adam"))
        return [np.log(descent.signal / descent.noise), np.log(adam.noise / adam.signal)]

    @claim(OWN, "own observation", at_most(0.05))
    def adversary_needed(decay):
        """The effect needs the adversarial feature noise: at alpha = 0 Adam's test error is {criterion}."""
        return _arm(decay, HARMLESS)

    @claim(
        "zou2023adam",
        "Theorem 4.1",
        at_least(0.4),
        known_negative=(
            "A coupled penalty of 1e-4 or more repairs Adam at these sizes. At the start the data pull a noisy "
            "coordinate by about 1.5 (s sigma^2 sigma_0^2) sigma/n and the penalty by lambda sigma_0: they are "
            "equal at lambda_* = 1.5 s sigma^3 sigma_0/n, which is 1e-4 here, and Adam's normalised step follows "
            "the larger one. The pull of the signal is larger, so the penalty removes the noise and leaves the "
            "signal. The theorem is asymptotic in n and d."
        ),
    )
    def weight_decay(decay):
        """Adam fails with proper weight decay too: with the L2 penalty 1e-4 or 1e-3 in the objective its test error is
        {criterion}."""
        return _arm(decay, *COUPLED[2:])

    @claim("zou2023adam", "Theorem 4.1", at_least(0.4))
    def small_penalty(decay):
        """Far below the penalty that balances the data at the start, lambda_* = 1e-4, Adam fails as without one: at
        lambda = 1e-6 its test error is {criterion}."""
        return _arm(decay, COUPLED[0])

    @claim(OWN, "own observation", at_least(0.4))
    def decoupled_decay(decay):
        """Decoupled decay (AdamW, rate 1) does not repair it: the test error is {criterion}."""
        return _arm(decay, DECOUPLED)

    def validate(self) -> None:
        check_even("n", self.n)
        if self.sparsity >= self.d:
            raise InputError(f"sparsity must be below d = {self.d}, got {self.sparsity}")
        check_room(self, width="most_neurons")

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp
        import optax

        from unlazy.functions.activations import activation
        from unlazy.random import normal
        from unlazy.training.loop import train

        support_key, noise_key, weight_key = jax.random.split(key, 3)
        samples, capacity, cube = self.n + FRESH, self.most_neurons, activation("relu3")
        support = 1 + draw_supports(support_key, samples, self.sparsity, self.d - 1)
        entries = self.deviation * normal(noise_key, (samples, self.sparsity))
        y = jnp.where(jnp.arange(samples) % 2 == 0, 1.0, -1.0).astype(entries.dtype)
        readout = jnp.sign(paired_neurons(self.width, capacity))
        initial = self.start * normal(weight_key, (2 * capacity, self.d))

        rows = jnp.arange(self.n)[:, None]
        x = jnp.zeros((self.n, self.d), entries.dtype).at[rows, support[: self.n]].set(entries[: self.n])
        x = x.at[:, 0].set(-self.adversary * y[: self.n])

        def margins(weights: Array, labels: Array, noise: Array) -> Array:
            """y f from the labels and the neurons' noise inputs (samples, 2m)."""
            return labels * ((cube(labels[:, None] * weights[:, 0]) + cube(noise)) @ readout)

        def loss(weights: Array) -> Array:
            fit = jax.nn.softplus(-margins(weights, y[: self.n], x @ weights.T)).mean()
            return fit + self.coupled / 2 * jnp.sum(weights**2)

        rule = {
            "gd": optax.identity,
            "adam": lambda: optax.scale_by_adam(b1=0.9, b2=0.99),
            "sign": optax.scale_by_sign,
        }[self.optimiser]()
        optimiser = optax.chain(
            rule, optax.add_decayed_weights(self.decoupled), optax.scale_by_learning_rate(self.learning_rate)
        )
        result = train(initial, loss, optimiser, self.steps, trained=lambda weights: weights)
        weights = result.model
        fitted = x @ weights.T
        fresh = jnp.einsum("nsr,ns->nr", weights.T[support[self.n :]], entries[self.n :])
        fresh = fresh - self.adversary * y[self.n :, None] * weights[:, 0]
        tested = margins(weights, y[self.n :], fresh)
        own = y[: self.n, None] * readout > 0
        return {
            "test_error": jnp.where(tested == 0, 0.5, tested < 0).mean(),
            "training_loss": jax.nn.softplus(-margins(weights, y[: self.n], fitted)).mean(),
            "signal": jnp.max(readout * weights[:, 0]),
            "noise": jnp.max(jnp.where(own, fitted, -jnp.inf)),
            "diverged_at": result.diverged_at,
        }

    def predict(self) -> dict[str, Any]:
        """The penalty at which the start's pulls of data and penalty on a noisy coordinate are equal.

        With logistic factors 1/2, sample i pulls coordinate k of its support by (1/2n) 3 <w, xi>^2 xi_ik, where
        <w, xi>^2 is s sigma^2 sigma_0^2 and |xi_ik| is sigma in size; the penalty pulls by lambda sigma_0. An order of
        magnitude.
        """
        return {"balancing_penalty": 1.5 * self.sparsity * self.deviation**3 * self.start / self.n}

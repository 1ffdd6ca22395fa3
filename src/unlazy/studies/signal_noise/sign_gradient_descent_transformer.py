"""Sign gradient descent on an attention layer: it fits sooner and memorises noise where gradient descent does not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from unlazy.lab import (
    OWN,
    Change,
    Output,
    Study,
    at_least,
    at_most,
    between,
    changes,
    cite,
    claim,
    kept,
    over_theory,
    slope,
    static,
    value,
    within,
)
from unlazy.lab.measures import difference
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise import shared
from unlazy.theory.signal_noise.sign_descent import memorised_test_loss, noise_token_attention, sign_descent_balance

DESCENT, SIGN = "gradient", "sign"
RULES = (DESCENT, SIGN)
THEOREM = ("li2025signgd", "theorem on the tutorial's slide")
HALF = math.log(2) / 2
SIZES = (
    "The sizes are our choice. The theorem's are powers of n, and those of the paper's experiments are not known to us."
)
SPARSITIES = [8, 16, 32, 64]
RATIOS = [0.1, 0.25, 0.5, 2.0]


def _benign(data):
    """Where gradient descent learns the signal: n SNR^2 is at least 4."""
    return data.attrs["n"] * data.signal_to_noise**2 >= 4


SIGN_ALONE = "no theory for the rule gradient"


@dataclass(frozen=True)
class SignGradientDescentTransformer(Study):
    """f = (1/2) sum_l softmax(x_l W_Q W_K^T X^T) X W_V w_o on tokens (y mu, xi), trained by both rules from one start.

    xi has s entries N(0, 1/s) on coordinates that no other sample has, as random ones do not meet in high dimension; mu
    of length SNR is on k others, 1 in the paper: sign gradient descent depends on the basis.
    """

    question = "Does an attention layer generalise when each weight follows only the sign of its gradient?"
    sources = cite("li2025signgd", "jiang2024", "han2025tutorial")
    departs = SIZES
    history = (
        Change(
            "", "sparse noise and two tokens, as in the paper", "noise was dense before, and there were three tokens"
        ),
        Change(
            "",
            "a start sigma_0 = 0.02 and steps eta |xi|_1 of a fifth of it",
            "the third of three pairs: at steps as large as the start or larger columns change sign for ever, and "
            "the law of attention needs eta |xi|_1 << sigma_0 << 1",
        ),
        Change("balance", "without the part basis", "its 16 runs leave it undecided, and the exponent judges them"),
        Change("memorises", "0.01 below is allowed", "without a signal both are log 2, but for the fresh noise"),
        *changes("attention memorises order-one", "the threshold", "eight other seeds had been seen"),
    )
    precision = "float32"

    signal_to_noise: float = value(0.5, "signal to noise", symbol=r"\mathrm{SNR}", above=0, high=100, scale="log")
    signal_coordinates: int = value(
        1, "coordinates over which the signal is spread", symbol="k", low=1, high=10_000, scale="log"
    )
    noise_coordinates: int = value(64, "noisy coordinates of a sample", symbol="s", low=1, high=10_000, scale="log")
    largest_noise_coordinates: int = static(
        64, "coordinates of signal and of noise that memory is kept for", low=1, high=10_000, paired=True
    )
    width: int = static(8, "columns of the query, key and value matrices", symbol="d_h", low=1, high=4096)
    n: int = static(20, "training samples", symbol="n", low=2, high=10_000)
    initial_deviation: float = value(0.02, "initial deviation of a weight", symbol=r"\sigma_0", above=0, high=10)
    relative_step_size: float = value(0.4, "step size of gradient descent, over n", above=0, high=100, scale="log")
    value_growth: float = value(
        0.0125, "growth of the noise in the values in a step of its signs", above=0, high=10, scale="log"
    )
    early_steps: int = static(80, "steps after which attention is measured early", low=1, high=1_000_000)
    steps: int = static(450, "most steps of both", low=1, high=1_000_000, scale="log")
    stop_loss: float = value(0.02, "training loss at which training stops", above=0, high=0.5)

    inner = {"rule": RULES}
    outputs = {
        name: replace(output, dims=("rule",))
        for name, output in {
            **{name: output for name, output in shared.ATTENTION_OUTPUTS.items() if name != "first_balance"},
            "early_value_noise": Output(
                "early noise in the value direction", r"\langle v,\xi\rangle", unpredicted=SIGN_ALONE
            ),
            "noise_attention": Output("early attention of the noise token to the signal", unpredicted=SIGN_ALONE),
            "least_test_loss": Output(
                "least test loss of what memorises", scale="log", theory_only=True, unpredicted=SIGN_ALONE
            ),
        }.items()
    }
    presets = {
        "quick": {
            "main": {"signal_to_noise": RATIOS, "noise_coordinates": [32, 64], "seeds": 36},
            "sparsity": {"noise_coordinates": SPARSITIES, "seeds": 32},
            "basis": {"signal_coordinates": [1, 4, 16, 64], "signal_to_noise": 2.0, "seeds": 16},
        },
        "full": {
            "main": {
                "signal_to_noise": [0.05, *RATIOS],
                "noise_coordinates": [32, 64, 256],
                "largest_noise_coordinates": 256,
                "n": 40,
                "seeds": 16,
            },
            "sparsity": {"noise_coordinates": [*SPARSITIES, 128, 256], "largest_noise_coordinates": 256, "seeds": 16},
            "basis": {"signal_coordinates": [1, 4, 16, 64], "signal_to_noise": 2.0, "n": 40, "seeds": 16},
        },
    }
    lines = {"main": "signal_to_noise"}
    figure = panels(
        Panel(
            "test_loss",
            x="signal_to_noise",
            by=("rule", "noise_coordinates"),
            marks=(Level(math.log(2), "guessing", dashed=True),),
            line=True,
            legend="lower left",
        ),
        Panel("balance", x="noise_coordinates", by="rule", part="sparsity"),
        Panel("balance", x="signal_coordinates", by="rule", part="basis", legend=False),
    )

    @claim(*THEOREM, at_most(0.025))
    def fit(main):
        """Sign gradient descent fits the training samples at every SNR. Training stops at the loss 0.02, and the loss
        is then {criterion}."""
        return main.simulated.training_loss.sel(rule=SIGN)

    @claim(*THEOREM, within(0.05))
    def growth(main):
        """The values memorise linearly. After t steps <v, xi> is eta sqrt(h) t |xi|_1, {criterion} of its mean."""
        return over_theory(main, "early_value_noise").sel(rule=SIGN)

    @claim(*THEOREM, within(0.05))
    def balance(main):
        """At the end the balance <v, mu> / |<v, xi>| is |mu|_1/|xi|_1 = SNR sqrt(pi k/2s), {criterion}."""
        return over_theory(main, "balance").sel(rule=SIGN)

    @claim(OWN, "steps of equal size", between(-0.55, -0.45))
    def sparsity(sparsity):
        """The balance falls as s^(-1/2) with the number s of coordinates of the noise. The fitted exponent is
        {criterion}."""
        return slope(sparsity.simulated.balance.sel(rule=SIGN), "noise_coordinates", least=4)

    @claim(OWN, "steps of equal size", between(0.45, 0.55))
    def basis(basis):
        """The balance grows as k^(1/2) with the number k of coordinates of the signal: the failure depends on the
        basis. The fitted exponent is {criterion}."""
        return slope(basis.simulated.balance.sel(rule=SIGN), "signal_coordinates", least=4)

    @claim(OWN, "gradients instead of signs", between(-0.05, 0.05))
    def no_basis(basis):
        """The balance n SNR^2 of gradient descent does not depend on the basis. Its fitted exponent in k is
        {criterion}."""
        return slope(basis.simulated.balance.sel(rule=DESCENT), "signal_coordinates", least=4)

    @claim(*THEOREM, within(0.05, absolute=True))
    def attention(main):
        """Query and key memorise too. Once <v, xi> is 1, a noise token attends to the signal with the weight 1/(1 +
        exp(<v, xi>^2)), {criterion}, at SNR up to 1/2."""
        values = difference(main, "noise_attention").sel(rule=SIGN)
        return kept(values, values.signal_to_noise <= 0.5)

    @claim(*THEOREM, at_least(-0.01))
    def memorises(main):
        """The network reads the signal at most as far as the balance allows. Its test loss less that of such a network
        is {criterion}."""
        return (main.simulated.test_loss - main.predicted.least_test_loss).sel(rule=SIGN)

    @claim(*THEOREM, at_least(HALF))
    def order_one(main):
        """The test loss stays of order 1 wherever the predicted balance is at most 1/4. It is {criterion}, half of what
        guessing has."""
        return kept(main.simulated.test_loss.sel(rule=SIGN), main.predicted.balance.sel(rule=SIGN, drop=True) <= 0.25)

    @claim("jiang2024 han2025tutorial", "Theorem 4.1 (benign), as on the slide", at_most(HALF))
    def gradient_descent(main):
        """From n SNR^2 = 4 on gradient descent, from the same start and samples, has a test loss of {criterion}, half
        of what guessing has."""
        return kept(main.simulated.test_loss.sel(rule=DESCENT), _benign(main.simulated))

    def validate(self) -> None:
        shared.check_even("n", self.n)
        self.check_at_most(
            ("signal_coordinates", "largest_noise_coordinates"), ("noise_coordinates", "largest_noise_coordinates")
        )

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.signal_noise.patch_attention import sparse_attention_run

        # One program for both rules: two would compile twice as long.
        by_sign = jnp.array([rule == SIGN for rule in RULES])
        return jax.vmap(lambda sign: sparse_attention_run(key, by_sign=sign, **self.as_dict()))(by_sign)

    def predict(self) -> dict[str, Any]:
        """Of gradient descent the balance alone, that of a step while attention is uniform and margins are equal."""
        balance = sign_descent_balance(self.signal_to_noise, self.noise_coordinates, self.signal_coordinates)
        early, least = (
            self.value_growth * self.early_steps,
            memorised_test_loss(min(float(balance), 1.0), self.stop_loss),
        )
        return {
            "balance": [self.n * self.signal_to_noise**2, balance],
            "early_value_noise": [math.nan, early],
            "noise_attention": [math.nan, noise_token_attention(early)],
            "least_test_loss": [math.nan, least],
        }

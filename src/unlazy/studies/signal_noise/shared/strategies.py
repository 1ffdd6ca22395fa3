"""What the studies of training strategies share: outputs, designs, and the ends of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unlazy.lab import DIVERGED_AT, Output

if TYPE_CHECKING:
    from unlazy.training.signal_noise.token_gram.engine import State
    from unlazy.training.signal_noise.token_gram.network import Network
    from unlazy.training.signal_noise.token_gram.problem import Design, Problem

RUN_OUTPUTS = {
    "training_loss": Output("training loss", scale="log"),
    "signal_coefficient": Output("largest signal coefficient", r"\max\gamma", scale="log"),
    "noise_coefficient": Output("largest noise coefficient", r"\max\rho", scale="log"),
    "diverged_at": DIVERGED_AT,
}


def end_of_run(problem: Problem, state: State) -> dict[str, Any]:
    """The outputs of `RUN_OUTPUTS`."""
    import jax.numpy as jnp

    from unlazy.training.signal_noise.token_gram.observables import noise_coefficients, signal_coefficients

    return {
        "training_loss": state.loss,
        "signal_coefficient": jnp.max(signal_coefficients(problem, state.weights)),
        "noise_coefficient": jnp.max(jnp.abs(noise_coefficients(problem, state.weights))),
        "diverged_at": state.diverged_at,
    }


def feature_design(*carried: Any) -> Design:
    """Patches of y times the features that a sample carries, (n, S) for each, then one of noise; y = +1, -1, ..."""
    import jax.numpy as jnp

    from unlazy.training.signal_noise.token_gram.problem import Design, Patch

    samples = len(carried[0])
    classes = 1.0 - 2.0 * (jnp.arange(samples) % 2)
    return Design(
        patches=(
            *(Patch(shared=classes[:, None] * features) for features in carried),
            Patch(own=jnp.ones((samples, 1))),
        ),
        labels=classes,
        classes=classes,
        weights=jnp.full(samples, 1 / samples),
    )


def fresh_feature_errors(key: Any, problem: Problem, state: State, network: Network, shared: Any) -> Any:
    """Errors on fresh samples whose patches are y times `shared` (T, P, S) and, in the last one, fresh noise: (T,).

    Both classes count alike. The last patch must be zero in `shared`.
    """
    import jax.numpy as jnp

    from unlazy.training.signal_noise.token_gram.fresh import fresh_errors

    kinds, patches, _ = shared.shape
    noisy = jnp.zeros((2 * kinds, patches, 1)).at[:, -1].set(1.0)
    labels = jnp.repeat(jnp.array([1.0, -1.0]), kinds)
    errors = fresh_errors(
        key,
        problem,
        state.weights,
        network,
        shared=jnp.concatenate([shared, -shared]),
        own=noisy,
        labels=labels,
    ).error
    return errors.reshape(2, kinds).mean(0)

"""Small networks trained on real images: with labels of which some are wrong, and by one optimiser or another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unlazy.checks import check_choice
from unlazy.data.images import CLASSES, DrawnImages
from unlazy.models.image_networks import ImageMLP, SmallVGG
from unlazy.observables.filter_spectrum import fine_share
from unlazy.optim import ascent, label_noise
from unlazy.training.loop import train
from unlazy.training.programs import compiled

MOMENTUM = 0.9
SHOWN_FILTERS = 16


def wrong_label_run(
    rng: np.random.Generator,
    drawn: DrawnImages,
    *,
    flip_probability: float,
    fresh_flip_probability: float,
    radius: float,
    width: int,
    batch_size: int,
    step_size: float,
    steps: int,
    record_at: Sequence[int],
) -> dict[str, np.ndarray]:
    """Train a `SmallVGG` on images of which the share `flip_probability` has a random wrong class, once and for all.

    Steps are those of Adam on random batches, after a step uphill of length `radius` (Foret
    et al. 2021), with labels that are wrong for this step only with the other probability (Huang et al. 2025). Recorded
    are the shares of right and wrong labels that are fitted, that of the wrongly labelled images which are given their
    true class, the accuracy on fresh images, and the training loss.
    """
    n = len(drawn.images)
    # the order is random, so that the first images are a random part
    wrong = np.arange(n) < round(flip_probability * n)
    labels = np.where(wrong, (drawn.classes + rng.integers(1, CLASSES, n)) % CLASSES, drawn.classes).astype(np.int32)
    arrays = (_words(rng), drawn.images, labels, drawn.classes, wrong, drawn.fresh_images, drawn.fresh_classes)
    numbers = map(np.float32, (fresh_flip_probability, radius, step_size))
    found = _run(_wrong_label_program, (width, batch_size, steps, tuple(record_at)), (*arrays, *numbers))
    return {name: np.asarray(values) for name, values in found.items()}


def _wrong_label_program(width: int, batch_size: int, steps: int, record_at: tuple[int, ...]) -> Callable[..., Any]:
    def run(
        words: Array, x: Array, labels: Array, truth: Array, wrong: Array, fresh: Array, classes: Array,
        fresh_flip_probability: Array, radius: Array, step_size: Array,
    ) -> dict[str, Array]:  # fmt: skip
        start_key, step_key = jax.random.split(jax.random.wrap_key_data(words, impl="threefry2x32"))
        start = SmallVGG.random(start_key, x.shape[1:], width, CLASSES)
        noisy = label_noise(_loss, fresh_flip_probability, classes=CLASSES)

        def loss(network: Any, key: Array) -> Array:
            batch_key, flip_key = jax.random.split(key)
            batch = jax.random.randint(batch_key, (batch_size,), 0, len(x))

            def here(network: Any) -> Array:
                return noisy(network, x[batch], labels[batch], flip_key)

            return here(_uphill(here, network, radius))

        def share(hits: Array, among: Array) -> Array:
            return jnp.sum(hits & among) / jnp.maximum(jnp.sum(among), 1)

        def record(network: Any) -> dict[str, Array]:
            # one call: XLA compiles every one anew
            scores, tested = jnp.split(network(jnp.concatenate([x, fresh])), [len(x)])
            guess = scores.argmax(axis=1)
            return {
                "clean_fit": share(guess == labels, ~wrong),
                "flipped_fit": share(guess == labels, wrong),
                "flipped_recovered": share(guess == truth, wrong),
                "held_out_accuracy": _accuracy(tested, classes),
                "training_loss": _cross_entropy(scores, labels),
            }

        done = train(
            start, loss, optax.adam(step_size), steps, trained=_whole, key=step_key, record=record,
            record_at=record_at,
        )  # fmt: skip
        return {**done.records, "diverged_at": done.diverged_at}

    return run


def _uphill(loss: Callable[[Any], Array], network: Any, radius: Array) -> Any:
    """The network moved by `radius` along the gradient, which is not differentiated; as it is where radius is 0."""
    still = jax.lax.stop_gradient(network)

    def shift() -> Any:
        slope = jax.grad(loss)(still)
        return jax.tree.map(lambda leaf: ascent(radius, optax.tree.norm(slope)) * leaf, slope)

    moved = jax.lax.cond(radius > 0, shift, lambda: jax.tree.map(jnp.zeros_like, still))
    return eqx.apply_updates(network, moved)


def optimiser_run(
    rng: np.random.Generator,
    drawn: DrawnImages,
    *,
    network: str,
    optimiser: str,
    width: int,
    filter_size: int,
    batch_size: int,
    step_size: float,
    steps: int,
) -> dict[str, Any]:
    """Train an "mlp" or a "vgg" by "sgd" with momentum or "adam"; its errors, and what its first filters have learned.

    `filters` are the 16 that changed most, without their random start and averaged over colours, (rows, columns, 16).
    """
    check_choice("network", network, ("mlp", "vgg"))
    adaptive = check_choice("optimiser", optimiser, ("sgd", "adam")) == "adam"
    statics = network, width, filter_size, batch_size, steps
    found = _run(_optimiser_program, statics, (_words(rng), *drawn, np.bool_(adaptive), np.float32(step_size)))
    end, start = (np.asarray(found.pop(name), np.float64) for name in ("end", "start"))
    learned = end - start
    finite = bool(np.isfinite(learned).all())
    most = np.argsort(-np.square(learned).sum(axis=(0, 1, 2)))[:SHOWN_FILTERS]
    return {
        **{name: np.asarray(value) for name, value in found.items()},
        "fine_share": fine_share(learned) if finite else np.nan,
        "whole_fine_share": fine_share(end) if finite else np.nan,
        "start_fine_share": fine_share(start),
        "filters": learned[..., most].mean(axis=2),
    }


def _optimiser_program(network: str, width: int, filter_size: int, batch_size: int, steps: int) -> Callable[..., Any]:
    def run(
        words: Array, x: Array, labels: Array, held_out: Array, held_out_labels: Array, fresh: Array,
        fresh_labels: Array, adaptive: Array, step_size: Array,
    ) -> dict[str, Array]:  # fmt: skip
        start_key, step_key = jax.random.split(jax.random.wrap_key_data(words, impl="threefry2x32"))
        sizes: Any = (start_key, x.shape[1:], width, CLASSES)
        start: Any = ImageMLP.random(*sizes) if network == "mlp" else SmallVGG.random(*sizes, filter_size=filter_size)

        def loss(network: Any, key: Array) -> Array:
            batch = jax.random.randint(key, (batch_size,), 0, len(x))
            return _loss(network, x[batch], labels[batch])

        done = train(start, loss, _either(adaptive, step_size), steps, trained=_whole, key=step_key)
        # one call: XLA compiles every one anew
        ends = [len(x), len(x) + len(held_out)]
        scores, chosen, tested = jnp.split(done.model(jnp.concatenate([x, held_out, fresh])), ends)
        return {
            "training_accuracy": _accuracy(scores, labels),
            "training_loss": _cross_entropy(scores, labels),
            "held_out_error": 1 - _accuracy(chosen, held_out_labels),
            "test_error": 1 - _accuracy(tested, fresh_labels),
            "start": start.filters,
            "end": done.model.filters,
            "diverged_at": done.diverged_at,
        }

    return run


def _either(adaptive: Array, step_size: Array) -> optax.GradientTransformation:
    """Adam where `adaptive`, else gradient descent with momentum: one program serves both, and compiling costs more."""
    adam, descent = optax.adam(step_size), optax.sgd(step_size, momentum=MOMENTUM)

    def update(slope: Any, state: Any, weights: Any = None) -> tuple[Any, Any]:
        (first, adam_state), (second, descent_state) = adam.update(slope, state[0]), descent.update(slope, state[1])
        return jax.tree.map(lambda a, b: jnp.where(adaptive, a, b), first, second), (adam_state, descent_state)

    return optax.GradientTransformation(lambda weights: (adam.init(weights), descent.init(weights)), update)


def _run(make: Callable[..., Callable[..., Any]], statics: tuple, arrays: tuple) -> dict[str, Any]:
    """What the program for these statics gives of the arrays."""
    return dict(compiled((make.__name__, statics), make(*statics), *arrays)(*arrays))


def _words(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(2**32, size=2, dtype=np.uint32)


def _whole(network: Any) -> Any:
    return network


def _loss(network: Any, images: Array, labels: Array) -> Array:
    return _cross_entropy(network(images), labels)


def _cross_entropy(scores: Array, labels: Array) -> Array:
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


def _accuracy(scores: Array, labels: Array) -> Array:
    return jnp.mean(scores.argmax(axis=1) == labels)

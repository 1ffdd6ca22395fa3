"""What one step sees of the samples: all of them, a mini-batch, flipped labels, mixtures, patches cut out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import check_known
from unlazy.optim import replaced
from unlazy.training.signal_noise.token_gram.problem import PatchDesign


class Mixing(NamedTuple):
    """Patch p of sample i becomes stay[p, i] x_ip + take[p, i] x_jp with j = partner[i], a permutation of the samples.

    `stay` and `take` have shape (1, 1), (P, 1), (1, n) or (P, n). Shares that add to 1 are mixup; ones and zeros by
    patch are cutmix; `take` = 0 with zeros in `stay` is cutout.
    """

    partner: Array
    stay: Array
    take: Array


class SeenBatch(NamedTuple):
    """The loss of one step: sum_c sum_i weights[c, i] l(f_i, labels[c, i]), both (c, n), on mixed patches if given."""

    labels: Array
    weights: Array
    mixing: Mixing | None = None


View = Callable[[Array, PatchDesign], SeenBatch]
"""`view(key, design)`, with a key of its own at every step."""


def full_batch(key: Array, design: PatchDesign) -> SeenBatch:
    """All samples with their weights."""
    return SeenBatch(design.labels[None], design.weights[None])


def mini_batch(batch_size: ArrayLike, of: View = full_batch) -> View:
    """A fresh random `batch_size` of the samples at every step, without replacement (all of them if there are fewer).

    Every sample of positive weight is as likely as any other, and the weights of those chosen are scaled to the sum of
    all. The mean gradient is the full one if these weights are equal; if not, it is that of a ratio estimate, which
    favours light samples.
    """
    check_known("batch_size", batch_size, whole=True, ndim=0, low=1)

    def view(key: Array, design: PatchDesign) -> SeenBatch:
        choice_key, key = jax.random.split(key)
        batch = of(key, design)
        counting = batch.weights.sum(0) > 0
        scores = jnp.where(counting, jax.random.uniform(choice_key, counting.shape), 2.0)
        # Counting smaller scores ranks them; XLA's sort is slower at these sizes.
        chosen = counting & (jnp.sum(scores[None, :] < scores[:, None], axis=1) < batch_size)
        weights = jnp.where(chosen, batch.weights, 0.0)
        return batch._replace(weights=weights * (batch.weights.sum() / weights.sum()))

    return view


def label_flips(flip_probability: ArrayLike, of: View = full_batch) -> View:
    """Every label is flipped with this probability, afresh at every step (label-noise gradient descent)."""
    check_known("flip_probability", flip_probability, ndim=0, low=0, high=1)

    def view(key: Array, design: PatchDesign) -> SeenBatch:
        flip_key, key = jax.random.split(key)
        batch = of(key, design)
        return batch._replace(labels=replaced(flip_key, batch.labels, -batch.labels, flip_probability))

    return view


def mixup(mixing_weight: ArrayLike, of: View = full_batch) -> View:
    """Patches c x_i + (1 - c) x_j and the loss c l(y_i) + (1 - c) l(y_j), c the `mixing_weight`, j a random partner.

    Partners are a random permutation of the samples of positive weight; those of `unlazy.optim.mixup`, which has no
    weights, come from other draws. Source: Zhang et al. 2018.
    """
    check_known("mixing_weight", mixing_weight, ndim=0, low=0, high=1)

    def view(key: Array, design: PatchDesign) -> SeenBatch:
        partner_key, key = jax.random.split(key)
        batch = of(key, design)
        partner = random_partners(partner_key, batch.weights.sum(0) > 0)
        stay = jnp.asarray(mixing_weight, batch.weights.dtype)
        mixing = Mixing(partner, jnp.reshape(stay, (1, 1)), jnp.reshape(1 - stay, (1, 1)))
        labels = jnp.concatenate([batch.labels, batch.labels[:, partner]])
        return SeenBatch(labels, jnp.concatenate([stay * batch.weights, (1 - stay) * batch.weights]), mixing)

    return view


def cut(augmentation: ArrayLike) -> View:
    """Nothing (0), Cutout (1) or CutMix (2), by a traced number: one program serves all.

    Cutout removes one random patch of every sample. CutMix takes every patch from the sample or from a random partner,
    and weighs their labels by the number of patches. Sources: DeVries & Taylor 2017, Yun et al. 2019.
    """
    cutout, cutmix = jnp.asarray(augmentation) == 1, jnp.asarray(augmentation) == 2

    def view(key: Array, design: PatchDesign) -> SeenBatch:
        partner_key, patch_key = jax.random.split(key)
        partner = random_partners(partner_key, design.weights > 0)
        numbers = jax.random.uniform(patch_key, (len(design.patches), len(design.labels)))
        all_but_one = (numbers > numbers.min(0)).astype(float)
        own = (numbers < 0.5).astype(float)
        stay = jnp.where(cutmix, own, jnp.where(cutout, all_but_one, 1.0))
        share = jnp.where(cutmix, own.mean(0), 1.0)
        labels = jnp.stack([design.labels, design.labels[partner]])
        weights = jnp.stack([share, 1 - share]) * design.weights
        return SeenBatch(labels, weights, Mixing(partner, stay, jnp.where(cutmix, 1 - own, 0.0)))

    return view


def random_partners(key: Array, counting: Array) -> Array:
    """A random permutation of the samples that count; the others are their own partners."""
    scores = jnp.where(counting, jax.random.uniform(key, counting.shape), 2.0)
    return jnp.zeros(counting.shape, int).at[jnp.argsort(~counting)].set(jnp.argsort(scores))

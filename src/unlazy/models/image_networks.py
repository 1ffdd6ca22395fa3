"""Small classifiers of images: a network with one hidden layer and a convolutional one after VGG."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from unlazy.checks import InputError
from unlazy.random import normal

_BLOCKS = 3


class ImageMLP(eqx.Module):
    """One hidden layer of ReLU neurons, each of which sees the whole image.

    `filters` (rows, columns, colours, N) are the first layer's weights.
    """

    filters: Array
    first_bias: Array
    readout: Array
    readout_bias: Array

    def __call__(self, images: Array) -> Array:
        """The scores (n, classes) of images (n, rows, columns, colours)."""
        first = self.filters.reshape(-1, self.filters.shape[-1])
        return jax.nn.relu(_flat(images) @ first + self.first_bias) @ self.readout + self.readout_bias

    @classmethod
    def random(cls, key: Array, shape: tuple[int, ...], width: int, classes: int) -> ImageMLP:
        """Normal weights of variance 2/(inputs), He's, for images of a shape (rows, columns, colours).

        Biases and readout are 0: with He's readout the loss starts far above log(classes), and the first steps of some
        runs switch off neurons for good.
        """
        return cls(
            filters=_scaled(key, (*shape, width)),
            first_bias=jnp.zeros(width, jnp.float32),
            readout=jnp.zeros((width, classes), jnp.float32),
            readout_bias=jnp.zeros(classes, jnp.float32),
        )


class SmallVGG(eqx.Module):
    """Three blocks of a convolution, ReLU and the maximum over 2 x 2 pixels, of N, 2N and 4N channels, and a readout.

    Convolutions keep the size of an image, which has zeros around it; odd last rows and columns are dropped by the
    maximum. `filters` (size, size, colours, N) are those of the first block, `kernels` those of the others, 3 x 3.

    A convolution is a product with a matrix of the patches around every pixel: in a loop on a CPU this is six times as
    fast as XLA's own, and `vmap` over networks makes neither faster.
    """

    filters: Array
    kernels: tuple[Array, ...]
    biases: tuple[Array, ...]
    readout: Array
    readout_bias: Array

    def __call__(self, images: Array) -> Array:
        """The scores (n, classes) of images (n, rows, columns, colours)."""
        for kernel, bias in zip((self.filters, *self.kernels), self.biases, strict=True):
            images = _pooled(jax.nn.relu(convolved(images, kernel) + bias))
        return _flat(images) @ self.readout + self.readout_bias

    @classmethod
    def random(cls, key: Array, shape: tuple[int, ...], width: int, classes: int, *, filter_size: int = 3) -> SmallVGG:
        """Normal weights of variance 2/(inputs), He's, as of `ImageMLP`, and biases and readout 0."""
        rows, columns, colours = shape
        if min(rows, columns) < 2**_BLOCKS:
            raise InputError(f"images must have at least {2**_BLOCKS} pixels a side, got {rows} x {columns}")
        channels = [width * 2**block for block in range(_BLOCKS)]
        inside = [(3, 3, channels[block], channels[block + 1]) for block in range(_BLOCKS - 1)]
        last = (rows // 2**_BLOCKS) * (columns // 2**_BLOCKS) * channels[-1]
        first, *others = jax.random.split(key, _BLOCKS)
        return cls(
            filters=_scaled(first, (filter_size, filter_size, colours, width)),
            kernels=tuple(_scaled(key, shape) for key, shape in zip(others, inside, strict=True)),
            biases=tuple(jnp.zeros(count, jnp.float32) for count in channels),
            readout=jnp.zeros((last, classes), jnp.float32),
            readout_bias=jnp.zeros(classes, jnp.float32),
        )


def convolved(images: Array, kernel: Array) -> Array:
    """Images (n, rows, columns, colours) under a kernel (size, size, colours, channels) of odd size, zeros around."""
    size, rows, columns = kernel.shape[0], *images.shape[1:3]
    padded = jnp.pad(images, ((0, 0), (size // 2, size // 2), (size // 2, size // 2), (0, 0)))
    shifts = [(i, j) for i in range(size) for j in range(size)]
    patches = jnp.concatenate([padded[:, i : i + rows, j : j + columns] for i, j in shifts], axis=-1)
    return patches @ kernel.reshape(-1, kernel.shape[-1])


def _pooled(images: Array) -> Array:
    n, rows, columns, channels = images.shape
    even = images[:, : rows // 2 * 2, : columns // 2 * 2]
    return even.reshape(n, rows // 2, 2, columns // 2, 2, channels).max(axis=(2, 4))


def _flat(images: Array) -> Array:
    return images.reshape(len(images), -1)


def _scaled(key: Array, shape: tuple[int, ...]) -> Array:
    inputs = 1
    for length in shape[:-1]:
        inputs *= length
    return normal(key, shape, jnp.float32) * (2 / inputs) ** 0.5

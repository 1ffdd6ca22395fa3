"""The papers of this topic that several studies cite."""

from __future__ import annotations

from unlazy.lab import Source

NITANDA_DUAL = Source(
    "nitanda2021particle",
    "Nitanda, Atsushi and Wu, Denny and Suzuki, Taiji",
    2021,
    "Particle dual averaging: Optimization of mean field neural network with global convergence rate analysis",
    "Advances in Neural Information Processing Systems 34",
    kind="inproceedings",
)
NITANDA_LANGEVIN = Source(
    "nitanda2022convex",
    "Nitanda, Atsushi and Wu, Denny and Suzuki, Taiji",
    2022,
    "Convex analysis of the mean field Langevin dynamics",
    "International Conference on Artificial Intelligence and Statistics",
    kind="inproceedings",
)
CHIZAT = Source(
    "chizat2022mean",
    "Chizat, Lénaïc",
    2022,
    "Mean-field Langevin dynamics: Exponential convergence and annealing",
    "Transactions on Machine Learning Research",
)
OKO_DUAL = Source(
    "oko2022particle",
    "Oko, Kazusato and Suzuki, Taiji and Wu, Denny and Nitanda, Atsushi",
    2022,
    "Particle stochastic dual coordinate ascent: Exponential convergent algorithm for mean field neural network "
    "optimization",
    "International Conference on Learning Representations",
    kind="inproceedings",
)
CHEN = Source(
    "chen2022uniform",
    "Chen, Fan and Ren, Zhenjie and Wang, Songbo",
    2022,
    "Uniform-in-time propagation of chaos for mean field Langevin dynamics",
    "arXiv:2212.03050",
)
SUZUKI = Source(
    "suzuki2023convergence",
    "Suzuki, Taiji and Wu, Denny and Nitanda, Atsushi",
    2023,
    "Convergence of mean-field Langevin dynamics: Time-space discretization, stochastic gradient, and variance "
    "reduction",
    "Advances in Neural Information Processing Systems 36",
    kind="inproceedings",
)

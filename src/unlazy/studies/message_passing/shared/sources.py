"""The papers of this topic that several studies cite."""

from __future__ import annotations

from unlazy.lab import Source

SEQUENTIAL = Source(
    "cakmak2022",
    "Çakmak, Burak and Lu, Yue M. and Opper, Manfred",
    2022,
    "Analysis of random sequential message passing algorithms for approximate inference",
    "arXiv:2202.08198",
)
MULTICLASS = Source(
    "cakmak2024",
    "Çakmak, Burak and Lu, Yue M. and Opper, Manfred",
    2024,
    "A convergence analysis of approximate message passing with non-separable functions and applications to "
    "multi-class classification",
    "arXiv:2402.08676",
)
MIXTURES = Source(
    "loureiro2021mixtures",
    "Loureiro, Bruno and Sicuro, Gabriele and Gerbelot, Cédric and Pacco, Alessandro and Krzakala, Florent and "
    "Zdeborová, Lenka",
    2021,
    "Learning Gaussian mixtures with generalized linear models: Precise asymptotics in high-dimensions",
    "Advances in Neural Information Processing Systems 34",
    kind="inproceedings",
)
FEATURES = Source(
    "loureiro2021features",
    "Loureiro, Bruno and Gerbelot, Cédric and Cui, Hugo and Goldt, Sebastian and Krzakala, Florent and Mézard, Marc "
    "and Zdeborová, Lenka",
    2021,
    "Learning curves of generic features maps for realistic datasets with a teacher-student model",
    "Advances in Neural Information Processing Systems 34",
    kind="inproceedings",
)

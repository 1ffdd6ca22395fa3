"""The papers of this topic that several studies cite."""

from __future__ import annotations

from unlazy.lab import Source

LEE = Source(
    "lee2024",
    "Lee, Jason D. and Oko, Kazusato and Suzuki, Taiji and Wu, Denny",
    2024,
    "Neural network learns low-dimensional polynomials with SGD near the information-theoretic limit",
    "Advances in Neural Information Processing Systems 37",
    kind="inproceedings",
)
OKO = Source(
    "oko2024",
    "Oko, Kazusato and Song, Yujin and Suzuki, Taiji and Wu, Denny",
    2024,
    "Learning sum of diverse features: computational hardness and efficient gradient-based training for ridge "
    "combinations",
    "Conference on Learning Theory",
    kind="inproceedings",
)
BEN_AROUS = Source(
    "benarous2021",
    "Ben Arous, Gerard and Gheissari, Reza and Jagannath, Aukosh",
    2021,
    "Online stochastic gradient descent on non-convex losses from high-dimensional inference",
    "Journal of Machine Learning Research 22",
)
DAMIAN_SMOOTHING = Source(
    "damian2023",
    "Damian, Alex and Nichani, Eshaan and Ge, Rong and Lee, Jason D.",
    2023,
    "Smoothing the landscape boosts the signal for SGD: optimal sample complexity for learning single index models",
    "Advances in Neural Information Processing Systems 36",
    kind="inproceedings",
)
DAMIAN = Source(
    "damian2024",
    "Damian, Alex and Pillaud-Vivien, Loucas and Lee, Jason D. and Bruna, Joan",
    2024,
    "Computational-statistical gaps in Gaussian single-index models",
    "Conference on Learning Theory",
    kind="inproceedings",
)
DANDI = Source(
    "dandi2024",
    "Dandi, Yatin and Troiani, Emanuele and Arnaboldi, Luca and Pesce, Luca and Zdeborová, Lenka and Krzakala, Florent",
    2024,
    "The benefits of reusing batches for gradient descent in two-layer networks: breaking the curse of information and "
    "leap exponents",
    "International Conference on Machine Learning",
    kind="inproceedings",
)
MONDELLI = Source(
    "mondelli2018",
    "Mondelli, Marco and Montanari, Andrea",
    2018,
    "Fundamental limits of weak recovery with applications to phase retrieval",
    "Conference on Learning Theory",
    kind="inproceedings",
)
LU = Source(
    "lu2020",
    "Lu, Yue M. and Li, Gen",
    2020,
    "Phase transitions of spectral initialization for high-dimensional non-convex estimation",
    "Information and Inference: A Journal of the IMA 9",
)
BARBIER = Source(
    "barbier2019",
    "Barbier, Jean and Krzakala, Florent and Macris, Nicolas and Miolane, Léo and Zdeborová, Lenka",
    2019,
    "Optimal errors and phase transitions in high-dimensional generalized linear models",
    "Proceedings of the National Academy of Sciences 116",
)
CHEN = Source(
    "chen2020",
    "Chen, Sitan and Meka, Raghu",
    2020,
    "Learning polynomials in few relevant dimensions",
    "Conference on Learning Theory",
    kind="inproceedings",
)
GHORBANI = Source(
    "ghorbani2021",
    "Ghorbani, Behrooz and Mei, Song and Misiakiewicz, Theodor and Montanari, Andrea",
    2021,
    "Linearized two-layers neural networks in high dimension",
    "The Annals of Statistics 49",
)
TALK = Source(
    "wu2024talk",
    "Wu, Denny",
    2024,
    "Learning single-index models with neural networks",
    "Talk, New York University and Flatiron Institute",
    kind="misc",
)

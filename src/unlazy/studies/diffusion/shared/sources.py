"""The papers of this topic that several studies cite."""

from __future__ import annotations

from unlazy.lab import Source

CHEN = Source(
    "chen2023",
    "Chen, Sitan and Chewi, Sinho and Li, Jerry and Li, Yuanzhi and Salim, Adil and Zhang, Anru R.",
    2023,
    "Sampling is as easy as learning the score: theory for diffusion models with minimal data assumptions",
    "International Conference on Learning Representations",
    kind="inproceedings",
)
OKO = Source(
    "oko2023",
    "Oko, Kazusato and Akiyama, Shunta and Suzuki, Taiji",
    2023,
    "Diffusion models are minimax optimal distribution estimators",
    "International Conference on Machine Learning",
    kind="inproceedings",
)
NILES_WEED = Source(
    "nilesweed2022",
    "Niles-Weed, Jonathan and Berthet, Quentin",
    2022,
    "Minimax estimation of smooth densities in Wasserstein distance",
    "The Annals of Statistics 50(3), 1519-1540",
)
SONG = Source(
    "song2021",
    "Song, Yang and Sohl-Dickstein, Jascha and Kingma, Diederik P. and Kumar, Abhishek and Ermon, Stefano and "
    "Poole, Ben",
    2021,
    "Score-based generative modeling through stochastic differential equations",
    "International Conference on Learning Representations",
    kind="inproceedings",
)

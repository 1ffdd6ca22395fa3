"""The sources that several studies of this topic share."""

from __future__ import annotations

from unlazy.lab import Source

SUZUKI = Source(
    "suzuki2024",
    "Suzuki, Keita and Suzuki, Taiji",
    2024,
    "Optimal criterion for feature learning of two-layer linear neural network in high dimensional interpolation "
    "regime",
    "International Conference on Learning Representations",
    kind="inproceedings",
)
TALK = Source(
    "suzuki2024talk",
    "Suzuki, Taiji",
    2024,
    "Feature learning theory in multi-task and in-context learning",
    "Talk at FIMI 2024",
    kind="misc",
)
TSIGLER = Source(
    "tsigler2023",
    "Tsigler, Alexander and Bartlett, Peter L.",
    2023,
    "Benign overfitting in ridge regression",
    "Journal of Machine Learning Research 24(123), 1-76",
)
BARTLETT = Source(
    "bartlett2020",
    "Bartlett, Peter L. and Long, Philip M. and Lugosi, Gábor and Tsigler, Alexander",
    2020,
    "Benign overfitting in linear regression",
    "Proceedings of the National Academy of Sciences 117(48), 30063-30070",
)
MALLINAR = Source(
    "mallinar2022",
    "Mallinar, Neil and Simon, James B. and Abedsoltan, Amirhesam and Pandit, Parthe and Belkin, Mikhail and "
    "Nakkiran, Preetum",
    2022,
    "Benign, tempered, or catastrophic: A taxonomy of overfitting",
    "Advances in Neural Information Processing Systems 35",
    kind="inproceedings",
)

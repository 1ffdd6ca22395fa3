"""The papers of this topic that several studies cite."""

from __future__ import annotations

from unlazy.lab import Source

LU = Source(
    "lu2024",
    "Lu, Yue M. and Letey, Mary I. and Zavatone-Veth, Jacob A. and Maiti, Anindita and Pehlevan, Cengiz",
    2024,
    "Asymptotic theory of in-context learning by linear attention",
    "arXiv:2405.11751; Proceedings of the National Academy of Sciences 122(28), e2502599122 (2025)",
)
RAVENTOS = Source(
    "raventos2023",
    "Raventós, Allan and Paul, Mansheej and Chen, Feng and Ganguli, Surya",
    2023,
    "Pretraining task diversity and the emergence of non-Bayesian in-context learning for regression",
    "Advances in Neural Information Processing Systems 36",
    kind="inproceedings",
)
KIM = Source(
    "kim2024",
    "Kim, Juno and Suzuki, Taiji",
    2024,
    "Transformers learn nonlinear features in context: Nonconvex mean-field dynamics on the attention landscape",
    "International Conference on Machine Learning",
    kind="inproceedings",
)
OKO = Source(
    "oko2024context",
    "Oko, Kazusato and Song, Yujin and Suzuki, Taiji and Wu, Denny",
    2024,
    "Pretrained transformer efficiently learns low-dimensional target functions in-context",
    "Advances in Neural Information Processing Systems 37",
    kind="inproceedings",
)
BU = Source(
    "bu2024",
    "Bu, Dake and Huang, Wei and Han, Andi and Nitanda, Atsushi and Suzuki, Taiji and Zhang, Qingfu and Wong, Hau-San",
    2024,
    "Provably transformers harness multi-concept word semantics for efficient in-context learning",
    "Advances in Neural Information Processing Systems 37",
    kind="inproceedings",
)
GARG = Source(
    "garg2022",
    "Garg, Shivam and Tsipras, Dimitris and Liang, Percy and Valiant, Gregory",
    2022,
    "What can transformers learn in-context? A case study of simple function classes",
    "Advances in Neural Information Processing Systems 35",
    kind="inproceedings",
)

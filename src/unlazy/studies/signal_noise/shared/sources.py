"""The papers of this topic that several studies cite."""

from __future__ import annotations

from unlazy.lab import Source

CAO = Source(
    "cao2022",
    "Cao, Yuan and Chen, Zixiang and Belkin, Mikhail and Gu, Quanquan",
    2022,
    "Benign overfitting in two-layer convolutional neural networks",
    "Advances in Neural Information Processing Systems 35",
    kind="inproceedings",
)
KOU = Source(
    "kou2023",
    "Kou, Yiwen and Chen, Zixiang and Chen, Yuanzhou and Gu, Quanquan",
    2023,
    "Benign overfitting in two-layer ReLU convolutional neural networks",
    "International Conference on Machine Learning",
    kind="inproceedings",
)
HAN_LABELS = Source(
    "han2025labels",
    "Han, Andi and Huang, Wei and Zhou, Zhanpeng and Niu, Gang and Chen, Wuyang and Yan, Junchi and Takeda, Akiko and "
    "Suzuki, Taiji",
    2025,
    "On the role of label noise in the feature learning process",
    "International Conference on Machine Learning",
    kind="inproceedings",
)
HUANG_LABELS = Source(
    "huang2025labels",
    "Huang, Wei and Han, Andi and Song, Yujin and Chen, Yilan and Wu, Denny and Zou, Difan and Suzuki, Taiji",
    2025,
    "How does label noise gradient descent improve generalization in the low SNR regime?",
    "Advances in Neural Information Processing Systems",
    kind="inproceedings",
)
TUTORIAL = Source(
    "han2025tutorial",
    "Han, Andi and Huang, Wei",
    2025,
    "Demystifying optimization and generalization of deep learning via feature learning theory",
    "Tutorial at the Australasian Joint Conference on Artificial Intelligence, Canberra",
    kind="misc",
)

"""Training of any network of Equinox or PyTorch on any rows, and what it changed in the network."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.one_step.own_network import arms, equinox_network, measures
    from unlazy.training.one_step.own_network.run import train_network

lazily(__name__)

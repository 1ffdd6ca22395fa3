"""What averaging over neighbours in a graph does to the race of signal against noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape


def graph_gain(power: ArrayLike, neighbours: ArrayLike, homophily: ArrayLike = 1.0) -> np.ndarray:
    """By which factor a graph convolution multiplies n SNR^q, the strength of signal against noise.

        (h sqrt(D))^(q-2)

    Every node sees the mean over D = `neighbours` nodes, itself among them; (1 + h)/2 of these are of its class, h the
    `homophily`. The mean keeps the share h of the signal, whose time to blow up becomes h^-q times as long, and leaves
    noise of the length sigma sqrt(d/D). Nodes that share neighbours memorise their noise together: the part that nodes
    of a class have in common grows at the rate h^2 times that of one sample without a graph, from a start 1/sqrt(D) of
    that one's, and its time becomes h^-2 D^((q-2)/2) times as long.

    Exact where the nodes are in separate groups of D of one class (h = 1). Those of a group see the same patches: the
    network is that without a graph on n/D samples whose SNR is sqrt(D) times as large, and

        (n/D) (sqrt(D) SNR)^q = n SNR^q D^((q-2)/2).

    For other graphs it is a heuristic, for h sqrt(D) > 1, which leaves out what a node memorises alone: that would give
    h^q in place of h^(q-2), and the study graph-convolution finds a power between the two. Source: the power of D is
    that of Huang et al. (2023), for q > 2; the power of h is this project's.

    >>> print(graph_gain(power=[2, 3, 4], neighbours=16), graph_gain(power=3, neighbours=16, homophily=0.5))
    [ 1.  4. 16.] 2.0
    """
    power = check_array("power", power, low=2, high=100)
    neighbours = check_array("neighbours", neighbours, low=1)
    homophily = check_array("homophily", homophily, low=0, high=1)
    common_shape(power=power, neighbours=neighbours, homophily=homophily)
    return ((homophily * np.sqrt(neighbours)) ** (power - 2))[()]

"""What averaging over neighbours in a graph does to the race of signal against noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape


def graph_gain(power: ArrayLike, neighbours: ArrayLike, homophily: ArrayLike = 1.0) -> np.ndarray:
    """By which factor a graph convolution multiplies n SNR^q, the strength of signal against noise.

        k^q D^((q-2)/2),        k = (1 + (D-1) h) / D

    Every node sees the mean over D = `neighbours` nodes, itself among them; of the others (1 + h)/2 are of its class,
    h the `homophily`. The mean keeps the share k of the signal and leaves noise of the length sigma sqrt(d/D). Where
    the nodes are in separate groups of D of one class (h = 1), those of a group see the same patches: the network is
    that without a graph on n/D samples whose SNR is sqrt(D) times as large, and the factor is exact,

        (n/D) (sqrt(D) SNR)^q = n SNR^q D^((q-2)/2).

    At q = 2 such a graph changes nothing but the number of samples. With D = 1 the factor is 1, and it is less than 1,
    so that the graph is in the way, for k < D^-((q-2)/(2q)). For random edges it is a law for the order of magnitude:
    patches of different nodes share noise, and k varies between nodes. Source: the power of D is that of Huang et al.
    (2023), for q > 2; groups and the share k are this project's.

    >>> print(graph_gain(power=[2, 3, 4], neighbours=16), graph_gain(power=3, neighbours=16, homophily=0.4))
    [ 1.  4. 16.] 0.33496
    """
    power = check_array("power", power, low=2, high=100)
    neighbours = check_array("neighbours", neighbours, low=1)
    homophily = check_array("homophily", homophily, low=0, high=1)
    common_shape(power=power, neighbours=neighbours, homophily=homophily)
    kept = homophily + (1 - homophily) / neighbours
    # One power: of the two, one may be too large a number where their product is not.
    with np.errstate(over="ignore"):
        return np.exp(power * np.log(kept) + (power - 2) / 2 * np.log(neighbours))[()]

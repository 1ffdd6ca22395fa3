"""The token-Gram engine: exact gradient descent of patch networks at a cost that does not depend on the dimension.

    problem = draw_signal_noise(key, samples=20, width=10, dimension=1e4, signal=10.0, scale=1e-4)
    network = Network(relu_power(2))
    run = train(key, problem, network, gradient_descent(0.1), 500)
    error, loss = fresh_error(key, problem, run.state.weights, network)

`problem` and `drawing` say what is trained, `network` what it computes, `views` what a step sees, `rules` what it does
with the gradient, `engine` does it, `observables` and `fresh` measure, `direct` is the same in d dimensions.
"""

from unlazy.training.signal_noise.token_gram.checks import validate
from unlazy.training.signal_noise.token_gram.direct import Vectors, explicit, train_direct
from unlazy.training.signal_noise.token_gram.drawing import draw, draw_signal_noise, paired_second_layer
from unlazy.training.signal_noise.token_gram.engine import State, Trained, init, step, train
from unlazy.training.signal_noise.token_gram.fresh import FreshError, fresh_error, fresh_errors
from unlazy.training.signal_noise.token_gram.network import CUBE, LOGISTIC, SQUARED, Loss, Network, relu_power
from unlazy.training.signal_noise.token_gram.observables import fitted, margins, noise_coefficients, signal_coefficients
from unlazy.training.signal_noise.token_gram.problem import Design, Patch, Problem, from_vectors, signal_noise_design
from unlazy.training.signal_noise.token_gram.rules import (
    Rule,
    gradient_descent,
    gradient_flow,
    muon,
    normalised,
    switch,
)
from unlazy.training.signal_noise.token_gram.views import (
    Batch,
    Mixing,
    View,
    full_batch,
    label_flips,
    mini_batch,
    mixup,
)
from unlazy.training.signal_noise.token_gram.weights import Weights, weight_gram

__all__ = [
    "CUBE",
    "LOGISTIC",
    "SQUARED",
    "Batch",
    "Design",
    "FreshError",
    "Loss",
    "Mixing",
    "Network",
    "Patch",
    "Problem",
    "Rule",
    "State",
    "Trained",
    "Vectors",
    "View",
    "Weights",
    "draw",
    "draw_signal_noise",
    "explicit",
    "fitted",
    "fresh_error",
    "fresh_errors",
    "from_vectors",
    "full_batch",
    "gradient_descent",
    "gradient_flow",
    "init",
    "label_flips",
    "margins",
    "mini_batch",
    "mixup",
    "muon",
    "noise_coefficients",
    "normalised",
    "paired_second_layer",
    "relu_power",
    "signal_coefficients",
    "signal_noise_design",
    "step",
    "switch",
    "train",
    "train_direct",
    "validate",
    "weight_gram",
]

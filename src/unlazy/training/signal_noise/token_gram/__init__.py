"""The token-Gram engine: exact gradient descent of patch networks at a cost that does not depend on the dimension.

    problem = draw_signal_noise(key, n=20, d=1e4, width=10, signal_norm=10.0, initial_deviation=1e-4)
    network = Network(relu_power(2))
    run = train(key, problem, network, gradient_descent(0.1), 500)
    error, loss = fresh_error(key, problem, run.state.weights, network)

`problem` and `drawing` say what is trained, `network` what it computes, `views` what a step sees, `rules` what it does
with the gradient, `engine` does it, `observables` and `fresh` measure, `runs` does all of it; `leaders` predicts from
the start, `oscillation` watches the loss.
"""

from unlazy.training.signal_noise.token_gram.drawing import draw, draw_signal_noise, paired_second_layer
from unlazy.training.signal_noise.token_gram.engine import State, TrainedPatches, init, step, train
from unlazy.training.signal_noise.token_gram.fresh import FreshError, fresh_error, fresh_errors, fresh_kinds
from unlazy.training.signal_noise.token_gram.leaders import race_outcome, race_run
from unlazy.training.signal_noise.token_gram.network import (
    CUBE,
    LOGISTIC,
    SQUARED,
    Network,
    PatchLoss,
    relu_or_square,
    relu_power,
)
from unlazy.training.signal_noise.token_gram.observables import (
    active_fraction,
    clean_and_flipped,
    feature_output,
    fitted,
    margins,
    mean_coefficients,
    mean_signal,
    noise_coefficients,
    own_pairs,
    signal_coefficients,
)
from unlazy.training.signal_noise.token_gram.oscillation import loss_rises, watch_loss
from unlazy.training.signal_noise.token_gram.problem import (
    Patch,
    PatchDesign,
    PatchProblem,
    feature_design,
    from_vectors,
    signal_noise_design,
)
from unlazy.training.signal_noise.token_gram.rules import (
    UpdateRule,
    either,
    gradient_descent,
    gradient_flow,
    muon,
    normalised,
    switch,
)
from unlazy.training.signal_noise.token_gram.runs import PatchRun, patch_run
from unlazy.training.signal_noise.token_gram.views import (
    Mixing,
    SeenBatch,
    View,
    cut,
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
    "FreshError",
    "Mixing",
    "Network",
    "Patch",
    "PatchDesign",
    "PatchLoss",
    "PatchProblem",
    "PatchRun",
    "SeenBatch",
    "State",
    "TrainedPatches",
    "UpdateRule",
    "View",
    "Weights",
    "active_fraction",
    "clean_and_flipped",
    "cut",
    "draw",
    "draw_signal_noise",
    "either",
    "feature_design",
    "feature_output",
    "fitted",
    "fresh_error",
    "fresh_errors",
    "fresh_kinds",
    "from_vectors",
    "full_batch",
    "gradient_descent",
    "gradient_flow",
    "init",
    "label_flips",
    "loss_rises",
    "margins",
    "mean_coefficients",
    "mean_signal",
    "mini_batch",
    "mixup",
    "muon",
    "noise_coefficients",
    "normalised",
    "own_pairs",
    "paired_second_layer",
    "patch_run",
    "race_outcome",
    "race_run",
    "relu_or_square",
    "relu_power",
    "signal_coefficients",
    "signal_noise_design",
    "step",
    "switch",
    "train",
    "watch_loss",
    "weight_gram",
]

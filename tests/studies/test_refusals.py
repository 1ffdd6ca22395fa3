"""Parameters that do not fit together are refused in words that name them."""

import pytest

from unlazy.checks import InputError
from unlazy.lab import registry

REFUSED = [
    ("adam-vs-gradient-descent", {"noise_coordinates": 257}, "noise_coordinates must be at most"),
    ("adam-vs-gradient-descent", {"n": 5}, "n must be even"),
    ("additive-localisation", {"d": 5}, "d must be at least tasks = 6, got 5"),
    ("additive-localisation", {"width": (8, 512)}, "width must be at most largest_width = 256, got 512"),
    ("additive-scaling", {"d": 10_000}, "d must be at most largest_d = 100, got 10000"),
    ("additive-scaling", {"d": 6}, "d must be at least 7, got 6"),
    ("additive-scaling", {"tasks": 128}, "tasks must be at most largest_tasks = 64, got 128"),
    (
        "additive-scaling",
        {"d": 10_000, "largest_d": 10_000, "relative_step_size": 0.01},
        "tasks, d and relative_step_size would need up to",
    ),
    ("almeida-thouless-line", {"ensemble": "row-orthogonal", "aspect_ratio": 0.9}, "aspect_ratio must be > 1"),
    ("attention-descent", {"steps": 42}, "steps must be a multiple of 5, got 42"),
    ("batch-reuse", {"samples_per_dimension": 16}, "samples_per_dimension must be a multiple of 15, got 16"),
    ("concepts-and-semantics", {"concepts": 9}, "d must be at least 2 concepts = 18"),
    ("concepts-and-semantics", {"width": 7}, "width must be even"),
    ("contrastive-modalities", {"n": 5}, "n must be even"),
    ("contrastive-modalities", {"steps": 30}, "steps must be more than"),
    ("contrastive-modalities", {"width": 50}, "width must be at most"),
    ("cutmix", {"d": 90.0}, "d must be at least"),
    ("diffusion-vs-classification", {"d": 81.0}, "d must be at least 82"),
    ("diffusion-vs-classification", {"n": 5}, "n must be even"),
    ("diffusion-vs-classification", {"width": 21}, "width must be at most"),
    ("fine-tuning", {"n": (100, 1600)}, "n must be at most largest_n = 800, got 1600"),
    ("fine-tuning", {"tasks": 65}, "d must be at least tasks = 65, got 64"),
    ("fine-tuning", {"new_tasks": (1, 16)}, "new_tasks must be at most tasks = 8, got 16"),
    ("generalised-linear-state-evolution", {"label_law": "linear"}, "label_law must be linear with the square loss"),
    ("in-context-single-index", {"lowest_degree": 4}, "must be at most"),
    ("in-context-single-index", {"width": 1}, "must be at most"),
    ("in-context-single-index", {"rank": 3, "d": 2}, "must be at most"),
    ("in-context-transformer", {"heads": 3}, "width must be a multiple of heads = 3, got 32"),
    ("in-context-transformer", {"steps": (200, 500)}, "steps must be increasing multiples of segment = 200, got"),
    ("in-context-transformer", {"steps": (400, 400)}, "steps must be increasing multiples of segment = 200, got"),
    (
        "in-context-transformer",
        {"task_kind": "single-index", "lowest_degree": 3},
        "lowest_degree must be at most highest_degree = 2, got 3",
    ),
    ("in-context-transformer", {"task_kind": "single-index", "rank": 3}, "rank must be at most d = 2, got 3"),
    ("information-exponent", {"n": (100.0, 10.0)}, "n must grow"),
    ("noise-injection", {"width_per_dimension": 0.001}, "width_per_dimension must be above"),
    ("several-steps", {"width_per_dimension": 0.001}, r"width_per_dimension must be above 1 / \(2 d\) = 0.00390625"),
    ("several-steps", {"samples_per_dimension": 0.001}, "samples_per_dimension must be above"),
    (
        "label-noise-degrees-of-freedom",
        {"step_size": 10.0, "weight_decay": 1.0},
        r"step_size \* weight_decay must be <= 1",
    ),
    ("label-noise-map", {"tasks": 401}, "tasks must be at most largest_tasks = 400, got 401"),
    ("label-noise-stages", {"flip_probability": 0.0}, "flip_probability"),
    ("label-noise-stages", {"flip_probability": 0.01}, "flip_probability"),
    ("graph-convolution", {"neighbours": 33}, "neighbours must be at most n/2 = 32, got 33"),
    ("graph-convolution", {"neighbours": 5, "graph": 0}, "neighbours must be a divisor of n/2 = 32 for groups, got 5"),
    ("graph-convolution", {"graph": 0, "homophily": 0.5}, "homophily must be 1 for groups"),
    ("large-learning-rate", {"d": 50.0}, "d must be at least 62"),
    ("large-learning-rate", {"weak_samples": 41}, "weak_samples"),
    ("matrix-normalised", {"d": 50.0}, "d must be at least 90"),
    (
        "mean-field-attention",
        {"batch_size": 41},
        "batch_size must be a multiple of 8 and at least 4 features = 20, got 41",
    ),
    ("mean-field-attention", {"steps": 75}, "steps must be a multiple of 50, got 75"),
    ("mean-field-attention", {"width": 4}, "width must be at least features = 5, got 4"),
    ("mean-field-certificate", {"longest": 100}, "averaged must be at most longest = 100, got 1500"),
    ("mean-field-exact", {"step_size": 1.0}, "step_size must be below"),
    ("mean-field-particles", {"particles": 12}, "particles must be 8, 16, 32, 64 or 128, got 12"),
    ("mean-field-particles", {"step_size": 0.03}, "step_size must divide 0.2, like 0.02 or 0.005, got 0.03"),
    ("mean-field-particles", {"step_size": 0.15}, "step_size must divide 0.2, like 0.02 or 0.005, got 0.15"),
    ("mixture-classification", {"loss": "hinge"}, "fit_intercept must be false with the hinge loss"),
    ("mixup", {"rare_samples": 3}, "rare_samples"),
    ("momentum", {"d": 50.0}, "d must"),
    ("momentum", {"small_margin_samples": 41}, "small_margin_samples"),
    (
        "multiclass-message-passing",
        {"separation": 2.0, "spectrum_shape": "linear"},
        "spectrum_shape must be flat for clusters",
    ),
    ("nonparametric-in-context", {"tasks": 64}, r"tasks must be more than features\^2 = 64, got 64"),
    (
        "nonparametric-in-context",
        {"basis": "network", "features": 18},
        "features must be at most 16 for a network, got 18",
    ),
    (
        "reuse-dynamics",
        {"engine": "network", "network_d": 50, "d": 400.0},
        "d must be network_d = 50 for a network, got 400",
    ),
    ("reuse-dynamics", {"sign": 0.0}, "sign must be one of 1, -1; got 0.0"),
    ("reuse-scaling", {"sign": 0.5}, "sign must be one of 1, -1; got 0.5"),
    ("saddle-escape", {"features": 2, "missing_features": 3}, "missing_features must be at most features = 2, got 3"),
    ("sequential-message-passing", {"ensemble": "row-orthogonal", "aspect_ratio": 0.9}, "aspect_ratio must be > 1"),
    ("sharpness-aware-minimisation", {"batch_size": 21}, "batch_size"),
    ("sharpness-aware-minimisation", {"n": 21, "batch_size": 5}, "n must be even"),
    ("sign-gradient-descent-transformer", {"n": 9}, "n must be even"),
    ("sign-gradient-descent-transformer", {"signal_coordinates": 65}, "signal_coordinates must be at most"),
    ("spectral-thresholds", {"samples_per_dimension": (2.0, 1.0)}, "samples_per_dimension must grow"),
    ("superorthogonal-sgd", {"d": 3.0}, r"relative_start_overlap must be below 0.8 d\^\(1/2\) = 1.386"),
    ("transformer-overfitting", {"n": 7}, "n must be even"),
    ("xor-overfitting", {"n": 42}, "n must"),
    ("induction-heads", {"concentration": 0.7}, "concentration must be a multiple of 0.5, got 0.7"),
    ("softmax-attention", {"heads": 3}, "width must be a multiple of heads = 3, got 8"),
    ("softmax-attention", {"steps": 100}, "prompts must be at most steps times batch_size = 3200, one pass, got 16384"),
    ("softmax-descent", {"steps": 100}, "prompts must be at most steps times batch_size = 3200, one pass, got 16384"),
    ("trained-metric", {"tasks": 401}, "tasks must be at most largest_tasks = 400, got 401"),
]
ACCEPTED = [
    ("label-noise-stages", {"flip_probability": 0.03}),
    ("mean-field-particles", {"step_size": 0.005}),
    ("mixture-classification", {"loss": "hinge", "fit_intercept": False}),
    *((name, {}) for name in sorted({name for name, *_ in REFUSED})),
]


@pytest.mark.parametrize(("name", "wrong", "words"), REFUSED)
def test_parameters_that_do_not_fit_together_are_refused(name, wrong, words):
    with pytest.raises(InputError, match=words):
        registry.find(name)(**wrong).validate()


@pytest.mark.parametrize(("name", "right"), ACCEPTED)
def test_their_neighbours_and_the_defaults_are_not(name, right):
    registry.find(name)(**right).validate()

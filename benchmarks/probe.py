"""The tangent kernel of a convolutional network against `torch.func`, and wrong labels against cleanlab.

The network has 0.96 million parameters and 10 outputs, images 28 x 28 pixels. `torch.func` forms the gradients of all
outputs at all images (`vmap` of `jacrev`), 0.9 GB for 24 images, and multiplies them; `tangent_kernel` never forms
them. Each measurement is a process of its own with one thread; memory is the peak beyond that after the imports.
Wrong labels: 500 rows of digits or MNIST (14 x 14 pixels) of which 30% have another label at random, four draws; less
is better of 1 - AUC. cleanlab 2.9.0 got out-of-sample probabilities of a support vector machine (5 folds) and the
better of two scores; it was run once in an environment of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.measure import Benchmark, Row, against, ratios

_SHARED = """
import json, resource, time
import torch
from torch import nn
from unlazy.diagnostics.probing.torch_kernel import tangent_kernel
torch.set_num_threads(1)
torch.manual_seed(0)
def block(a, b):
    return [nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
model = nn.Sequential(*block(1, 32), *block(32, 64), *block(64, 128), nn.Flatten(), nn.Linear(1152, 750), nn.ReLU(),
                      nn.Linear(750, 10)).eval()
x = torch.randn({images}, 1, 28, 28)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, begin = peak(), time.process_time()
{call}
print(json.dumps({{"seconds": time.process_time() - begin, "megabytes": peak() - before, "sum": float(kernel.sum())}}))
"""
_OURS = "kernel = tangent_kernel(model, x, budget={megabytes} * 2**20).values"
_THEIRS = """
params = {name: p.detach() for name, p in model.named_parameters()}
one = lambda p, row: torch.func.functional_call(model, p, (row[None],))[0]
found = torch.func.vmap(torch.func.jacrev(one), in_dims=(None, 0))(params, x)
kernel = sum((g.flatten(1) @ g.flatten(1).T).double() for g in found.values()) / 10
"""
# 1 - AUC of cleanlab 2.9.0, draws 0 to 3
_CLEANLAB = {"digits": (0.0075, 0.0048, 0.0053, 0.0065), "mnist": (0.0291, 0.0262, 0.0316, 0.0364)}
_NEURAL_TANGENTS = "neural-tangents 0.6.5 is not compared: it does not start without TensorFlow"
_WEIGHTWATCHER = (
    "weightwatcher 0.7.7, which sees weights and no data, called the layers of 4 of 4 networks that had memorised "
    "flipped labels over-trained, and those of 1 of 4 with right labels; probe said memory of 4 of 4 and of 0 of 4 "
    "(MNIST, MLP and CNN, output scales 1 and 0.1, run once in an environment of its own)"
)
_ROUNDS = 3


def probe() -> Benchmark:
    ours = [_measured(_OURS.format(megabytes=512), 24) for _ in range(_ROUNDS)]
    theirs = [_measured(_THEIRS, 24) for _ in range(_ROUNDS)]
    large = [_measured(_OURS.format(megabytes=512), 500) for _ in range(_ROUNDS)]
    off = abs(ours[0]["sum"] / theirs[0]["sum"] - 1)
    rows = [
        against("torch.func", "tangent kernel, 24 images", _ratio(theirs, ours, "seconds"), at_least=1.0),
        against("torch.func", "tangent kernel, 24 images", _ratio(theirs, ours, "megabytes"), kind="memory"),
        Row("tangent kernel, 500 images, 10 outputs", [one["seconds"] for one in large], "s"),
        Row("its memory, of a budget of 512 MB", [one["megabytes"] for one in large], "MB", at_most=600.0),
        Row("relative difference from torch.func, single precision", [off], "", at_most=1e-5),
    ]
    for name, quoted in _CLEANLAB.items():
        own = [1 - _auc(name, seed) for seed in range(len(quoted))]
        rows.append(
            against("cleanlab", f"wrong labels of {name}, 1 - AUC", ratios(quoted, own), kind="error", quoted=True)
        )
    return Benchmark(rows, [_NEURAL_TANGENTS, _WEIGHTWATCHER])


def _measured(call: str, images: int) -> dict[str, float]:
    code = _SHARED.format(call=call, images=images)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _ratio(theirs: list[dict[str, float]], ours: list[dict[str, float]], name: str) -> list[float]:
    return ratios([one[name] for one in theirs], [one[name] for one in ours])


def _auc(name: str, seed: int) -> float:
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.metrics import roc_auc_score

    from unlazy.data.images import draw_images, load_images
    from unlazy.diagnostics.probing.alternatives import rbf_kernel
    from unlazy.observables.left_out_labels import left_out_labels

    rng = np.random.default_rng(seed)
    if name == "digits":
        rows, truth = load_digits(return_X_y=True)
        order = rng.permutation(len(rows))[:1000]
        rows, truth = rows[order] / 16, truth[order]
    else:
        drawn = draw_images(rng, load_images("mnist"), 1000, 0, 1, 2)
        rows, truth = drawn.images.reshape(1000, -1).astype(float), drawn.classes
    rows, truth = rows[:500], truth[:500]
    flipped = rng.random(500) < 0.3
    given = np.where(flipped, (truth + rng.integers(1, 10, 500)) % 10, truth)
    return float(roc_auc_score(flipped, -left_out_labels(rbf_kernel(rows, given), given, 10).margins))

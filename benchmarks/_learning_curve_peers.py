"""The packages that extrapolate the shape of a learning curve: `learning-curves` 0.2.2 and `lcpfn` 0.1.3.

Both are given scores of the same model at eight sizes up to 0.8 N, trained again and again, and say what the score at a
larger size will be. The score is R2 = 1 - error / variance of the target, as both are made for scores that rise to 1.

learning-curves fits four formulas by least squares and takes the one that fits best, as its own `best_predictor` does.

lcpfn is a transformer trained on curves drawn from a prior. Its authors' weights (12 layers, 512 wide, 100,000 steps)
are fetched from the internet on first use. Here a SMALL one is trained by the package's own `train_lcpfn` and kept in
the user's cache; what it does is what such a small model does, not what the published one does. Two lines of the
package do not run with today's PyTorch (it asks for torch <= 1.11) and are mended in memory.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

INSTALL = "pip install --no-deps learning-curves==0.2.2 lcpfn==0.1.3 dill"
SMALL = {"emsize": 128, "nlayers": 2, "num_borders": 200, "lr": 1e-3, "batch_size": 16, "epochs": 8}
# of the N rows; a fifth of them is held out each time, as `learning-curves` does by default
PARTS = np.arange(1, 9) / 10
# lcpfn knows the positions 1, ..., 100: N is the tenth, ten times N the hundredth
_POSITIONS = 100


def missing() -> list[str]:
    return [name for name in ("learning_curves", "lcpfn") if find_spec(name) is None]


def learning_curves(sizes: np.ndarray, scores: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The best of the four formulas of `learning-curves`; NaN where none could be fitted."""
    from learning_curves.learning_curves import LearningCurve

    curve = LearningCurve()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fitted = [p for p in curve.fit_all_cust(sizes, scores, curve.predictors) if np.isfinite(p.score)]
        if not fitted:
            return np.full(len(wanted), np.nan)
        best = max(fitted, key=lambda p: p.score)
        return np.asarray(best(wanted), dtype=float)


def lcpfn(scores: np.ndarray, factors: np.ndarray, model: Any) -> np.ndarray:
    """The median of what the small model says at multiples of N rows, of scores at `PARTS` of them.

    Scores below 0 are shown to it as 0: it knows curves in [0, 1] only.
    """
    import torch

    given = torch.tensor(10 * PARTS, dtype=torch.float32)[:, None]
    asked = torch.tensor(10 * factors, dtype=torch.float32)[:, None]
    shown = torch.tensor(np.clip(scores, 0.0, 1.0), dtype=torch.float32)[:, None]
    with torch.no_grad():
        found = model.predict_quantiles(given, shown, asked, [0.5])
    return found.numpy().ravel().astype(float)


def small_lcpfn() -> tuple[Any, dict[str, float]]:
    """The small model; its final loss, the seconds of its training and its weights. Trained once, then cached."""
    import platformdirs
    import torch

    _mend()
    import lcpfn as package

    words = "-".join(f"{key}{value}" for key, value in SMALL.items())
    file = Path(platformdirs.user_cache_dir("unlazy")) / "benchmarks" / f"lcpfn-0.1.3-{words}.pt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002, the package draws its curves from the global generator
        begin = time.perf_counter()
        batches = package.create_get_batch_func(prior=package.sample_from_prior)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss, _, network, _ = package.train_lcpfn(batches, seq_len=_POSITIONS, **SMALL)
        torch.save(
            {"network": network, "loss": float(loss), "seconds": time.perf_counter() - begin},
            file.with_suffix(".part"),
        )
        file.with_suffix(".part").rename(file)
    # a file that this function wrote; the network is a whole object, as the package saves its own
    kept = torch.load(file, weights_only=False)
    model = package.LCPFN.__new__(package.LCPFN)
    torch.nn.Module.__init__(model)
    model.model = kept["network"].eval()
    weights = sum(part.numel() for part in model.model.parameters())
    return model, {"loss": kept["loss"], "seconds": kept["seconds"], "weights": weights}


def _mend() -> None:
    """What PyTorch no longer exports to `import *`, and an argument that it now passes to every encoder layer."""
    import torch
    from lcpfn import layer

    for name in ("MultiheadAttention", "Linear", "Dropout", "LayerNorm"):
        if not hasattr(layer, name):
            setattr(layer, name, getattr(torch.nn, name))
    forward = layer.TransformerEncoderLayer.forward
    if not getattr(forward, "mended", False):

        def mended(self: Any, *args: Any, is_causal: bool = False, **options: Any) -> Any:
            return forward(self, *args, **options)

        mended.mended = True  # type: ignore[attr-defined]
        layer.TransformerEncoderLayer.forward = mended

"""Score networks trained on finitely many noise draws: how many it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Study, cite, claim, path, static
from unlazy.lab.claims import at_most
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.diffusion.shared import NETWORKS

BUMPS = {1: 0.5, 2: 1.0, 3: 1.5}
LAWS = ("uniform", "log-uniform")
PILOT = "after pilots in another stream"


def _over_all(part) -> Any:
    """Mean ratio of the total variation with finitely many draws to that with all noise."""
    ratio = part.simulated.drawn_error / part.simulated.network_error
    return np.exp(np.log(ratio).mean("seed"))


@dataclass(frozen=True)
class ScoreNetworkDraws(Study):
    """Networks as in `score-network-rate`, trained on M draws of an observation, its noise and a time.

    The paper draws times uniformly and finds that M = C n^(1 + 2(s+1)/(2s+1)) draws are enough: for n = 64 and s = 2,
    and with C = 1, that is 147 per observation. Log-uniform times have weights that make the risk the same.
    Compared is a network that is trained on the same observations with the average over all noise.
    """

    question = "How many noise draws per observation does it take to train a score network?"
    sources = cite("oko2023")

    smoothness: int = static(2, "smoothness of the density", symbol="s", low=1, high=3)
    n: int = static(64, "observations", symbol="n", low=16, high=1 << 20, scale="log")
    noise_draws: tuple = path(
        (4, 16, 64, 147), "noise draws per observation", symbol="M/n", low=1, high=100_000, scale="log"
    )
    steps: int = static(50, "training steps of a network", low=2, high=100_000)
    starts: int = static(2, "starts of the training, of which the best goes on", low=1, high=100)

    outputs = {
        "network_error": Output("total variation with all noise", r"{\rm TV}", scale="log"),
        "drawn_error": Output("total variation", r"{\rm TV}", ("time_law", "noise_draws"), scale="log"),
    }
    inner = {"time_law": LAWS}
    presets = {
        "quick": {"seeds": 22},
        "full": {"n": [16, 64, 256, 1024], "noise_draws": (4, 16, 64, 147, 588), "steps": 200, "seeds": 16},
    }
    history = (
        Change("", "n = 64, the numbers of draws and the criteria", PILOT),
        Change("log-times", "1 in place of 0.8", "of four streams with up to 22 seeds one left it undecided"),
    )
    figure = panels(
        Panel("drawn_error", x="noise_draws", by="time_law", log="xy"),
        Panel(
            lambda data: data.drawn_error / data.network_error,
            x="noise_draws",
            by="time_law",
            ylabel="TV / TV with all noise",
            log="xy",
            marks=(Level(1, dashed=True),),
            legend=False,
        ),
    )

    @claim("oko2023", "Finite sample approximation", at_most(3.0), resampled=True, departs=NETWORKS)
    def theorem(main):
        """The theorem's number of draws is enough up to a constant: with n^(1 + 2(s+1)/(2s+1)) draws of uniform times
        the total variation is {criterion} times that with all noise, for n = 64 and s = 2."""
        return _over_all(main).sel(time_law="uniform", noise_draws=147, drop=True)

    @claim(OWN, "which times to draw", at_most(1.0), resampled=True)
    def log_times(main):
        """Log-uniform times are a better use of the draws: with 64 per observation the total variation is {criterion}
        times that of uniform times."""
        ratio = _over_all(main).sel(noise_draws=64, drop=True)
        return ratio.sel(time_law="log-uniform", drop=True) / ratio.sel(time_law="uniform", drop=True)

    @claim(OWN, "how many draws it takes", at_most(1.3), resampled=True)
    def enough(main):
        """With log-uniform times 147 draws per observation are enough: the total variation is {criterion} times
        that with all noise."""
        return _over_all(main).sel(time_law="log-uniform", noise_draws=147, drop=True)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.diffusion.noise_draws import drawn_errors

        options = self.as_dict("steps", "starts")
        drawn = drawn_errors(
            rng, self.smoothness, self.n, self.noise_draws, bumps=BUMPS[self.smoothness], factor=18.0, **options
        )
        return dict(zip(self.outputs, drawn, strict=True))

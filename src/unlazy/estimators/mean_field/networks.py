"""Two-layer networks trained by mean-field Langevin dynamics, with a certificate of their distance from the optimum."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from unlazy.checks import InputError, check_array
from unlazy.estimators.common.gate import is_gain, mean_of_rows
from unlazy.estimators.common.inputs import check_table
from unlazy.estimators.common.scaling import scale_data
from unlazy.estimators.mean_field.base import LeftOutPredictions, MeanField
from unlazy.estimators.mean_field.certificate import OptimalityCertificate, network_certificate, warn_of_width

NETWORK, RIDGE = "network", "ridge"
_PARAMETERS = """
    Parameters
    ----------
    amplitude : "auto", number > 0, or a list to choose from
        R, the height of a neuron, in units of {unit}. "auto": 3 and 10.
    prior_scale : "auto", number > 0, or a list to choose from
        tau, the deviation of a weight for standardised inputs where data say nothing. "auto": 0.1, 0.2, 0.3 and 0.5,
        times sqrt(20 / (d + 1)) if there are fewer than 19 columns.
    temperature : "auto", number > 0, or a list to choose from
        lambda_2, the weight of the entropy, for a loss that is a mean over rows. "auto": 0.001, 0.003, 0.01 and 0.1.
    particles : int
        N, neurons{per}.
    steps : int
        Langevin steps, at least 100; the first 60% up to four times as long as is safe, halved where the loss runs
        away. Ten times as many with `posterior`.
    posterior : bool
        Set the temperature so that N neurons are draws from a Bayes posterior: see above.
{extra}    certificate : bool
        Whether to estimate the gap to the optimum.
    random_state : int, RandomState or None

    Attributes
    ----------
    optimality_gap_, optimality_gap_se_ : L(q_g) - min L at most, and its standard error{gaps}; L in units of {loss}.
        nan if the checks of the estimate failed (a warning says why)
    certificates_ : list of `OptimalityCertificate`
    training_indices_ : rows that the network is trained on: all, or 8000 drawn at random
    width_std_ : of these rows{array}, standard deviation of the prediction due to finite width
    amplitude_, prior_scale_, temperature_, confinement_ : what was used; confinement = temperature / (2 prior_scale^2)
    cloud_ : ({tasks}, N, d + 1), weights and bias of the last neurons, for standardised inputs
{stages}    validation_loss_ : held-out loss of the choice, nan if nothing was to be chosen
    candidates_ : list of (amplitude, prior_scale, temperature, held-out loss)
    mean_, scale_ : (d,), of the columns of X
    encoder_ : the `TableEncoder` of a DataFrame with text, dates or gaps: d columns are then those that its
        `get_feature_names_out()` names, in their units; None where X is taken as it is
"""


class MeanFieldRegressor(RegressorMixin, MeanField):
    __doc__ = """A wide tanh network with weight decay and noise, trained to near a convex optimum, and how near.

    f(x) = R E tanh(w.x + b) over a law mu of neurons, and L(mu) = mean (f - y)^2 / 2 + lambda_1 E|w, b|^2 + lambda_2 E
    log mu is convex in mu with one minimiser. N neurons follow noisy gradient descent (mean-field Langevin dynamics);
    predictions are means over eight times of the last 40% of the steps. R, tau and lambda_2 are chosen on held-out
    rows, all candidates in one batch. Inputs and y are standardised. Ridge regression is kept (`stage_`) unless the
    network predicts the held-out rows of that choice better by more than a standard error. Of more than 8000 rows so
    many train the network, and ridge regression has all of them; certificates are made up to 2000 rows.

    It learns features: it beats kernels and trees where y depends on few directions that are no columns, such as XOR
    of two rotated inputs. A multilayer perceptron trained by Adam is often more accurate; what that does not have is
    the certificate and the spread. The certified object is the law q_g, whose predictions are `predict(X,
    law="gibbs")`; a network of N neurons is worse by a term of order 1/N.

    With `posterior=True` the temperature is N noise_variance / n, and N neurons are a draw from the posterior of a
    network f = (R/N) sum tanh(w.x + b) with weights N(0, tau^2) and normal noise. Its deviation is `predict(X,
    return_std=True)`. It is a posterior only for labels that such a network made, for the N, R, tau and noise variance
    that were set (f has a prior deviation of at most R / sqrt(N)); steps of finite size, the Gaussian formula of the
    spread and standardisation by the sample add errors, and choosing R and tau by validation is no part of it. In a
    trial with N = 64, n = 100, d = 5 intervals of 95% covered 90% with 20000 steps in all, and 79% with 2000.

    The certificate needs chains that mix. At high temperature they do; at low temperature, which sharp features such as
    XOR ask for, the checks mostly fail: then the gap is nan, a warning says why, and law="gibbs" is refused.
    """ + _PARAMETERS.format(
        unit="the deviation of y",
        per="",
        extra="""    noise_variance : "auto" or number > 0
        For the posterior: the variance of the noise of y, in the units of y squared. "auto": the held-out mean square
        of the best candidate, which is rather too large.
""",
        gaps="",
        loss="half the squared error over the variance of y",
        array=" in units of y",
        tasks="1",
        stages="""    stage_ : "network" or "ridge", which `predict` answers with;  stage_scores_ : held-out R^2 of both
""",
    )
    _loss = "square"

    def __init__(
        self,
        *,
        amplitude: Any = "auto",
        prior_scale: Any = "auto",
        temperature: Any = "auto",
        particles: int = 256,
        steps: int = 2000,
        posterior: bool = False,
        noise_variance: Any = "auto",
        certificate: bool = True,
        random_state: Any = None,
    ):
        super().__init__(
            amplitude=amplitude,
            prior_scale=prior_scale,
            temperature=temperature,
            particles=particles,
            steps=steps,
            posterior=posterior,
            certificate=certificate,
            random_state=random_state,
        )
        self.noise_variance = noise_variance

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X (n, d) and y (n,)."""
        X, y = check_table(self, X, y, y_numeric=True, ensure_min_samples=4)
        scaled = scale_data(X, y.astype(np.float64).reshape(-1, 1), "float64")
        self._keep_scaling(scaled.mean, scaled.log_deviation)
        self._target_mean = float(scaled.target_mean[0])
        self._target_scale = float(np.exp(scaled.log_target_deviation))
        variance = None
        if not isinstance(self.noise_variance, str):
            variance = (
                float(check_array("noise_variance", self.noise_variance, ndim=0, above=0)) / self._target_scale**2
            )
        elif self.noise_variance != "auto":
            raise InputError(f"noise_variance must be 'auto' or a number > 0, got {self.noise_variance!r}")
        elif self.posterior and not any(
            isinstance(x, str) or np.size(x) > 1 for x in (self.amplitude, self.prior_scale, self.temperature)
        ):
            raise InputError("noise_variance must be a number where amplitude and prior_scale are set, got 'auto'")
        left_out = self._fit(scaled.rows, scaled.targets.T, variance)
        self.width_std_ = self._target_scale * self._deviations(scaled.rows[self.training_indices_])[0]
        self.stage_, self._ridge = NETWORK, None
        if left_out is not None and not self.posterior:
            self._compare(scaled.rows, scaled.targets[:, 0], left_out)
        return self

    def _compare(self, rows: np.ndarray, labels: np.ndarray, left_out: LeftOutPredictions) -> None:
        """Keep ridge regression unless the network predicts held-out rows better by more than a standard error."""
        places = self.training_indices_[left_out.rows]
        network, ridge, held = [], [], []
        for out, predictions in zip(left_out.held, left_out.predictions.astype(np.float64), strict=True):
            model = _ridge().fit(rows[places[~out]], labels[places[~out]])
            truth = labels[places[out]]
            network.append((predictions[out] - truth) ** 2)
            ridge.append((model.predict(rows[places[out]]) - truth) ** 2)
            held.append(places[out])
        gain = mean_of_rows(np.concatenate(ridge) - np.concatenate(network), np.concatenate(held))
        total, both = float(np.var(labels)), {RIDGE: ridge, NETWORK: network}
        self.stage_scores_ = {name: 1 - float(np.concatenate(errors).mean()) / total for name, errors in both.items()}
        if not is_gain(gain, 1.0):
            self.stage_, self._ridge = RIDGE, _ridge().fit(rows, labels)

    def predict(self, X: Any, return_std: bool = False, law: str = "particles") -> Any:
        """Predictions (n,) of the trained particles, or of the certified law if `law` is "gibbs".

        If `stage_` is "ridge" they are those of ridge regression, unless `law` or `return_std` asks for the network.
        With `return_std` also the standard deviation of a prediction of N neurons, which is that of the posterior if
        `posterior` was set.
        """
        rows = self._rows(X)
        if self._ridge is not None and law == "particles" and not return_std:
            return self._target_mean + self._target_scale * self._ridge.predict(rows)
        found = self._target_mean + self._target_scale * self._evaluate(rows, law)[0]
        return (found, self._target_scale * self._deviations(rows)[0]) if return_std else found


class MeanFieldClassifier(ClassifierMixin, MeanField):
    __doc__ = """A wide tanh network with weight decay and noise for classes: see `MeanFieldRegressor`.

    The loss is logistic. More than two classes are one-vs-rest: a network each, with the same R, tau and lambda_2,
    whose probabilities are normalised, since each is then a convex problem of its own with its own certificate.

    With `posterior=True` the temperature is N / n, and N neurons are a draw from the posterior of logistic regression
    on a network of N neurons with weights N(0, tau^2); the same reservations hold as for the regressor.
    """ + _PARAMETERS.format(
        unit="the logit",
        per=" of each class, or of one network for two classes",
        extra="",
        gaps=", (classes,) if more than two",
        loss="nats",
        array=" or (rows, classes), of the logit",
        tasks="1 or classes",
        stages="",
    )
    _loss = "logistic"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X (n, d) and labels y (n,)."""
        X, y = check_table(self, X, y, ensure_min_samples=4)
        check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y must have at least 2 classes, got 1 class: {self.classes_[0]!r}")
        targets = 2.0 * (places == np.arange(len(self.classes_))[:, None]) - 1
        targets = targets[1:] if len(self.classes_) == 2 else targets
        scaled = scale_data(X, targets.T, "float64")
        self._keep_scaling(scaled.mean, scaled.log_deviation)
        self._fit(scaled.rows, targets, None)
        deviations = self._deviations(scaled.rows[self.training_indices_])
        self.width_std_ = deviations[0] if len(targets) == 1 else deviations.T
        return self

    def decision_function(self, X: Any, return_std: bool = False, law: str = "particles") -> Any:
        """Logits (n,), or (n, classes) of each class against the rest; with `return_std` also their deviations."""
        rows = self._rows(X)
        found = self._evaluate(rows, law)
        shaped = found[0] if len(found) == 1 else found.T
        if not return_std:
            return shaped
        deviations = self._deviations(rows)
        return shaped, deviations[0] if len(found) == 1 else deviations.T

    def predict_proba(self, X: Any, law: str = "particles") -> np.ndarray:
        """Probabilities (n, classes)."""
        logits = self.decision_function(X, law=law)
        chances = 0.5 * (1 + np.tanh(0.5 * logits))
        if chances.ndim == 1:
            return np.column_stack([1 - chances, chances])
        return chances / chances.sum(axis=1, keepdims=True)

    def predict(self, X: Any, law: str = "particles") -> np.ndarray:
        """The most probable class of each row."""
        logits = self.decision_function(X, law=law)
        places = (logits > 0).astype(int) if logits.ndim == 1 else np.argmax(logits, axis=1)
        return self.classes_[places]


def _ridge() -> Any:
    from sklearn.linear_model import RidgeCV

    return RidgeCV(np.logspace(-3, 6, 37))


def optimality_certificate(
    fitted_network: MeanFieldRegressor | MeanFieldClassifier,
    X: Any,
    y: Any,
    *,
    markov_chains: int = 1024,
    steps: int = 200,
    annealing: int = 200,
    polish: int = 2,
    random_state: int = 0,
) -> list[OptimalityCertificate]:
    """Certify a fitted network on the rows it was trained on, say with more chains: one certificate per network.

    The objective is that of the given rows, standardised as the network does; on other rows than those of the training
    the law is certified for the objective of these. For other networks see `network_certificate`.
    """
    if not isinstance(fitted_network, MeanField):
        raise InputError(
            f"fitted_network must be a MeanFieldRegressor or MeanFieldClassifier, got {type(fitted_network).__name__}"
        )
    rows = fitted_network._rows(X)
    if len(rows) != len(y):
        raise InputError(f"y must have one entry per row of X, got {len(y)} for {len(rows)}")
    if isinstance(fitted_network, MeanFieldRegressor):
        targets = (check_array("y", y, ndim=1)[None] - fitted_network._target_mean) / fitted_network._target_scale
    else:
        unknown = sorted(set(np.asarray(y).tolist()) - set(fitted_network.classes_.tolist()))
        if unknown:
            raise InputError(
                f"y must have classes of the training, {fitted_network.classes_.tolist()}, got {unknown[0]!r}"
            )
        targets = 2.0 * (np.asarray(y) == fitted_network.classes_[:, None]) - 1
        targets = targets[1:] if len(targets) == 2 else targets
    warn_of_width(rows.shape[1] + 1)
    width = rows.shape[1] + 1
    return [
        network_certificate(
            cloud[:, :width],
            rows,
            target,
            loss=fitted_network._loss,
            amplitude=fitted_network.amplitude_,
            temperature=fitted_network.temperature_,
            confinement=fitted_network.confinement_,
            markov_chains=markov_chains,
            steps=steps,
            annealing=annealing,
            polish=polish,
            random_state=random_state + task,
        )
        for task, (cloud, target) in enumerate(zip(fitted_network._clouds, targets, strict=True))
    ]

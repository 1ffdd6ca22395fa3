"""Fitted scikit-learn models as the convex problem they solved."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError

_LOGISTIC = ("LogisticRegression", "LogisticRegressionCV")
_RIDGE = ("Ridge", "RidgeCV")
_RIDGE_CLASSIFIERS = ("RidgeClassifier", "RidgeClassifierCV")
SUPPORTED = (*_LOGISTIC, *_RIDGE, *_RIDGE_CLASSIFIERS)


class LinearModel(NamedTuple):
    """What a fitted model says of itself."""

    kind: str
    """'logistic', 'ridge' or 'ridge classifier'."""
    coefficients: np.ndarray
    """(outputs, p)."""
    intercept: np.ndarray
    """(outputs,)."""
    penalties: np.ndarray
    """Of |w|^2 / 2 for the sum of losses, of each output (one for logistic)."""
    has_intercept: bool
    intercept_scale: float
    """The constant column of an intercept that is penalised like the weights, or 0."""
    classes: np.ndarray | None
    class_weight: Any


def final_step(model: Any, X: Any) -> tuple[Any, Any]:
    """The last step of a pipeline and the rows it sees; any other model and X itself."""
    from sklearn.pipeline import Pipeline

    if not isinstance(model, Pipeline):
        return model, X
    from sklearn.exceptions import NotFittedError

    last = model.steps[-1][1]
    try:
        return last, model[:-1].transform(X) if len(model.steps) > 1 else X
    except NotFittedError:
        raise InputError("fitted_model must be fitted, got a Pipeline that is not: call its fit(X, y) first") from None


def linear_model(model: Any) -> LinearModel:
    """The model in this module's terms, or a refusal that says which kind is allowed."""
    name = type(model).__name__
    kinds = {base.__name__ for base in type(model).__mro__ if base.__module__.startswith("sklearn.linear_model")}
    family = next((each for each in (_LOGISTIC, _RIDGE_CLASSIFIERS, _RIDGE) if kinds & set(each)), None)
    if family is None:
        raise InputError(
            f"fitted_model must be a fitted {', '.join(SUPPORTED)} or a Pipeline that ends in one, got {name}"
        )
    if not hasattr(model, "coef_"):
        raise InputError(f"fitted_model must be fitted, got a {name} that is not: call its fit(X, y) first")
    coefficients = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(coefficients)).copy()
    if family is _LOGISTIC:
        return _logistic(model, name, coefficients, intercept)
    if getattr(model, "positive", False):
        raise InputError(f"fitted_model must have weights of any sign, got a {name} with positive=True")
    alphas = np.asarray(model.alpha_ if hasattr(model, "alpha_") else model.alpha, dtype=np.float64)
    return LinearModel(
        "ridge" if family is _RIDGE else "ridge classifier",
        coefficients,
        intercept,
        np.broadcast_to(alphas, len(coefficients)).copy(),
        bool(model.fit_intercept),
        0.0,
        None if family is _RIDGE else np.asarray(model.classes_),
        getattr(model, "class_weight", None),
    )


def _logistic(model: Any, name: str, coefficients: np.ndarray, intercept: np.ndarray) -> LinearModel:
    classes = np.asarray(model.classes_)
    penalty = getattr(model, "penalty", "l2")
    mixing = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 0.0))
    mixing = 0.0 if mixing is None or penalty in ("l2", None) else float(np.max(np.asarray(mixing, dtype=np.float64)))
    if penalty in ("l1", "elasticnet") or mixing != 0:
        what = f"penalty={penalty!r}" if penalty in ("l1", "elasticnet") else f"l1_ratio={mixing:g}"
        raise InputError(f"fitted_model must have the penalty l2 or none, got a {name} with {what}")
    if len(classes) > 2 and (model.solver == "liblinear" or getattr(model, "multi_class", None) == "ovr"):
        raise InputError(
            f"fitted_model must be one softmax over all classes, got a {name} of {len(classes)} separate ones"
        )
    if len(classes) == 2 and getattr(model, "multi_class", None) == "multinomial":
        raise InputError("fitted_model must not have multi_class='multinomial' for two classes: leave it out")
    # LogisticRegressionCV has its choice, one for each class in former versions
    strength = np.atleast_1d(np.asarray(model.C_ if hasattr(model, "C_") else model.C, dtype=np.float64))
    if (strength != strength[0]).any():
        raise InputError(f"fitted_model must have one C for all classes, got C_ = {strength}")
    l2 = 0.0 if penalty is None else 1 / float(strength[0])
    scale = float(model.intercept_scaling) if model.solver == "liblinear" and model.fit_intercept else 0.0
    return LinearModel(
        "logistic",
        coefficients,
        intercept,
        np.array([l2]),
        bool(model.fit_intercept),
        scale,
        classes,
        model.class_weight,
    )

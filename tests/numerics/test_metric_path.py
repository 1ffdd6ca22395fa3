from itertools import islice

import numpy as np
import pytest

from unlazy.errors import InputError
from unlazy.numerics.metric_path import metric_path


def waves(n=6, d=9, tasks=4):
    i, j, k = np.arange(1, n + 1)[:, None], np.arange(1, d + 1), np.arange(1, tasks + 1)
    return np.sin(0.3 * i * j), np.cos(0.7 * i * k)


def objectives(path, steps):
    return np.array([step.objective for step in islice(path, steps)])


def criterion_by_definition(design, targets, metric, penalty, criterion, dof_weight):
    """The evidence as minus twice a Gaussian log-likelihood, the other as ridge minimum plus weighted trace."""
    n, tasks = targets.shape
    kernel = design @ np.diag(metric) @ design.T
    if criterion == "evidence":
        covariance = kernel + penalty * np.eye(n)
        return np.linalg.slogdet(covariance)[1] + np.trace(np.linalg.solve(covariance, targets @ targets.T)) / tasks
    root = design * np.sqrt(metric)
    weights = np.linalg.solve(root.T @ root + penalty * np.eye(len(metric)), root.T @ targets)
    ridge = (np.sum((targets - root @ weights) ** 2) + penalty * np.sum(weights**2)) / (n * tasks)
    return ridge + dof_weight / n * np.trace(np.linalg.solve(kernel + penalty * np.eye(n), kernel))


def test_dof_path_has_the_independently_computed_objectives():
    found = objectives(metric_path(*waves(), 0.6, criterion="dof", dof_weight=0.4), 4)
    np.testing.assert_allclose(found, [0.401774487613, 0.391449700999, 0.378170310925, 0.358444043617], rtol=1e-11)


def test_evidence_path_has_the_independently_computed_objectives():
    found = objectives(metric_path(*waves(), 0.4), 4)
    np.testing.assert_allclose(found, [10.519415367334, 4.412419874583, 2.053141835495, 1.119048782701], rtol=1e-11)


def test_dof_objective_of_a_given_metric_has_the_independently_computed_value():
    first = next(metric_path(*waves(), 0.6, criterion="dof", dof_weight=0.4, start=1 / np.arange(1.0, 10.0)))
    np.testing.assert_allclose(first.objective, 0.41299847950246, rtol=1e-12)
    freedom = np.trace(first.kernel @ np.linalg.inv(first.kernel + 0.6 * np.eye(6)))
    np.testing.assert_allclose(freedom, 3.8813021186310, rtol=1e-12)

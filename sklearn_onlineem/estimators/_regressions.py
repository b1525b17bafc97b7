"""Regressions on known inputs, as components of mixtures and as states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem._checks import relative_shares
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators._start import (
    STARTS,
    climbed,
    distinct_rows,
    some_of,
    sums,
    wide_pseudo_rows,
)
from sklearn_onlineem.estimators.parameters import RELATIVE, estimator, parameter
from sklearn_onlineem.families.covariance_shapes import COVARIANCES
from sklearn_onlineem.families.gaussian_regression import GaussianRegression
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, MixtureStatistics

SHORT_EM = "short-em"
# Rows, and starts of each kind; passes of EM after which the likeliest few go on, how many do, and
# their passes. Chosen by simulations of 2 to 10 crossing regressions.
_MOST_ROWS, _N_STARTS, _PASSES, _N_FINAL, _FINAL_PASSES = 2048, 5, 20, 3, 30
# The first of the starts that agree in so many digits goes on, so that rounding changes no labels.
_DIGITS = 6
# Regressions through random rows, of which one is taken.
_N_TRIED = 20
_LEAST_UNIT = 1e-8


@estimator
class RegressionParameters:
    """Mixin of estimators whose components are regressions.

    Parameters
    ----------
    covariance_type : {"full", "diag", "spherical"}, default="full"
        Whether the noise of each component has a matrix of covariances of the targets, a variance
        for each target, or one variance.
    reg_covar : float or "relative", default="relative"
        What each M-step adds to the variances of the noise. "relative" is 1e-6 times the variance
        of each target in the first data.
    """

    covariance_type: str = parameter(
        default="full", valid=[StrOptions(set(COVARIANCES) - {"tied"})], structural=True
    )
    reg_covar: float | str = parameter(default="relative", valid=RELATIVE, structural=True)
    init: object = parameter(
        default=SHORT_EM, valid=[StrOptions({SHORT_EM, *STARTS}), "array-like"]
    )

    def _family(self, n_inputs=1):
        reg_covar = None if self.reg_covar == "relative" else self.reg_covar
        return GaussianRegression(n_inputs, COVARIANCES[self.covariance_type], reg_covar)

    def _prior(self, model, n_features):
        # Columns of a row, inputs and targets.
        return super()._prior(model, sum(model.parameters.matrix.shape[1:]))

    coef_ = Settable[Floats]()

    intercept_ = Settable[Floats]()

    covariances_ = Settable[Floats]()


def with_inputs_of(model, rows):
    """Return a known model with the moments of the inputs of its first rows."""
    family = model.family.bind(rows.X, rows.sample_weight)
    parameters = family.with_inputs_of(model.parameters, rows.X, rows.sample_weight)
    return replace(model, family=family, parameters=parameters)


class ShortRuns:
    """Mixin of initialisers: components start from short runs of EM, or from responsibilities."""

    def _complete(self, rows, random_state):
        family = replace(self.family, n_inputs=rows.n_inputs)
        return family.bind(rows.X, rows.sample_weight), rows

    def _first(self, family, rows, random_state):
        if not isinstance(self.init, str):
            return relative_shares("init", self.init, (len(rows), self.n_components))
        if self.init != SHORT_EM:
            return self.init
        if not 1 < self.n_components < len(rows):
            return "random"
        model = _likeliest(family, rows, self.n_components, random_state, self.prior)
        return model.posterior(rows).astype(np.float64)


def _likeliest(family, rows, n_components, rng, prior):
    """Return the mixture with the largest likelihood after runs of EM from several starts.

    Each component keeps a few pseudo-rows of the regression of all rows, or those would win that
    pass exactly through a few rows.
    """
    rows = some_of(distinct_rows(rows)[0], _MOST_ROWS, rng)
    further = wide_pseudo_rows(family, rows, n_components, prior)
    terms = [(1.0 / rows.total_weight, MixtureStatistics(np.zeros(n_components), further))]

    def rounded(run):
        return round(float(run[1]), _DIGITS)

    runs = []
    for labels_of in (_random_labels, _labels_of_random_regressions) * _N_STARTS:
        _, statistics = sums(family, rows, labels_of(family, rows, n_components, rng), n_components)
        statistics = statistics + further
        weights = statistics.weight / statistics.weight.sum()
        model = MixtureModel(family, weights, family.m_step(statistics))
        runs.append(climbed(model, rows, _PASSES, terms))
    runs.sort(key=rounded, reverse=True)
    finals = [climbed(model, rows, _FINAL_PASSES, terms) for model, _ in runs[:_N_FINAL]]
    return max(finals, key=rounded)[0]


def _random_labels(family, rows, n_components, rng):
    return rng.randint(n_components, size=len(rows))


def _labels_of_random_regressions(family, rows, n_components, rng):
    """Return the nearest of regressions through random rows that others are far from."""
    q, X, weight = family.n_inputs, rows.X.astype(np.float64), rows.sample_weight
    deviation = X - np.average(X, axis=0, weights=weight)
    x, y = deviation[:, :q], deviation[:, q:]
    largest, unit = np.abs(x).max(axis=0), np.abs(y).max(axis=0)
    # Beside units far from 1 the constant would count for nothing, or alone.
    is_far = (largest > 0.0) & ~((_LEAST_UNIT < largest) & (largest < 1.0 / _LEAST_UNIT))
    x = np.column_stack([x / np.where(is_far, largest, 1.0), np.ones(len(x))])
    y = y / np.where(unit > 0.0, unit, 1.0)
    root = np.sqrt(weight)[:, None]
    distances = []

    def distances_from(chosen):
        coefficients = np.linalg.lstsq(x[chosen] * root[chosen], y[chosen] * root[chosen])[0]
        return np.abs(y - x @ coefficients).sum(axis=1)

    least = distances_from(slice(None))
    for _ in range(n_components):
        best = None
        share = weight * least
        share = share / share.sum() if share.any() else weight / weight.sum()
        n_chosen = min(q + 1, np.count_nonzero(share))
        for _ in range(_N_TRIED):
            chosen = rng.choice(len(x), n_chosen, replace=False, p=share)
            distance = distances_from(chosen)
            total = weight @ np.minimum(least, distance)
            if best is None or total < best[0]:
                best = total, distance
        distances.append(best[1])
        least = np.minimum(least, best[1])
    return np.argmin(distances, axis=0)

"""Components at rows that are all equal, where densities have no bound."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem.estimators.progress import warn_user
from sklearn_onlineem.families import Gaussians, Product
from sklearn_onlineem.families.capabilities import ColumnDistributions

# A deviation of a component below this share of that of the widest one may be a floor; it is one if
# more than this share of the rows nearby are equal.
_NARROW, _MOST_EQUAL = 1e-2, 0.8
# To sort so many rows takes as long as to make distributions.
_MANY = 4096


def warn_of_point_masses(estimator, model, data):
    """Warn if components have a density without bound, at rows of data that are all equal."""
    family, X = getattr(model, "family", None), getattr(data, "X", None)
    if family is None or not isinstance(X, np.ndarray):
        return
    factors = [(family, range(X.shape[1]), model.parameters)]
    if isinstance(family, Product):
        factors = zip(family.families, family.columns, model.parameters, strict=True)
    part = "state" if hasattr(model, "transmat") else "component"
    for factor, own, known in factors:
        kind = getattr(factor, "family", factor)  # that of the parts of mixtures
        kinds = kind, *getattr(kind, "families", ())
        if not all(isinstance(x, ColumnDistributions) and not x.is_whole for x in kinds):
            continue
        rows = X[:, list(own)]
        tests = [_repeats, _has_narrow] if len(X) < _MANY else [_has_narrow, _repeats]
        if not all(test(rows, factor, known) for test in tests):
            continue
        means = factor.means(known)
        variances = [factor.distribution(known, j).var() for j in range(len(own))]
        narrow, deviations = _is_narrow(variances).all(axis=0), np.sqrt(variances).T
        for k in np.flatnonzero(narrow):
            near = rows[(np.abs(rows - means[k]) <= 4.0 * deviations[k]).all(axis=1)]
            found, counts = np.unique(near, axis=0, return_counts=True)
            if counts.max(initial=0) > max(1.0, _MOST_EQUAL * len(near)):
                row = found[counts.argmax()].tolist()
                warn_user(
                    f"{type(estimator).__name__}: {part} {k} has collapsed onto {counts.max()}"
                    f" equal rows, {row!s:.60}. Its variance is a floor and its density has no"
                    " bound, so that likelihoods compare floors. Pass NaN for such rows if nothing"
                    " was observed there, or decrease n_components.",
                    ConvergenceWarning,
                )


def _repeats(rows, factor, known):
    values = rows[~np.isnan(rows[:, 0]), 0]
    return len(np.unique(values)) < len(values)


def _has_narrow(rows, factor, known):
    if isinstance(known, Gaussians):
        # To make distributions takes too long beside fits of few rows.
        return _is_narrow(known.covariance.reshape(len(known.covariance), -1)[:, 0]).any()
    return _is_narrow(factor.distribution(known, 0).var()).any()


def _is_narrow(variances):
    return variances < _NARROW**2 * np.max(variances, axis=-1, keepdims=True)

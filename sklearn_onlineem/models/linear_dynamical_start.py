"""Start of linear dynamical systems: principal components of the rows as states."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from sklearn_onlineem.families.gaussian import variance_floor

__all__ = ["START_STATES", "filled", "start_arrays"]

# Most rows used for a start.
_MOST_ROWS = 1 << 16
# Eigenvalues below this share of the largest are rounding.
_NEGLIGIBLE = 1e-10
# Share of the innovations that a start counts as noise of the rows, and least share of a variance.
_NOISE_SHARE, _LEAST_NOISE = 0.5, 1e-3
# Prior of the transitions, worth one pair of rows: states decay.
_DECAY = 0.9


def filled(data):
    """Return rows in float64, with column means for missing values, and where sequences begin."""
    n_rows = min(len(data.X), _MOST_ROWS)
    X = data.X[:n_rows].astype(np.float64)
    begins = np.zeros(n_rows, dtype=bool)
    begins[data.offsets[:-1][data.offsets[:-1] < n_rows]] = True
    gaps = np.isnan(X)
    if gaps.all(axis=0).any():
        raise ValueError(
            f"Feature {np.flatnonzero(gaps.all(axis=0))[0]} of X has no value in the data to start"
            " from."
        )
    if gaps.any():
        reference = X[np.argmax(~gaps, axis=0), np.arange(X.shape[1])]
        means = reference + np.nanmean(X - reference, axis=0)
        X = np.where(gaps, means, X)
    return X, begins


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def start_arrays(X, begins, k, known, states, rng):
    """Return start arrays of all parts, those that are `known` and estimates of the others."""
    # `states` guesses states of dimension k from rows X, of which `begins` marks the first ones of
    # sequences; then each array is that of a regression. Units of the rows do not matter. `known`
    # has arrays by part and parameter, such as known["transitions", "matrix"].
    scale = np.sqrt(variance_floor(X, None, None) / 1e-6)
    d0 = known.get(("emissions", "offset"))
    offset = X[0] + (X - X[0]).mean(axis=0) if d0 is None else d0
    Z = (X - offset) / scale
    scores, C = _states(Z, begins, k, known, scale, states, rng)
    transitions = _transitions(scores, begins, known)
    # The noise of the rows: residuals, and a share of what no state predicts.
    A, residual = transitions["transitions", "matrix"], Z - scores @ C.T
    innovation = np.where(begins[:, None], Z, Z - np.roll(scores, 1, axis=0) @ (C @ A).T)
    variances = _NOISE_SHARE * (innovation**2).mean(axis=0) + _LEAST_NOISE
    noise = np.diag(variances) + np.diag((residual**2).mean(axis=0))
    deviation = scores[begins] - scores.mean(axis=0)
    spread = deviation.T @ deviation / max(1, len(deviation))
    arrays = {
        ("initial", "offset"): scores.mean(axis=0),
        ("initial", "covariance"): spread + np.diag(_units(scores)),
        **transitions,
        ("emissions", "matrix"): C * scale[:, None],
        ("emissions", "offset"): offset,
        ("emissions", "covariance"): noise * scale[:, None] * scale,
    }
    return {**_in_units_of(known, arrays), **known}


def _states(Z, begins, k, known, scale, states, rng):
    """Return scores of the rows for each dimension of the state, and the map that reads them."""
    if ("emissions", "matrix") in known:
        C = known["emissions", "matrix"] / scale[:, None]
        return Z @ np.linalg.pinv(C, rcond=1e-8).T, C
    # Rows are joined with those before them, for more states than features.
    age = np.arange(len(Z)) - np.maximum.accumulate(np.where(begins, np.arange(len(Z)), 0))
    windows = np.hstack([
        np.where((age >= lag)[:, None], np.roll(Z, lag, axis=0), 0.0)
        for lag in range(-(-k // Z.shape[1]))
    ])  # fmt: skip
    scores = _whitened(windows, states(windows, k, rng), k)
    C = _regression(scores, Z, np.zeros((Z.shape[1], k)))
    # A direction without evidence would never get any.
    C += np.where(scores.any(axis=0), 0.0, 0.1 * rng.standard_normal(C.shape))
    return scores, C


def _principal(windows, k, rng):
    values, vectors = np.linalg.eigh(windows.T @ windows / len(windows))
    # Signs are those of the first loading that is not small, not of a rounding error.
    vectors = vectors[:, ::-1][:, :k]
    largest = np.abs(vectors) > 0.5 * np.abs(vectors).max(axis=0)
    return vectors * np.sign(vectors[largest.argmax(axis=0), np.arange(vectors.shape[1])])


def _random(windows, k, rng):
    n_directions = min(k, windows.shape[1])
    return np.linalg.qr(rng.standard_normal((windows.shape[1], n_directions)))[0]


START_STATES = {"pca": _principal, "random": _random}


def _whitened(windows, directions, k):
    """Return scores of variance 1, and zeros for directions in which nothing varies."""
    scores = windows @ directions
    values, vectors = np.linalg.eigh(scores.T @ scores / len(scores))
    varies = values > _NEGLIGIBLE * max(values[-1], 1e-12)
    root = np.where(varies, 1.0 / np.sqrt(np.where(varies, values, 1.0)), 0.0)
    out = np.zeros((len(scores), k))
    if varies.all():
        out[:, : len(values)] = scores @ (vectors * root) @ vectors.T
    else:
        out[:, : varies.sum()] = (scores @ (vectors * root))[:, varies]
    return out


def _transitions(scores, begins, known):
    """Return transitions from the regression of states on those before them."""
    k, units = scores.shape[1], np.diag(_units(scores))
    before, after = scores[:-1][~begins[1:]], scores[1:][~begins[1:]]
    b = known.get(("transitions", "offset"), np.zeros(k))
    A = known.get(("transitions", "matrix"))
    if A is None:
        A = _regression(before, after - b, _DECAY * np.eye(k))
        A = A / max(1.0, np.abs(np.linalg.eigvals(A)).max())  # States must not grow.
    residual = after - before @ A.T - b
    Q = (residual.T @ residual + (1.0 - _DECAY**2) * units) / (len(residual) + 1.0)
    arrays = {"matrix": A, "offset": b, "covariance": Q}
    return {("transitions", name): array for name, array in arrays.items()}


def _in_units_of(known, arrays):
    """Return the system in coordinates in which the noise of the state has the given covariance."""
    given = known.get(("transitions", "covariance"))
    if given is None or {("transitions", "matrix"), ("emissions", "matrix")} & set(known):
        return arrays
    try:
        there = linalg.cholesky(given, lower=True)
    except linalg.LinAlgError:
        return arrays
    here = linalg.cholesky(arrays["transitions", "covariance"], lower=True)
    T = there @ np.linalg.inv(here)
    back = np.linalg.inv(T)
    return {
        **arrays,
        ("initial", "offset"): T @ arrays["initial", "offset"],
        ("initial", "covariance"): T @ arrays["initial", "covariance"] @ T.T,
        ("transitions", "matrix"): T @ arrays["transitions", "matrix"] @ back,
        ("emissions", "matrix"): arrays["emissions", "matrix"] @ back,
    }


def _regression(x, y, prior):
    """Return coefficients B of y = B x, with one pseudo-row for the matrix `prior`."""
    units = np.diag(_units(x))
    return np.linalg.solve(x.T @ x + units, x.T @ y + units @ prior.T).T


def _units(scores):
    """Return variances, and 1 instead of 0."""
    square = (scores**2).sum(axis=0) / max(1, len(scores))
    return np.where(square > 0.0, square, 1.0)

"""States and rows of linear dynamical systems as one Gaussian variable, by brute force."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

PARTS = {"initial_state": "initial", "transition": "transitions", "observation": "emissions"}
KINDS = {"matrices": "matrix", "offsets": "offset", "covariance": "covariance"}


def arrays_of(model):
    """The arrays of a model by pykalman's names; those that vary have time as first axis."""
    arrays = {"initial_state_mean": model.initial.offset}
    for name, part in PARTS.items():
        for kind, field in KINDS.items():
            given = getattr(model.varying, f"{name}_{kind}", None)
            value = getattr(getattr(model, part), field) if given is None else given
            arrays[f"{name}_{kind}"] = value
    return arrays


def joint(system, n):
    """Mean and covariance of (h_1, .., h_n, v_1, .., v_n), and what it takes from the first state.

    All of it is linear in independent noise: the first state, moves and emissions. The system is a
    model, or arrays by pykalman's names.
    """
    arrays = system if isinstance(system, dict) else arrays_of(system)
    V, Q, R = (arrays[f"{name}_covariance"] for name in PARTS)
    k, d = len(Q), len(R)

    def at(name, t):
        array = arrays[name]
        return array[t] if array.ndim > (2 if name.endswith("matrices") else 1) else array

    noise, mean = np.zeros((n * (k + d),) * 2), np.zeros(n * (k + d))
    maps = np.zeros(noise.shape)
    for t in range(n):
        h, v = slice(t * k, t * k + k), slice(n * k + t * d, n * k + t * d + d)
        noise[h, h], noise[v, v] = Q if t else V, R
        maps[h, h], maps[v, v] = np.eye(k), np.eye(d)
        mean[h] = arrays["initial_state_mean"]
        if t:
            A, before = at("transition_matrices", t - 1), slice(h.start - k, h.start)
            maps[h] += A @ maps[before]
            mean[h] = A @ mean[before] + at("transition_offsets", t - 1)
        C = at("observation_matrices", t)
        maps[v] += C @ maps[h]
        mean[v] = C @ mean[h] + at("observation_offsets", t)
    return mean, maps @ noise @ maps.T, maps[:, :k]


def given_rows(mean, S, X, n_rows):
    """Log density of what is there of the first rows, and moments given that."""
    values, first = X.ravel(), len(mean) - X.size
    seen = np.flatnonzero(~np.isnan(values) & (np.arange(X.size) < n_rows * X.shape[1]))
    places, values = seen + first, values[seen]
    own = S[np.ix_(places, places)]
    gain = np.linalg.solve(own, S[places]).T
    moments = mean + gain @ (values - mean[places]), S - gain @ S[places]
    return multivariate_normal.logpdf(values, mean[places], own) if len(seen) else 0.0, *moments


def divergence(p, q, n):
    """The Kullback-Leibler divergence of two systems over sequences of n rows."""
    (mean, S, _), (other, R, _) = joint(p, n), joint(q, n)
    difference = other - mean
    quadratic = np.trace(np.linalg.solve(R, S)) + difference @ np.linalg.solve(R, difference)
    return 0.5 * (quadratic - len(S) + np.linalg.slogdet(R)[1] - np.linalg.slogdet(S)[1])


def assert_inference(model, data, given, rtol=1e-9):
    """What a model says of one sequence is what rows tell; before they tell all, it is infinite.

    `given` is a function of the number of rows that are known, as `given_rows`.
    """
    n, k, d = len(data.X), model.n_components, model.n_features
    log_likelihood, mean, S = given(n)
    assert_allclose(model.log_likelihood(data), log_likelihood, rtol=rtol)
    means, covariances, lags = model.smoothed(data)
    assert_allclose(means.ravel(), mean[: n * k], rtol=rtol, atol=1e-9)
    assert_allclose(model.imputed(data).ravel(), mean[n * k :], rtol=rtol, atol=1e-9)
    filtered, predicted = model.filtered(data), model.predicted(data)
    for t in range(n):
        h, v = slice(t * k, t * k + k), slice(n * k + t * d, n * k + t * d + d)
        assert_allclose(covariances[t], S[h, h], rtol=1e-8, atol=1e-9)
        if t:
            assert_allclose(lags[t], S[h, h.start - k : h.start], rtol=1e-8, atol=1e-9)
        if np.isfinite(filtered[1][t]).all():
            _, here, spread = given(t + 1)
            assert_allclose(filtered[0][t], here[h], rtol=rtol, atol=1e-9)
            assert_allclose(filtered[1][t], spread[h, h], rtol=1e-8, atol=1e-9)
        if np.isfinite(filtered[1][t - 1] if t else predicted[1][t]).all():
            _, here, spread = given(t)
            assert_allclose(predicted[0][t], here[v], rtol=rtol, atol=1e-9)
            assert_allclose(predicted[1][t], spread[v, v], rtol=1e-8, atol=1e-9)
    return mean, S

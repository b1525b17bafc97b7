"""Sequences that never end: their state, their first call, and live filters that go on."""

import pickle

import numpy as np
import pytest

from sklearn_onlineem import (
    CategoricalHMM,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    PoissonHMM,
    combine_estimators,
)


def regimes(rng, n=700):
    """Calm and restless days, which last for weeks."""
    state = (np.cumsum(rng.random(n) < 0.05) % 2).astype(int)
    return rng.normal(size=(n, 2)) * np.where(state, 3.0, 0.7)[:, None]


def walk(rng, n=700):
    return np.cumsum(rng.normal(size=(n, 1)), axis=0) + rng.normal(size=(n, 1))


def counts(rng, n=700):
    return rng.poisson(np.where(np.arange(n) // 30 % 2, 9.0, 2.0)[:, None])


CASES = {
    "Gaussian HMM": (GaussianHMM(2, random_state=0), regimes),
    "Poisson HMM": (PoissonHMM(2, random_state=0), counts),
    # The prior says how likely counts are that the first rows do not have.
    "categorical HMM": (
        CategoricalHMM(2, n_features=20, emissionprob_prior=1.5, random_state=0),
        lambda rng: np.minimum(counts(rng), 19),
    ),
    "local level": (
        KalmanFilter(transition_matrices=1.0, observation_matrices=1.0, random_state=0),
        walk,
    ),
    "Kalman filter": (KalmanFilter(2, random_state=0), walk),
}


def made(case, rng):
    estimator, draw = CASES[case]
    return estimator.__class__(**estimator.get_params()), draw(rng)


def parts(state):
    return state if isinstance(state, tuple) else (state,)


def days(estimator, X):
    """Nats of each day before it is learnt, given all before it."""
    total = 0.0
    for row in X:
        estimator.partial_fit(row[None], continues=True)
        total += estimator.history_[-1].log_likelihood
    return total


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", CASES)
def test_the_filtered_state_is_that_of_filter(case, dtype, rng):
    estimator, X = made(case, rng)
    if not np.issubdtype(X.dtype, np.integer):
        X = X.astype(dtype)
    estimator.partial_fit(X[:500], continues=True)
    expected = parts(estimator.filter(X[:500]))
    for ours, filtered in zip(parts(estimator.filtered_state_), expected, strict=True):
        assert ours.dtype == filtered.dtype and ours.shape == filtered.shape[1:]
        np.testing.assert_allclose(ours, filtered[-1], rtol=1e-4, atol=1e-5)
    for ours in parts(estimator.filtered_state_):
        with pytest.raises(ValueError, match="read-only"):
            ours[:] = 7.0


@pytest.mark.parametrize("case", CASES)
def test_a_live_filter_goes_on_where_the_stream_is(case, rng):
    estimator, X = made(case, rng)
    for begin in range(0, 600, 50):
        estimator.partial_fit(X[begin : begin + 50], continues=True)
    live, anew = estimator.live_filter(continues=True), estimator.live_filter()
    before, model = estimator._fitted.end, estimator.model_
    rest = X[600:].astype(float)
    data = estimator._input().read(rest).continued(before)
    expected = parts(model.filtered(data))
    estimator.partial_fit(X[600:], continues=True)  # does not change it
    for t, row in enumerate(rest):
        got = parts(live.update(row))
        for ours, filtered in zip(got, expected, strict=True):
            np.testing.assert_allclose(ours, filtered[t], rtol=1e-7, atol=1e-9)
    assert live.n_steps == 100
    assert not np.array_equal(parts(anew.update(rest[0]))[0], expected[0][0])


@pytest.mark.parametrize("case", CASES)
def test_there_is_a_filtered_state_only_while_a_sequence_goes_on(case, rng):
    estimator, X = made(case, rng)
    assert not hasattr(estimator, "filtered_state_")
    for _ in range(2):
        estimator.partial_fit(X[:300], continues=True)
        loaded = pickle.loads(pickle.dumps(estimator))
        for a, b in zip(
            *map(parts, (loaded.filtered_state_, estimator.filtered_state_)), strict=True
        ):
            np.testing.assert_array_equal(a, b)
        merged = combine_estimators([estimator, loaded])
        learnt = estimator.__class__(**estimator.get_params()).fit(X[:300])
        for other in (merged, learnt, estimator.partial_fit(X[:300])):
            assert not hasattr(other, "filtered_state_")
            with pytest.raises(ValueError, match=r"live_filter\(continues=True\)"):
                other.live_filter(continues=True)
    with pytest.raises(ValueError, match="continues of live_filter"):
        estimator.live_filter(continues=1)
    assert not hasattr(GaussianMixture, "filtered_state_")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
def test_the_first_call_learns_as_fit_does(case, seed, rng):
    first, X = made(case, rng)
    first.set_params(random_state=seed).partial_fit(X[:500], continues=True)
    # After some 130 passes on a plateau, it depends on rounding whether a fit leaves that.
    fitted = made(case, rng)[0].set_params(random_state=seed, max_iter=100)
    if isinstance(first, KalmanFilter):
        # Of one sequence, a fit makes the first state certain, at any cost to a pseudo-start.
        names = "initial_state_mean", "initial_state_covariance"
        known = {name: getattr(first, f"{name}_") for name in names}
        fitted.set_params(**known, params=dict.fromkeys(names, False))
    fitted.fit(X[:500])
    # Up to a pseudo-start and pseudo-transitions.
    assert first.score(X[:500]) > fitted.score(X[:500]) - 6.0
    # The filter of a fit begins anew, as a fit has ended.
    a_day = 0.02 * 200
    assert days(first, X[500:]) > days(fitted, X[500:]) - a_day


@pytest.mark.parametrize("seed", range(6))
def test_many_states_start_as_well_as_in_fit(seed):
    """From the start of a fit, if that leads to a better maximum: by 165 nats for one seed."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.random(900) < 0.05) * 7 % 5
    scales, means = np.array([0.5, 1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 0.0, 1.0, 2.0])
    X = rng.normal(size=(900, 2)) * scales[states][:, None] + means[states][:, None]
    fitted = GaussianHMM(5, random_state=seed).fit(X)
    first = GaussianHMM(5, random_state=seed).partial_fit(X, continues=True)
    assert first.score(X) > fitted.score(X) - 6.0


@pytest.mark.parametrize("size", [5, 50, 700])
@pytest.mark.parametrize("case", ["local level", "Kalman filter"])
def test_one_first_state_says_nothing_of_their_variance(case, size, rng):
    """Another sequence may begin anywhere."""
    kalman, X = made(case, rng)
    for begin in range(0, 700, size):
        kalman.partial_fit(X[begin : begin + size], continues=True)
    early = X[:100]
    other = walk(rng) + early.mean() + 2.0 * early.std()
    assert kalman.score_rows(other)[0] > kalman.score_rows(other)[1:].mean() - 10.0
    C, V = kalman.observation_matrices_, kalman.initial_state_covariance_
    assert (C @ V @ C.T).item() > 0.1 * early.var()


def test_states_that_last_do_not_make_the_others_forgotten():
    """Stays of 500 rows in pieces of 50; then 4,000 rows of one state keep the other as it was."""
    rng = np.random.default_rng(0)
    states = np.arange(6000) // 500 % 2
    states = np.concatenate([states, np.zeros(4000, dtype=int)])
    X = rng.normal(size=(10_000, 2)) * np.array([1.0, 1.5])[states][:, None] + 1.5 * states[:, None]
    hmm = GaussianHMM(2, random_state=0).partial_fit(X[:2000], continues=True)
    for begin in range(2000, 6000, 50):
        hmm.partial_fit(X[begin : begin + 50], continues=True)
    other = int(hmm.means_.sum(axis=1).argmax())
    means, covariances = hmm.means_[other], hmm.covars_[other]
    for begin in range(6000, 10_000, 50):
        hmm.partial_fit(X[begin : begin + 50], continues=True)
    # Within standard errors of what 3,000 rows tell.
    np.testing.assert_allclose(hmm.means_[other], means, atol=0.05)
    np.testing.assert_allclose(hmm.covars_[other], covariances, atol=0.1)
    returned = rng.normal(size=(500, 2)) * 1.5 + 1.5
    assert (hmm.predict(returned) == other).mean() > 0.98

"""What Kalman filters learn, from data alone and with priors."""

import numpy as np
import pytest
from cases.kalman_filters import D, K, drawn, known
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag
from sklearn.base import clone

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.em import Online


@pytest.fixture
def stationary(system):
    """A system that does not begin far from where it stays."""
    return {**system, "transition_offsets": np.zeros(K), "initial_state_mean": np.zeros(K)}


def test_what_is_neither_given_nor_learnt_has_pykalmans_defaults(system):
    X = drawn(system, 10, 5)
    kalman = KalmanFilter(K, em_vars=["observation_covariance"]).fit(X)
    defaults = {
        "transition_matrices": np.eye(K),
        "transition_offsets": np.zeros(K),
        "transition_covariance": np.eye(K),
        "observation_matrices": np.eye(D, K),
        "observation_offsets": np.zeros(D),
        "initial_state_mean": np.zeros(K),
        "initial_state_covariance": np.eye(K),
    }
    for name, default in defaults.items():
        assert_array_equal(getattr(kalman, f"{name}_"), default)


def test_the_dimension_of_the_state_is_that_of_the_arrays(system):
    X = drawn(system)
    assert KalmanFilter().fit(X).transform(X).shape == (30, 1)
    for name in ("transition_matrices", "observation_matrices", "initial_state_mean"):
        kalman = KalmanFilter(**{name: system[name]}, max_iter=2).fit(X)
        assert kalman.transform(X).shape == (30, K)
    assert KalmanFilter(initial_state_mean=0.0, max_iter=2).fit(X).transform(X).shape == (30, 1)


@pytest.mark.parametrize(
    "kind, free", [("full", 6), ("diag", 3), ("diagonal", 3), ("spherical", 1)]
)
def test_shapes_of_covariances(system, kind, free):
    X = drawn(system, 20, 10)
    kinds = {"transition_covariance_type": kind, "observation_covariance_type": kind}
    kalman = KalmanFilter(K, **kinds, random_state=0, max_iter=5).fit(X)
    for covariance in (kalman.transition_covariance_, kalman.observation_covariance_):
        off = covariance - np.diag(np.diag(covariance))
        assert off.any() == (kind == "full")
        assert (len(np.unique(np.diag(covariance))) == 1) == (kind == "spherical")
    # Other coordinates of the state that leave its noise in shape: turns, scales, and shears.
    unseen, own = {"full": (4, 3), "spherical": (2, 1)}.get(kind, (3, K))
    n_parameters = kalman.model_.n_parameters() + unseen
    assert n_parameters == K + 3 + K * K + own + D * K + D + free
    log_likelihood = kalman.score(X) * len(X)
    assert kalman.aic(X) == pytest.approx(2.0 * kalman.model_.n_parameters() - 2.0 * log_likelihood)


@pytest.mark.parametrize("init", ["pca", "random"])
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_a_fit_that_is_told_nothing_comes_near_the_truth(stationary, init, solver):
    """In held-out likelihood, as states are known up to a linear map only."""
    X = known(stationary).sample(30, n_sequences=60)[0]
    test = known(stationary).set_params(random_state=1).sample(30, n_sequences=60)[0]
    kalman = KalmanFilter(K, init=init, solver=solver, random_state=0, max_iter=20).fit(X)
    nothing = KalmanFilter(K, init=init, solver="batch", random_state=0, max_iter=1).fit(X)
    truth = known(stationary).score(test)
    assert kalman.score(test) > truth - 1.0
    assert kalman.score(test) - nothing.score(test) > 0.0


def test_streams_come_near_the_truth(stationary):
    X = known(stationary).sample(30, n_sequences=60)[0]
    test = known(stationary).set_params(random_state=1).sample(30, n_sequences=60)[0]
    truth = known(stationary).score(test)
    ten = KalmanFilter(K, random_state=0)
    single = clone(ten)
    for start in range(0, 60, 10):
        ten.partial_fit(X[start : start + 10])
    for sequence in X:
        single.partial_fit(sequence)
    for kalman in (ten, single):
        assert kalman.score(test) > truth - 1.0


def test_pieces_of_an_endless_sequence_come_near_the_truth(stationary):
    """In the likelihood of the rows to come: one sequence says little of how others begin."""
    truth, kalman = known(stationary), KalmanFilter(K, random_state=0)
    X = truth.sample(3600)[0]
    for piece in np.split(X[:1800], 60):
        kalman.partial_fit(piece, continues=True)

    def ahead(fitted):
        return (fitted.score([X]) - fitted.score([X[:1800]])) / 1800

    assert ahead(kalman) > ahead(truth) - 0.03


def test_more_states_than_features(rng):
    """A wave in one variable needs two dimensions, which its past shows."""
    t = np.arange(600)
    X = np.sin(0.3 * t)[:, None] + 0.1 * rng.standard_normal((600, 1))
    kalman = KalmanFilter(2, random_state=0, max_iter=20).fit(X)
    angles = np.abs(np.angle(np.linalg.eigvals(kalman.transition_matrices_)))
    assert_allclose(angles, 0.3, atol=0.02)
    error = kalman.predict(X)[100:] - X[100:]
    assert np.sqrt(np.mean(error**2)) < 0.15


@pytest.mark.parametrize("source", ["of another level", "that grows"])
def test_a_step_is_the_formula_where_no_level_is_followed(source, rng):
    """Amid & Warmuth, eq. (3), with the moments of all states and rows of a sequence at once."""
    T, eta, A, C = 15, 0.7, np.array([[0.9, 0.1], [-0.2, 0.8]]), np.array([[1.0, 0.5]])
    Q, R, m, V = 0.1 * np.eye(2), np.array([[0.2]]), np.array([0.3, -0.1]), np.eye(2)
    X = rng.normal(size=(T, 1))
    X += 50.0 if source == "of another level" else 0.1 * 1.4 ** np.arange(T)[:, None]
    names = "transition", "observation", "initial_state"
    em_vars = [f"{name}_{part}" for name in names[:2] for part in ("matrices", "covariance")]
    em_vars += ["initial_state_mean", "initial_state_covariance", "observation_offsets"]
    stepped = {}
    for follows in (False, True):
        solver = Online(skips_outliers=False, start_rows=0) if follows else Online(stages=())
        kalman = KalmanFilter.from_parameters(
            transition_matrices=A, observation_matrices=C, transition_covariance=Q,
            observation_covariance=R, initial_state_mean=m, initial_state_covariance=V,
            em_vars=em_vars, solver=solver, schedule="constant", eta0=eta, reg_covar=0.0,
        )  # fmt: skip
        stepped[follows] = kalman.partial_fit(X)
    # Moments of (h_1, .., h_T, v_1, .., v_T), under the model and given the rows.
    k, n = 2 * T, 3 * T
    noise = block_diag(V, *[Q] * (T - 1), *[R] * T)
    steps = np.eye(n)
    for t in range(1, T):
        steps[2 * t : 2 * t + 2] += A @ steps[2 * t - 2 : 2 * t]
    for t in range(T):
        steps[k + t] += (C @ steps[2 * t : 2 * t + 2])[0]
    mean, covariance = steps @ np.r_[m, np.zeros(n - 2)], steps @ noise @ steps.T
    gain = covariance[:, k:] @ np.linalg.inv(covariance[k:, k:])
    given = mean + gain @ (X[:, 0] - mean[k:]), covariance - gain @ covariance[k:]
    h = np.arange(k).reshape(T, 2)
    rows, inputs = np.arange(k, n)[:, None], np.column_stack([h, np.full(T, n)])  # and a constant

    def of_pairs(second, left, right):
        return sum(second[np.ix_(*pair)] for pair in zip(left, right, strict=True))

    sums = []
    for location, spread in ((mean, covariance), given):
        second = np.pad(spread, (0, 1)) + np.outer(*[np.append(location, 1.0)] * 2)
        pairs = (h[:1], h[:1]), (h[:-1], h[:-1]), (h[1:], h[1:]), (h[1:], h[:-1])
        pairs += (inputs, inputs), (rows, inputs), (rows, rows)
        sums.append([location[:2], *(of_pairs(second, *pair) for pair in pairs)])
    m, P, Sprev, Snext, Slag, Sxx, Syx, Syy = (
        (own / eta + evidence) / (1.0 / eta + 1.0) for own, evidence in zip(*sums, strict=True)
    )
    A, C = Slag @ np.linalg.inv(Sprev), Syx @ np.linalg.inv(Sxx)
    expected = {
        "initial_state_mean_": m,
        "initial_state_covariance_": P - np.outer(m, m),
        "transition_matrices_": A,
        "transition_covariance_": (Snext - A @ Slag.T) / (T - 1),
        "observation_matrices_": C[:, :2],
        "observation_offsets_": C[:, 2],
        "observation_covariance_": (Syy - C @ Syx.T) / T,
    }
    for name, value in expected.items():
        assert_allclose(getattr(stepped[False], name), value, rtol=1e-7, atol=1e-8, err_msg=name)
    assert not np.allclose(stepped[True].transition_matrices_, A, rtol=1e-3)


@pytest.mark.parametrize(
    ("units", "offset"), [([1e-100, 1e100, 1.0], 0.0), (np.ones(3), 1e4), (np.ones(3), 1e8)]
)
def test_units_and_offsets_of_the_features_do_not_matter(units, offset, system):
    X = [np.round(part * 2**20) / 2**20 for part in drawn(system, 20, 20)]
    moved = [part * units + offset for part in X]
    here, there = (KalmanFilter(K, random_state=0, max_iter=5).fit(part) for part in (X, moved))
    assert_allclose(there.score(moved) + 20 * np.log(units).sum(), here.score(X), rtol=1e-6)
    assert_allclose(there.transition_matrices_, here.transition_matrices_, rtol=1e-5, atol=1e-8)
    offsets = (there.observation_offsets_ - offset) / units
    assert_allclose(offsets, here.observation_offsets_, atol=1e-5)

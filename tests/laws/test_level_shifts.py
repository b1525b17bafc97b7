"""Kalman filters of streams whose source moves to another level."""

import pickle

import numpy as np
import pytest
from cases.comparing import assert_identical

from sklearn_onlineem import KalmanFilter, combine_estimators
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em import Online
from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
from sklearn_onlineem.models.kalman.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.kalman.regression import Regression

LEVEL = dict.fromkeys(["transition_covariance", "observation_covariance", "observation_offsets"])
FORMS = {
    "scalar": (1, 1, {}),
    "two states of three features": (2, 3, {}),
    "two states of one feature": (2, 1, {}),
    "known matrices": (
        1,
        1,
        {"transition_matrices": 0.9, "observation_matrices": 1.0, "em_vars": list(LEVEL)},
    ),
    "known random walk": (
        1,
        1,
        {"transition_matrices": 1.0, "observation_matrices": 1.0, "em_vars": list(LEVEL)},
    ),
    "given matrices": (1, 1, {"transition_matrices": 0.9, "observation_matrices": 1.0}),
    "transition offsets as well": (2, 3, {"em_vars": "all"}),
    "spherical noise": (2, 3, {"observation_covariance_type": "spherical"}),
}


def rows(rng, n, k, d):
    """States that decay by .9 in each step and turn, seen with noise."""
    A = 0.9 * np.linalg.qr(rng.normal(size=(k, k)))[0] if k > 1 else np.array([[0.9]])
    C = rng.normal(size=(d, k)) if k > 1 else np.ones((1, 1))
    h, X = np.zeros(k), np.empty((n, d))
    for t in range(n):
        h = A @ h + rng.normal(size=k)
        X[t] = C @ h + 0.5 * rng.normal(size=d)
    return X


def learn(kalman, X, continues, size=100):
    for begin in range(0, len(X), size):
        piece = X[begin : begin + size]
        kalman.partial_fit(piece if continues else piece[None], continues=continues)
    return kalman


def score(kalman, X, continues):
    """Nats a row of what comes next."""
    data = kalman._input().read(X if continues else np.split(X, len(X) // 100))
    if continues:
        data = data.continued(kalman._fitted.end)
    return kalman.model_.row_log_likelihoods(data).mean()


def radius(kalman):
    return np.abs(np.linalg.eigvals(kalman.transition_matrices_)).max()


@pytest.mark.parametrize(("size", "shift"), [(1, 6.0), (5, 6.0), (5, 100.0)])
@pytest.mark.filterwarnings("ignore:.*far more surprising")
def test_a_stream_of_small_pieces_recovers_from_a_new_level(size, shift, rng):
    kalman = recovered("two states of three features", 1000, shift, 4000, True, size, rng)
    assert kalman.n_samples_seen_ > 0


def recovered(form, begin, shift, n, continues, size, rng):
    """A filter after a shift, which is as good as one that has seen what came after it alone."""
    k, d, parameters = FORMS[form]
    X = rows(rng, n + 2000, k, d)
    X[begin:] += shift
    X, later = X[:n], X[n:]
    kalman = learn(KalmanFilter(k, random_state=0, **parameters), X, continues, size)
    new = learn(KalmanFilter(k, random_state=0, **parameters), X[1100:], continues)
    assert score(kalman, later, continues) > score(new, later, continues) - 0.1
    assert radius(kalman) <= max(1.0, radius(new)) + 1e-12
    assert kalman.history_[-1].n_rows == n
    return kalman


def test_few_rows_that_are_far_off_wait_for_the_next_ones(rng):
    k, d, parameters = FORMS["scalar"]
    X = rows(rng, 2000, k, d)
    kalman = learn(KalmanFilter(k, random_state=0, **parameters), X, True)
    before, far = kalman.model_, X.mean() + 8.0 * X.std()
    kalman.partial_fit([[far]], continues=True)
    assert kalman.model_ is before and kalman.n_rows_kept_ == 1
    copied = pickle.loads(pickle.dumps(kalman))
    for each in (kalman, copied):
        each.partial_fit([[X[-1, 0]]], continues=True)
        assert each.model_ is not before and each.n_rows_kept_ == 0
    assert_identical(kalman.model_, copied.model_)


@pytest.mark.parametrize("begin", [1000, 1050, 1097], ids="at row {}".format)
@pytest.mark.parametrize("continues", [True, False], ids=["endless", "independent"])
@pytest.mark.parametrize("form", FORMS)
def test_a_stream_recovers_from_a_new_level(form, continues, begin, rng):
    assert recovered(form, begin, 100.0, 6000, continues, 100, rng).n_samples_seen_ == 60


def test_what_was_known_of_the_dynamics_is_kept(rng):
    """Right after the jump the stream is better than a start from what came since."""
    X = rows(rng, 1400, 2, 3)
    X[1000:] += 100.0
    kalman = learn(KalmanFilter(2, random_state=0), X[:1100], True)
    new = learn(KalmanFilter(2, random_state=0), X[1000:1100], True)
    assert score(kalman, X[1100:], True) > score(new, X[1100:], True)
    # The record keeps the prediction from before the jump was seen.
    assert kalman.history_[-1].log_likelihood < -1000.0


def test_a_level_of_columns_with_gaps(rng):
    X = rows(rng, 1300, 2, 3)
    X[1000:] += [100.0, 0.0, -50.0]
    X[rng.random(X.shape) < 0.3] = np.nan
    X[1000:1100, 1] = np.nan
    kalman = learn(KalmanFilter(2, random_state=0), X, True)
    np.testing.assert_allclose(kalman.observation_offsets_, [100.0, 0.0, -50.0], atol=3.0)


@pytest.mark.parametrize("size", [100.0, 1e4, 1e8])
@pytest.mark.parametrize("where", [0, 37, 89, 99])
def test_an_outlier_is_no_new_level(where, size, rng):
    X = rows(rng, 1100, 2, 3)
    X[1000 + where] += size
    kalman = learn(KalmanFilter(2, random_state=0), X[:1000], True)
    data = kalman._input().read(X[1000:]).continued(kalman._fitted.end)
    located = kalman.model_.relocated(data)
    if where < 90:
        assert located is None
    else:  # It may be the first row of a new level, and is not learnt.
        assert located[0] is kalman.model_ and located[1].n_rows == where


def test_streams_that_stay_do_not_change(rng):
    X = rows(rng, 3000, 2, 3) + np.linspace(0.0, 3.0, 3000)[:, None]
    ours = learn(KalmanFilter(2, random_state=0), X, True, size=50)
    plain = KalmanFilter(2, solver=Online(follows_levels=False), random_state=0)
    assert_identical(ours.model_, learn(plain, X, True, size=50).model_)


def test_a_stream_that_was_saved_goes_on_across_the_jump_bit_for_bit(rng):
    X = rows(rng, 1600, 2, 3)
    X[1230:] += 100.0
    kalman = learn(KalmanFilter(2, random_state=0), X[:1300], True)
    saved = pickle.loads(pickle.dumps(kalman))
    assert_identical(learn(kalman, X[1300:], True).model_, learn(saved, X[1300:], True).model_)
    assert combine_estimators([kalman, saved]).n_samples_seen_ == 32


def test_steps_do_not_make_a_stable_system_grow(rng):
    """Each sequence grows, as in half of a cycle, but the start did not."""
    X = rows(rng, 600, 1, 1)
    kalman = learn(KalmanFilter(random_state=0), X, True)
    assert radius(kalman) < 1.0
    growing = 1.1 ** np.arange(60.0)[:, None] * rng.uniform(0.5, 1.5, size=(30, 1, 1))
    for piece in growing:
        kalman.partial_fit(piece[None])
        assert radius(kalman) <= 1.0 + 1e-12


def test_a_system_that_grows_from_its_start_on_may_go_on(rng):
    growing = list(1.1 ** np.arange(60.0)[:, None] * rng.uniform(0.5, 1.5, size=(30, 1, 1)))
    kalman = KalmanFilter(transition_matrices=1.1, observation_matrices=1.0, random_state=0)
    for piece in growing:
        kalman.partial_fit(piece[None])
    assert radius(kalman) == pytest.approx(1.1, abs=0.02)


def test_noise_that_is_nothing_beside_states_is_no_failure(rng):
    family, level, none = LinearGaussian(), 1e17 * np.eye(1), np.zeros(1)
    first = Regression(family, AffineGaussian.single(np.empty((1, 0)), none, level))
    step = Regression(family, AffineGaussian.single(np.eye(1), none, level))
    for _ in range(40):
        # Rounding decides whether the covariance of rows has a Cholesky factor.
        C = rng.normal(size=(3, 1))
        emissions = Regression(family, AffineGaussian.single(C, np.zeros(3), np.eye(3)))
        model = LinearDynamicalModel(first, step, emissions)
        rows = Rows(1e11 * rng.normal(size=(20, 3)))
        found = model.relocated(Sequences(rows, np.array([0, 20])))
        assert found is None or np.isfinite(found[0].emissions.offset).all()

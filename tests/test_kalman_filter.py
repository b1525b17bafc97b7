"""Kalman filters through their parameters: what they learn, against pykalman and statsmodels."""

import itertools

import numpy as np
import pytest
from laws.cases import assert_identical
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.estimators._kalman_parameters import FIELDS

pykalman = pytest.importorskip("pykalman")

# Tests stop fits on purpose before they converge.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
K, D = 2, 3
NOT_OFFSETS = [name for name in FIELDS if "offsets" not in name]


@pytest.fixture
def arrays(rng):
    """A system by pykalman's names."""
    turn = np.linalg.qr(rng.standard_normal((K, K)))[0]
    root = rng.standard_normal((D, D))
    return {
        "transition_matrices": 0.9 * turn,
        "observation_matrices": rng.standard_normal((D, K)),
        "transition_covariance": np.array([[0.3, 0.1], [0.1, 0.2]]),
        "observation_covariance": 0.3 * np.eye(D) + 0.1 * root @ root.T,
        "transition_offsets": rng.standard_normal(K),
        "observation_offsets": rng.standard_normal(D),
        "initial_state_mean": rng.standard_normal(K),
        "initial_state_covariance": np.array([[1.0, 0.3], [0.3, 0.5]]),
    }


@pytest.fixture
def stationary(arrays):
    """A system that does not begin far from where it stays."""
    return {**arrays, "transition_offsets": np.zeros(K), "initial_state_mean": np.zeros(K)}


def known(arrays, **arguments):
    """A filter whose arrays are given, after a fit that learns nothing."""
    kalman = KalmanFilter(**arrays, em_vars=[], random_state=0, **arguments)
    return kalman.fit(np.zeros((2, D)))


def drawn(arrays, n_rows=30, n_sequences=None):
    return known(arrays).sample(n_rows, n_sequences)[0]


def with_gaps(rng, X, share=0.3):
    X = X.copy()
    X[rng.random(X.shape) < share] = np.nan
    X[5] = np.nan
    return X


# ------------------------------------------------------------------------------- other libraries


def test_moments_are_pykalmans(arrays):
    X, ours, theirs = drawn(arrays), known(arrays), pykalman.KalmanFilter(**arrays)
    assert_allclose(ours.score(X), theirs.loglikelihood(X), rtol=1e-10)
    for method in ("filter", "smooth"):
        for found, expected in zip(
            getattr(ours, method)(X), getattr(theirs, method)(X), strict=True
        ):
            assert_allclose(found, expected, atol=1e-9)


def test_filter_update_is_pykalmans(arrays, rng):
    X, ours, theirs = drawn(arrays), known(arrays), pykalman.KalmanFilter(**arrays)
    moments = rng.standard_normal(K), np.diag([0.4, 2.0])
    assert_allclose(
        np.column_stack(ours.filter_update(*moments, X[0])),
        np.column_stack(theirs.filter_update(*moments, X[0])),
        atol=1e-10,
    )
    for found, expected in zip(
        ours.filter_update(*moments), theirs.filter_update(*moments), strict=True
    ):
        assert_allclose(found, expected, atol=1e-10)


def test_batch_em_is_pykalmans(arrays, rng):
    X = drawn(arrays, 60)
    start = {**arrays, "transition_matrices": 0.5 * np.eye(K)}
    for n_iter in (1, 4):
        theirs = pykalman.KalmanFilter(**start).em(X, n_iter=n_iter, em_vars=NOT_OFFSETS)
        ours = KalmanFilter(
            **start, em_vars=NOT_OFFSETS, solver="batch", max_iter=n_iter, tol=0.0, reg_covar=0.0
        ).fit(X)
        for name in FIELDS:
            expected = np.asarray(getattr(theirs, name))
            assert_allclose(getattr(ours, f"{name}_"), expected, rtol=1e-6, atol=1e-6)


def test_moments_with_gaps_are_those_of_statsmodels(arrays, rng):
    smoother = pytest.importorskip("statsmodels.tsa.statespace.kalman_smoother")
    X, ours = with_gaps(rng, drawn(arrays)), known(arrays)
    theirs = smoother.KalmanSmoother(k_endog=D, k_states=K)
    theirs.bind(np.asfortranarray(X.T))
    theirs["design"], theirs["selection"] = arrays["observation_matrices"], np.eye(K)
    theirs["obs_intercept"] = arrays["observation_offsets"][:, None]
    theirs["obs_cov"] = arrays["observation_covariance"]
    theirs["transition"] = arrays["transition_matrices"]
    theirs["state_intercept"] = arrays["transition_offsets"][:, None]
    theirs["state_cov"] = arrays["transition_covariance"]
    theirs.initialize_known(arrays["initial_state_mean"], arrays["initial_state_covariance"])
    expected = theirs.smooth()
    assert_allclose(ours.score(X), expected.llf_obs.sum(), rtol=1e-9)
    assert_allclose(ours.score_rows(X), expected.llf_obs, atol=1e-9)
    assert_allclose(ours.transform(X), expected.smoothed_state.T, atol=1e-8)
    _, covariances = ours.smooth(X)
    assert_allclose(covariances, expected.smoothed_state_cov.transpose(2, 0, 1), atol=1e-8)
    means, covariances = ours.predict(X, return_cov=True)
    seen = ~np.isnan(X).any(axis=1)
    assert_allclose(means[seen], expected.forecasts.T[seen], atol=1e-8)
    assert_allclose(
        covariances[seen], expected.forecasts_error_cov.transpose(2, 0, 1)[seen], atol=1e-8
    )


# ---------------------------------------------------------------------------------- definitions


def joint_of_rows(arrays, n_rows):
    """Mean and covariance of all rows of a sequence, by the definition."""
    A, C = arrays["transition_matrices"], arrays["observation_matrices"]
    mean, spread = arrays["initial_state_mean"], arrays["initial_state_covariance"]
    means, spreads = [mean], [spread]
    for _ in range(n_rows - 1):
        means.append(A @ means[-1] + arrays["transition_offsets"])
        spreads.append(A @ spreads[-1] @ A.T + arrays["transition_covariance"])
    blocks = np.zeros((n_rows, n_rows, D, D))
    for s, t in itertools.product(range(n_rows), repeat=2):
        if s <= t:
            power = np.linalg.matrix_power(A, t - s)
            blocks[t, s] = C @ power @ spreads[s] @ C.T
            blocks[t, s] += (s == t) * arrays["observation_covariance"]
            blocks[s, t] = blocks[t, s].T
    mean = np.concatenate([C @ m + arrays["observation_offsets"] for m in means])
    return mean, blocks.transpose(0, 2, 1, 3).reshape(n_rows * D, n_rows * D)


def test_imputed_values_and_likelihood_are_those_of_the_joint_gaussian(arrays, rng):
    X = with_gaps(rng, drawn(arrays, 7))
    mean, covariance = joint_of_rows(arrays, 7)
    flat, gone = X.ravel(), np.isnan(X.ravel())
    seen = ~gone
    weights = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, gone)]).T
    expected = flat.copy()
    expected[gone] = mean[gone] + weights @ (flat[seen] - mean[seen])
    assert_allclose(known(arrays).impute(X).ravel(), expected, atol=1e-9)
    density = stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)])
    assert_allclose(known(arrays).score(X), density.logpdf(flat[seen]), rtol=1e-9)


def test_forecasts_are_those_of_the_joint_gaussian(arrays):
    X, (mean, covariance) = drawn(arrays, 5), joint_of_rows(arrays, 8)
    n = X.size
    weights = np.linalg.solve(covariance[:n, :n], covariance[:n, n:]).T
    means, covariances = known(arrays).forecast(X, 3, return_cov=True)
    assert_allclose(means.ravel(), mean[n:] + weights @ (X.ravel() - mean[:n]), atol=1e-9)
    rest = covariance[n:, n:] - weights @ covariance[:n, n:]
    for t in range(3):
        block = slice(t * D, (t + 1) * D)
        assert_allclose(covariances[t], rest[block, block], atol=1e-9)


def test_predictions_are_forecasts_of_the_next_row(arrays):
    X, kalman = drawn(arrays, 9), known(arrays)
    for t in (1, 4, 8):
        assert_allclose(kalman.predict(X)[t], kalman.forecast(X[:t])[0], atol=1e-10)
    assert_allclose(
        kalman.predict(X)[0],
        arrays["observation_matrices"] @ arrays["initial_state_mean"]
        + arrays["observation_offsets"],
        atol=1e-10,
    )


# ------------------------------------------------------------------------------------------ forms


def test_what_comes_out_has_the_form_that_went_in(arrays):
    kalman, X = known(arrays), drawn(arrays, 4, 3)
    rows, groups = np.concatenate(X), np.repeat([5, 1, 3], 4)
    for method in ("filter", "smooth"):
        listed, flat = getattr(kalman, method)(X), getattr(kalman, method)(rows, lengths=[4, 4, 4])
        for parts, whole in zip(listed, flat, strict=True):
            assert_array_equal(np.concatenate(parts), whole)
    assert kalman.forecast(X, 2).shape == (3, 2, D)
    assert kalman.forecast(rows, 2, groups=groups).shape == (3, 2, D)
    assert kalman.forecast(rows, 2).shape == (2, D)
    assert [len(part) for part in kalman.score_rows(X)] == [4, 4, 4]
    assert_allclose([part.sum() for part in kalman.score_rows(X)], kalman.score_samples(X))
    assert [part.shape for part in kalman.smooth(X, lags=True)[2]] == [(4, K, K)] * 3
    assert kalman.get_feature_names_out().tolist() == ["kalmanfilter0", "kalmanfilter1"]
    assert_allclose(
        kalman.fit_transform(rows, lengths=[4, 4, 4]), np.concatenate(kalman.transform(X))
    )


def test_samples_have_the_moments_of_the_model(arrays):
    X = np.array(known(arrays).sample(3, 4000)[0]).reshape(4000, -1)
    mean, covariance = joint_of_rows(arrays, 3)
    error = (X.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / 4000)
    assert np.abs(error).max() < 4.5
    assert_allclose(np.cov(X.T), covariance, atol=0.3)


def test_a_live_filter_is_filter_row_by_row(arrays, rng):
    X, kalman = with_gaps(rng, drawn(arrays)), known(arrays)
    live, moments = kalman.live_filter(), (None, None)
    means, covariances = kalman.filter(X)
    for t, row in enumerate(X):
        moments = kalman.filter_update(*moments, row)
        found = live.update(row)
        for mean, covariance in (moments, found):
            assert_allclose(mean, means[t], atol=1e-10)
            assert_allclose(covariance, covariances[t], atol=1e-10)
    assert live.n_steps == len(X)
    for wrong in ([np.inf] * D, [0.0]):
        with pytest.raises(ValueError):
            live.update(wrong)
    with pytest.raises(ValueError, match="KalmanFilter.*both"):
        kalman.filter_update(moments[0])
    with pytest.raises(NotFittedError):
        KalmanFilter().live_filter()


def test_float32_is_preserved(arrays):
    X = [part.astype(np.float32) for part in drawn(arrays, 20, 10)]
    kalman = KalmanFilter(K, random_state=0).fit(X)
    outputs = [
        kalman.transform(X)[0],
        kalman.predict(X)[0],
        kalman.impute(X)[0],
        kalman.sample()[0],
    ]
    outputs += [getattr(kalman, f"{name}_") for name in FIELDS]
    assert {output.dtype for output in outputs} == {np.dtype(np.float32)}
    assert kalman.model_.transition.dtype == np.float64
    double = KalmanFilter(K, random_state=0).fit([part.astype(float) for part in X])
    assert_allclose(kalman.score(X), double.score(X), rtol=1e-5)


# -------------------------------------------------------------------------------- what is learnt


@pytest.mark.parametrize("solver", ["online", "batch"])
def test_only_em_vars_are_learnt(arrays, solver):
    X = drawn(arrays, 10, 20)
    start = {**arrays, "transition_matrices": 0.5 * np.eye(K)}
    for names in ([], ["transition_matrices"], ["observation_covariance", "initial_state_mean"],
                  {"transition_offsets", "observation_offsets"}, "all"):  # fmt: skip
        kalman = KalmanFilter(**start, em_vars=names, solver=solver, max_iter=3).fit(X)
        learnt = set(FIELDS) if names == "all" else set(names)
        for name in FIELDS:
            is_same = np.array_equal(getattr(kalman, f"{name}_"), start[name])
            assert is_same == (name not in learnt), name


def test_what_is_neither_given_nor_learnt_has_pykalmans_defaults(arrays):
    X = drawn(arrays, 10, 5)
    kalman = KalmanFilter(K, em_vars=["observation_covariance"]).fit(X)
    theirs = pykalman.KalmanFilter(n_dim_state=K, n_dim_obs=D)
    for name, (field, _) in FIELDS.items():
        if name != "observation_covariance":
            _, default = None, pykalman_default(theirs, name)
            assert_array_equal(getattr(kalman.model_, field), default)


def pykalman_default(theirs, name):
    return {
        "transition_matrices": np.eye(K),
        "transition_offsets": np.zeros(K),
        "transition_covariance": np.eye(K),
        "observation_matrices": np.eye(D, K),
        "observation_offsets": np.zeros(D),
        "initial_state_mean": np.zeros(K),
        "initial_state_covariance": np.eye(K),
    }[name]


def test_the_dimension_of_the_state_is_that_of_the_arrays(arrays):
    X = drawn(arrays)
    assert KalmanFilter().fit(X).transform(X).shape == (30, 1)
    for name in ("transition_matrices", "observation_matrices", "initial_state_mean"):
        kalman = KalmanFilter(**{name: arrays[name]}, max_iter=2).fit(X)
        assert kalman.transform(X).shape == (30, K)
    assert KalmanFilter(initial_state_mean=0.0, max_iter=2).fit(X).transform(X).shape == (30, 1)


@pytest.mark.parametrize(
    "kind, free", [("full", 6), ("diag", 3), ("diagonal", 3), ("spherical", 1)]
)
def test_shapes_of_covariances(arrays, kind, free):
    X = drawn(arrays, 20, 10)
    kinds = {"transition_covariance_type": kind, "observation_covariance_type": kind}
    kalman = KalmanFilter(K, **kinds, random_state=0, max_iter=5).fit(X)
    for covariance in (kalman.transition_covariance_, kalman.observation_covariance_):
        off = covariance - np.diag(np.diag(covariance))
        assert off.any() == (kind == "full")
        assert (len(np.unique(np.diag(covariance))) == 1) == (kind == "spherical")
    n_parameters = kalman.model_.n_parameters()
    assert kalman._n_parameters() == n_parameters - (K * K if kind == "full" else 0)
    own = {"full": 3, "spherical": 1}.get(kind, K)
    assert n_parameters == K + 3 + K * K + own + D * K + D + free
    log_likelihood = kalman.score(X) * len(X)
    assert kalman.aic(X) == pytest.approx(2.0 * kalman._n_parameters() - 2.0 * log_likelihood)


def test_redundant_offsets_are_not_counted(arrays):
    X = drawn(arrays, 10, 5)
    counts = [
        KalmanFilter(K, em_vars=names, max_iter=1).fit(X)._n_parameters() for names in (None, "all")
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("init", ["pca", "random"])
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_a_fit_that_is_told_nothing_comes_near_the_truth(stationary, init, solver):
    """In held-out likelihood, as states are known up to a linear map only."""
    X = known(stationary).sample(30, 60)[0]
    test = known(stationary).set_params(random_state=1).sample(30, 60)[0]
    kalman = KalmanFilter(K, init=init, solver=solver, random_state=0, max_iter=20).fit(X)
    nothing = KalmanFilter(K, init=init, solver="batch", random_state=0, max_iter=1).fit(X)
    truth = known(stationary).score(test)
    assert kalman.score(test) > truth - 1.0
    assert kalman.score(test) - nothing.score(test) > 0.0


def test_streams_come_near_the_truth(stationary):
    X = known(stationary).sample(30, 60)[0]
    test = known(stationary).set_params(random_state=1).sample(30, 60)[0]
    truth = known(stationary).score(test)
    ten = KalmanFilter(K, random_state=0)
    single, pieces = clone(ten), clone(ten)
    for start in range(0, 60, 10):
        ten.partial_fit(X[start : start + 10])
    for sequence in X:
        single.partial_fit(sequence)
    endless = known(stationary).sample(1800)[0]
    for piece in np.split(endless, 60):
        pieces.partial_fit(piece, continues=True)
    for kalman in (ten, single, pieces):
        assert kalman.score(test) > truth - 4.0


def test_more_states_than_features(rng):
    """A wave in one variable needs two dimensions, which its past shows."""
    t = np.arange(600)
    X = np.sin(0.3 * t)[:, None] + 0.1 * rng.standard_normal((600, 1))
    kalman = KalmanFilter(2, random_state=0, max_iter=20).fit(X)
    angles = np.abs(np.angle(np.linalg.eigvals(kalman.transition_matrices_)))
    assert_allclose(angles, 0.3, atol=0.02)
    error = kalman.predict(X)[100:] - X[100:]
    assert np.sqrt(np.mean(error**2)) < 0.15


def test_units_of_the_features_do_not_matter(arrays):
    X = drawn(arrays, 20, 20)
    units, offsets = np.array([1e-100, 1e100, 1.0]), np.array([0.0, 0.0, 0.0])
    scaled = [part * units + offsets for part in X]
    here, there = (KalmanFilter(K, random_state=0, max_iter=5).fit(part) for part in (X, scaled))
    jacobian = 20 * np.log(units).sum()
    assert_allclose(there.score(scaled) + jacobian, here.score(X), rtol=1e-6)
    assert_allclose(there.transition_matrices_, here.transition_matrices_, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_an_offset_of_the_data_does_not_matter(arrays, offset):
    X = [np.round(part * 2**20) / 2**20 for part in drawn(arrays, 20, 20)]
    far = [part + offset for part in X]
    here, there = (KalmanFilter(K, random_state=0, max_iter=5).fit(part) for part in (X, far))
    assert_allclose(there.score(far), here.score(X), rtol=1e-6)
    assert_allclose(there.observation_offsets_ - offset, here.observation_offsets_, atol=1e-5)


# ------------------------------------------------------------------------------------------ priors


def test_strong_priors_decide(arrays):
    X = drawn(arrays, 10, 10)
    prior = {
        "transition": {"matrix": 0.3 * np.eye(K), "matrix_precision": 1e9},
        "observation": {"covariance": 7e9 * np.eye(D), "degrees_of_freedom": 1e9},
        "initial": {"offset": [4.0, -4.0], "offset_precision": 1e9},
    }
    kalman = KalmanFilter(**arrays, prior=prior, solver="batch", max_iter=3).fit(X)
    assert_allclose(kalman.transition_matrices_, 0.3 * np.eye(K), atol=1e-5)
    assert_allclose(kalman.observation_covariance_, 7.0 * np.eye(D), rtol=1e-4, atol=1e-4)
    assert_allclose(kalman.initial_state_mean_, [4.0, -4.0], atol=1e-4)


def test_the_posterior_never_falls(arrays, rng):
    """The joint objective, likelihood plus log prior, under batch EM with all priors."""
    X = drawn(arrays, 10, 10)
    prior = {
        "transition": {"matrix": 0.3, "matrix_precision": 3.0, "covariance": 2.0,
                       "degrees_of_freedom": 5.0},
        "observation": {"matrix_precision": 2.0, "covariance": 1.0, "degrees_of_freedom": 4.0},
        "initial": {"offset": 1.0, "offset_precision": 2.0, "covariance": 1.0,
                    "degrees_of_freedom": 4.0},
    }  # fmt: skip
    path = []
    for n_iter in range(1, 12):
        arguments = {"solver": "batch", "max_iter": n_iter, "tol": 0.0, "reg_covar": 0.0}
        kalman = KalmanFilter(**arrays, prior=prior, **arguments).fit(X)
        path.append(kalman.score_samples(X).sum() + log_prior(kalman))
    assert (np.diff(path) > -1e-9 * np.abs(path[0])).all()
    assert path[-1] > path[0]


def log_prior(kalman):
    """Log density of the priors above, by its definition."""
    A, Q = kalman.transition_matrices_ - 0.3, kalman.transition_covariance_
    C, R = kalman.observation_matrices_, kalman.observation_covariance_
    m, V = kalman.initial_state_mean_ - 1.0, kalman.initial_state_covariance_
    total = 0.0
    for B, S, precision, scale, degrees in ((A, Q, 3.0, 2.0, 5.0), (C, R, 2.0, 1.0, 4.0)):
        total += stats.invwishart(degrees, scale * np.eye(len(S))).logpdf(S)
        columns = stats.multivariate_normal(np.zeros(len(S)), S / precision)
        total += columns.logpdf(B.T).sum()
    total += stats.invwishart(4.0, np.eye(K)).logpdf(V)
    return total + stats.multivariate_normal(np.zeros(K), V / 2.0).logpdf(m)


# ------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    "parameter, value",
    [
        ("n_dim_state", 0), ("em_vars", ["transition_matrix"]), ("em_vars", "some"),
        ("transition_matrices", np.ones((2, 3))), ("transition_matrices", np.full((2, 2), np.nan)),
        ("transition_matrices", np.ones((5, 2, 2))), ("observation_matrices", np.ones((2, 2))),
        ("transition_covariance", -np.eye(2)), ("transition_covariance", [[1.0, 0.5], [0.0, 1.0]]),
        ("observation_covariance", np.zeros((3, 3))), ("initial_state_mean", [1.0, 2.0, 3.0]),
        ("transition_covariance_type", "tied"), ("prior", {"emission": {}}), ("init", "k-means"),
        ("eta0", 0.0), ("beta", 1.1), ("reg_covar", -1.0), ("solver", "gradient"),
    ],
)  # fmt: skip
def test_parameters_out_of_range(arrays, parameter, value):
    X = drawn(arrays)
    kalman = KalmanFilter(**{"n_dim_state": K, parameter: value})  # no error yet
    for method in (kalman.fit, kalman.partial_fit):
        with pytest.raises(ValueError, match=rf"(?s){parameter}") as raised:
            method(X)
        assert "KalmanFilter" in str(raised.value)
    with pytest.raises(NotFittedError):
        kalman.score(X)


def test_another_dimension_in_mid_stream_is_an_error(arrays):
    X = drawn(arrays)
    kalman = KalmanFilter(K).partial_fit(X)
    with pytest.raises(ValueError, match="KalmanFilter.*n_dim_state=2"):
        kalman.set_params(n_dim_state=3).partial_fit(X)
    with pytest.raises(ValueError, match="n_steps"):
        kalman.forecast(X, 0)


def test_a_feature_that_was_never_observed(arrays, rng):
    X = drawn(arrays)
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="KalmanFilter.*Feature 1"):
        KalmanFilter(K).fit(X)
    assert np.isfinite(known(arrays).fit(X).impute(X)).all()


def test_noise_may_be_singular_where_it_is_known(arrays):
    """A level that never changes, and a first state that is certain."""
    X = np.random.default_rng(0).standard_normal((50, 1)) + 3.0
    kalman = KalmanFilter(
        transition_covariance=0.0, initial_state_covariance=1e6, transition_matrices=1.0,
        observation_matrices=1.0, em_vars=["observation_covariance"], observation_offsets=0.0,
    ).fit(X)  # fmt: skip
    assert_allclose(kalman.transform(X)[-1], X.mean(), atol=1e-4)
    assert_allclose(kalman.observation_covariance_, X.var(ddof=1), rtol=1e-4)


# ------------------------------------------------------------------------------------- pipelines


def test_model_selection(arrays):
    X = drawn(arrays, 15, 18)
    grid = {"n_dim_state": [1, 2], "eta0": [0.5, 1.0]}
    estimator = KalmanFilter(random_state=0, batch_size=4, max_iter=2)
    search = GridSearchCV(estimator, grid, cv=3, error_score="raise").fit(X)
    assert search.best_params_["n_dim_state"] == 2
    assert len(search.predict(X)) == len(X)


def test_groups_are_routed(arrays):
    import sklearn

    X = drawn(arrays, 15, 12)
    rows, groups = np.concatenate(X), np.repeat(np.arange(12), 15)
    splitter = GroupKFold(3)
    folds = [
        (np.unique(groups[train]), np.unique(groups[test]))
        for train, test in splitter.split(rows, groups=groups)
    ]
    estimator = KalmanFilter(2, random_state=0, max_iter=2)
    plain = cross_val_score(estimator, X, cv=folds, error_score="raise")
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(estimator).set_fit_request(groups=True).set_score_request(groups=True)
        found = cross_validate(
            routed, rows, params={"groups": groups}, cv=splitter, error_score="raise"
        )
    assert_array_equal(found["test_score"], plain)


def test_a_given_start_is_the_same_in_streams_and_fits(arrays):
    X = drawn(arrays, 10, 8)
    first = KalmanFilter(**arrays, eta0=0.5, schedule="constant").partial_fit(X)
    again = KalmanFilter(**arrays, eta0=0.5, schedule="constant").partial_fit(X)
    assert_identical(first.model_, again.model_)
    assert first.history_[0].eta == 0.5
    assert first.history_[0].log_likelihood == pytest.approx(known(arrays).score(X))
    assert linalg.norm(first.transition_matrices_ - arrays["transition_matrices"]) > 0.0

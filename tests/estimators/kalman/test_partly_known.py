"""Kalman filters of which some entries are known, and those whose arrays vary in time."""

import pickle

import numpy as np
import pytest
from cases.comparing import arrays, assert_identical
from cases.kalman_filters import D, K, draw_system
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_onlineem import KalmanFilter, combine_estimators
from sklearn_onlineem.diagnostics import forecast_moments, standard_errors
from sklearn_onlineem.em import BayesianOnline
from sklearn_onlineem.models.kalman.linear_dynamical import FIELDS

MASKS = {
    "transition_matrices": np.array([[True, False], [False, False]]),
    "observation_matrices": np.array([[False, True], [True, False], [True, True]]),
    "observation_offsets": np.array([False, True, True]),
    "initial_state_mean": np.array([True, False]),
    "transition_covariance": np.array([[False, True], [True, True]]),
    "initial_state_covariance": False,
}


@pytest.fixture
def sequences(system):
    known = KalmanFilter.from_parameters(**system, random_state=0)
    return known.sample(25, n_sequences=12)[0]


def masked(system, **arguments):
    return KalmanFilter(**system, params=MASKS, random_state=0, **arguments)


def assert_masks_hold(kalman, system):
    for name, mask in MASKS.items():
        mask = np.broadcast_to(mask, np.shape(system[name]))
        value = getattr(kalman, f"{name}_")
        assert_array_equal(value[~mask], system[name][~mask], err_msg=name)
        assert (value[mask] != system[name][mask]).all(), name


def stream(kalman, sequences):
    for batch in np.array_split(np.arange(len(sequences)), 4):
        kalman.partial_fit([sequences[i] for i in batch])
    return kalman


def test_what_is_fixed_stays_to_the_bit(system, sequences):
    gaps = [rows.copy() for rows in sequences]
    gaps[0][3:6], gaps[1][::3, 1] = np.nan, np.nan
    for solver in ("batch", "online", "auto", "stochastic", "adaptive"):
        assert_masks_hold(masked(system, solver=solver, max_iter=4).fit(gaps), system)
    prior = {"transition": {"matrix_precision": 2.0}, "observation": {"offset_precision": 1.0}}
    streams = [stream(masked(system, prior=p), part) for p in (None, prior) for part in
               (gaps[:6], gaps[6:])]  # fmt: skip
    for kalman in streams:
        assert_masks_hold(kalman, system)
    for method in ("entropic", "averaging", "sampled"):
        merged = combine_estimators(streams[:2], method=method, random_state=0)
        assert_masks_hold(merged, system)
        assert_masks_hold(merged.partial_fit(gaps), system)
    pieces = masked(system)
    for piece in np.split(np.concatenate(gaps), 10):
        pieces.partial_fit(piece, continues=True)
    for name, mask in MASKS.items():
        mask = np.broadcast_to(mask, np.shape(system[name]))
        assert_array_equal(getattr(pieces, f"{name}_")[~mask], system[name][~mask])


def test_fits_end_at_the_maximum_over_free_entries(system):
    # Of few sequences, the likeliest noise may be singular: EM needs passes without end then.
    known = KalmanFilter.from_parameters(**system, random_state=0)
    sequences = known.sample(25, n_sequences=60)[0]
    kalman = masked(system, solver="batch", reg_covar=0.0, tol=1e-10, max_iter=500).fit(sequences)
    places = [
        (name, i) for name, mask in MASKS.items() if mask is not False and "cov" not in name
        for i in zip(*np.nonzero(mask), strict=True)
    ]  # fmt: skip
    known = {name: getattr(kalman, f"{name}_") for name in FIELDS}

    def negative(vector):
        changed = {name: value.copy() for name, value in known.items()}
        for (name, i), x in zip(places, vector, strict=True):
            changed[name][i] = x
        return -KalmanFilter.from_parameters(**changed).score(sequences)

    start = np.array([known[name][i] for name, i in places])
    best = minimize(negative, start + 0.01, method="BFGS", options={"gtol": 1e-6})
    assert_allclose(start, best.x, atol=2e-4)
    assert negative(start) <= best.fun + 1e-9
    # Rows for few parameters, of which standard errors are those of the curvature.
    errors = standard_errors(kalman.set_params(params=MASKS), sequences).errors
    for name, mask in MASKS.items():
        if mask is not False:
            assert ((errors[f"{name}_"] > 0.0) == mask).all(), name


def test_standard_errors_and_forecasts_of_free_entries(rng):
    level = np.cumsum(rng.standard_normal((150, 1)), axis=0) + rng.standard_normal((150, 1))
    one = KalmanFilter(
        transition_matrices=1.0, observation_matrices=1.0, initial_state_covariance=10.0,
        em_vars=["transition_covariance", "observation_covariance"], solver="batch",
        reg_covar=0.0, tol=1e-10, max_iter=500,
    ).fit(level)  # fmt: skip
    # A second state that does nothing, without noise.
    two = clone(one).set_params(
        transition_matrices=np.eye(2), observation_matrices=[[1.0, 0.0]],
        initial_state_covariance=np.diag([10.0, 0.0]), transition_covariance=np.diag([1.0, 0.0]),
        initial_state_mean=[0.0, 0.0], observation_covariance=1.0,
    ).fit(level)  # fmt: skip
    assert_allclose(two.transition_covariance_[0, 0], one.transition_covariance_, rtol=1e-5)
    assert two.model_.n_parameters() == one.model_.n_parameters() == 2
    found, expected = (standard_errors(kalman, level).errors for kalman in (two, one))
    assert_allclose(found["transition_covariance_"][0, 0], expected["transition_covariance_"][0, 0],
                    rtol=1e-3)  # fmt: skip
    assert not found["transition_covariance_"].ravel()[1:].any()
    found, expected = (forecast_moments(kalman, level, 3)[1] for kalman in (two, one))
    assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("reg_covar", ["relative", 1e-2])
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_given_zeros_of_covariances_stay_zero(kind, reg_covar, rng):
    X = np.cumsum(rng.standard_normal((120, 1)), axis=0)
    A = np.eye(5)
    A[0, 1] = A[3, 4] = 1.0
    for learn in ("fit", "partial_fit"):
        kalman = KalmanFilter(
            transition_matrices=A, observation_matrices=[[1.0, 0.0, 1.0, 0.0, 0.5]],
            transition_covariance=np.diag([0.01, 0.001, 0.01, 0.0, 0.0]),
            transition_covariance_type=kind, reg_covar=reg_covar, max_iter=5,
            em_vars=["transition_covariance", "observation_covariance"],
        )  # fmt: skip
        Q = getattr(kalman, learn)(X).transition_covariance_
        assert not Q[3:].any() and not Q[:, 3:].any()
        assert (np.diag(Q)[:3] > (0.0 if reg_covar == "relative" else 1e-2)).all()
        # Others than 0 are learnt from then on, and 0 stays from then on.
        kalman.transition_covariance_ = np.diag([0.0, 0.5, 0.5, 0.5, 0.5])
        Q = kalman.partial_fit(X).transition_covariance_
        assert not Q[0].any() and (np.diag(Q)[1:] != 0.5).all()


def test_transitions_that_would_grow_keep_fixed_entries(rng):
    A, mask = np.array([[0.5, 1.0], [0.0, 0.9]]), np.array([[True, False], [False, False]])
    known = {"transition_matrices": A, "observation_matrices": [[1.0, 0.0]]}
    kalman = KalmanFilter(**known, params={"transition_matrices": mask}, max_iter=1)
    kalman.fit(rng.standard_normal((20, 1)))
    before = kalman.model_
    for x, stays in ((0.9, 0.9), (1.4, 0.95), (8.0, 0.96875)):
        moved = np.array([[x, 1.0], [0.0, 0.9]])
        for part in before.own_parts:
            if part.name == "transition_matrices":
                start, after = (part.put(before, array) for array in (A, moved))
        found = after.bounded(start).transitions.matrix
        assert_array_equal(found[~mask], A[~mask])
        assert_allclose(found[0, 0], stays)


def test_masks_and_em_vars_say_it_together(system, sequences):
    mask = MASKS["transition_matrices"]
    for em_vars, params, learnt in (
        (["observation_covariance"], {"transition_matrices": mask},
         {"observation_covariance", "transition_matrices"}),
        ([], {"observation_offsets": True}, {"observation_offsets"}),
        ("all", dict.fromkeys(FIELDS, False), set()),
        (None, {"transition_offsets": True}, set(FIELDS)),
    ):  # fmt: skip
        kalman = KalmanFilter(**system, em_vars=em_vars, params=params, max_iter=3)
        kalman.fit(sequences)
        changed = {n for n in FIELDS if (getattr(kalman, f"{n}_") != system[n]).any()}
        assert changed == learnt
    # A warm start may learn other entries.
    kalman.set_params(params={"transition_matrices": mask}, em_vars=[], warm_start=True)
    before = kalman.transition_matrices_
    found = kalman.fit(sequences).transition_matrices_
    assert ((found != before) == mask).all()


@pytest.mark.parametrize(
    ("params", "settings", "message"),
    [
        ({"A": True}, {}, "params of KalmanFilter has the key 'A'; it may have initial_state_mean"),
        ({"transition_matrices": np.ones((3, 3), bool)}, {}, r"of shape \(2, 2\).*got shape"),
        ({"transition_matrices": np.eye(2)}, {}, "booleans of shape .* of float64"),
        ({"observation_matrices": np.eye(4, 2, dtype=bool)}, {}, r"has shape \(4, 2\), but"),
        ({"transition_offsets": np.array([True, False])}, {"transition_offsets": None},
         "fixes entries, so the array transition_offsets must be given"),
        ({"transition_covariance": np.array([[True, True], [False, True]])}, {}, "symmetric"),
        ({"transition_covariance": ~np.eye(2, dtype=bool)}, {}, "fixes some entries of"),
        ({"transition_covariance": np.eye(2, dtype=bool)}, {}, "fixes some entries of"),
        ({"transition_covariance": np.array([[True, True], [True, False]])},
         {"transition_covariance_type": "diag"}, "must be False off the diagonal"),
        ({"transition_covariance": np.array([True, False])},
         {"transition_covariance_type": "diag"}, "transition_covariance .* must be diagonal"),
        ({"transition_covariance": np.eye(2, dtype=bool)},
         {"transition_covariance_type": "spherical"}, "must be True or False"),
        ({}, {"transition_covariance": np.diag([1.0, 0.0]),
              "transition_covariance_type": "spherical"}, "variances of 0, which stay 0"),
        ({}, {"transition_covariance": np.ones((24, 2, 2))}, "transition_covariance .* of shape"),
        ({}, {"transition_matrices": np.ones((24, 2, 2)), "em_vars": "all"},
         "transition_matrices of KalmanFilter varies in time, which is not learnt"),
        ({"observation_offsets": True}, {"observation_offsets": np.ones((25, 3))},
         "observation_offsets of KalmanFilter varies in time, which is not learnt"),
        ({}, {"transition_matrices": np.ones((23, 2, 2))}, "varies in time and has 23 entries"),
        ({}, {"observation_matrices": np.full((25, 3, 2), np.nan)}, "must be finite"),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_is_refused_by_name(params, settings, message, system, sequences):
    for learn in ("fit", "partial_fit"):
        kalman = KalmanFilter(**{**system, **settings}, params=params)
        with pytest.raises(ValueError, match=message):
            getattr(kalman, learn)(sequences)
        with pytest.raises(NotFittedError):
            kalman.score(sequences)


def test_posterior_means_of_partly_known_arrays_are_refused(system, sequences):
    prior = {"transition": {"covariance": 1.0, "degrees_of_freedom": 9.0}}
    kalman = masked(system, prior=prior, solver=BayesianOnline("mean"))
    with pytest.raises(ValueError, match="set estimate='mode'"):
        kalman.partial_fit(sequences)


# ------------------------------------------------------------------------------- arrays of times


@pytest.fixture
def moving(rng):
    """A system all of whose matrices and offsets vary, for 25 rows and 3 to come."""
    system, n = draw_system(rng), 28
    for name in ("transition_matrices", "transition_offsets"):
        system[name] = system[name] + 0.1 * rng.standard_normal((n - 1, *system[name].shape))
    for name in ("observation_matrices", "observation_offsets"):
        system[name] = system[name] + 0.3 * rng.standard_normal((n, *system[name].shape))
    return system


def of_pykalman(moving, n=25):
    pykalman = pytest.importorskip("pykalman")
    names = [name for name, field in FIELDS.items() if np.ndim(moving[name]) > len(field.axes)]
    cut = {name: moving[name][: n - name.startswith("transition")] for name in names}
    return pykalman.KalmanFilter(**{**moving, **cut})


def test_filters_whose_arrays_vary_are_pykalmans(moving):
    theirs, ours = of_pykalman(moving), KalmanFilter(**moving, em_vars=[])
    X = np.asarray(theirs.sample(25, random_state=0)[1])
    assert_allclose(ours.score(X), theirs.loglikelihood(X), rtol=1e-10)
    for method in ("filter", "smooth"):
        for found, expected in zip(
            getattr(ours, method)(X), getattr(theirs, method)(X), strict=True
        ):
            assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    learnt = [name for name in FIELDS if name.endswith("covariance")] + ["initial_state_mean"]
    theirs = theirs.em(X, n_iter=5, em_vars=learnt)
    ours = KalmanFilter(**moving, solver="batch", max_iter=5, tol=0.0, reg_covar=0.0).fit(X)
    for name in learnt:
        found, expected = getattr(ours, f"{name}_"), getattr(theirs, name)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert_array_equal(ours.transition_matrices_, moving["transition_matrices"])


def test_streams_of_arrays_that_vary(moving, rng):
    known = KalmanFilter.from_parameters(**moving, random_state=0)
    X = known.sample(25, n_sequences=60)[0]
    X[1][::4] = np.nan
    batch = KalmanFilter(**moving, solver="batch", random_state=0).fit(X)
    parts = [KalmanFilter(**moving, random_state=0) for _ in range(2)]
    for part, rows in zip(parts, (X[:30], X[30:]), strict=True):
        for begin in range(0, 30, 5):
            part.partial_fit(rows[begin : begin + 5])
    merged = combine_estimators(parts)
    assert merged.score(X) > known.score(X) - 1.0
    assert batch.score(X) >= merged.score(X)
    loaded = pickle.loads(pickle.dumps(merged))
    after = [one.partial_fit(X[:5]).model_ for one in (merged, loaded)]
    assert_identical(*map(arrays, after))
    assert merged.forecast(X, 3).shape == (60, 3, D)
    for call, message in (
        (lambda: merged.forecast(X, 4), "observation_matrices|transition_matrices .* needs"),
        (lambda: merged.live_filter(), "no live filter with transition_matrices that vary"),
        (lambda: merged.filter_update(observation=X[0][0]), "no live filter"),
        (lambda: merged.partial_fit(X[0], continues=True), "cannot be continued"),
        (lambda: clone(merged).set_params(solver="stochastic").fit(X), "are not drawn where"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_arrays_that_vary_are_set_and_replaced(moving, system):
    X = np.zeros((5, D))
    kalman = KalmanFilter.from_parameters(**system)
    kalman.transition_matrices_ = moving["transition_matrices"]
    moved = {**system, "transition_matrices": moving["transition_matrices"]}
    assert kalman.score(X) == KalmanFilter(**moved, em_vars=[]).score(X)
    assert kalman.transition_matrices_.shape == (27, K, K)
    kalman.transition_matrices_ = system["transition_matrices"]
    assert kalman.score(X) == KalmanFilter.from_parameters(**system).score(X)
    learnt = KalmanFilter(**system, em_vars=["transition_matrices"]).fit(X + np.arange(5)[:, None])
    with pytest.raises(ValueError, match="transition_matrices .*varies in time, which is not"):
        learnt.transition_matrices_ = moving["transition_matrices"]
    assert learnt.transition_matrices_.shape == (K, K)


def test_known_arrays_are_enough_where_nothing_is_learnt(system):
    known, X = KalmanFilter.from_parameters(**system), np.arange(12.0).reshape(4, D)
    blank = KalmanFilter(**system, em_vars=[])
    for method in ("filter", "smooth", "predict", "impute", "score", "forecast", "transform"):
        found, expected = (getattr(one, method)(X) for one in (blank, known))
        parts = [np.atleast_1d(part) for part in (found, expected) if method == "score"]
        for one, other in zip(*(parts or (found, expected)), strict=True):
            assert_array_equal(one, other)
    assert not blank.__sklearn_is_fitted__()
    with pytest.raises(NotFittedError, match="from_parameters takes its arrays as they are"):
        KalmanFilter(**system).filter(X)
    with pytest.raises(NotFittedError, match="not fitted"):
        KalmanFilter(em_vars=[]).filter(X)

"""Kalman filters of structural components: known decompositions, statsmodels, and refusals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_onlineem import KalmanFilter, combine_estimators
from sklearn_onlineem.models.linear_dynamical import FIELDS
from sklearn_onlineem.structure import Autoregression, Inputs, Level, Season, Trend
from sklearn_onlineem.structure import assembled as structure_of

STRUCTURES = {
    "level": ([Level()], {"level": "llevel"}),
    "constant": ([Level(fixed=True)], {"level": "dconstant"}),
    "trend": (Level() + Trend(), {"level": "lltrend"}),
    "smooth trend": (Level(fixed=True) + Trend(), {"level": "strend"}),
    "season": (Trend() + Season(4), {"level": "lltrend", "seasonal": 4}),
    "fixed season": (
        Level() + Season(3, fixed=True),
        {"level": "llevel", "seasonal": 3, "stochastic_seasonal": False},
    ),
    "inputs": (Level() + Inputs(), {"level": "llevel"}),
    "inputs and season": (Inputs() + Level() + Season(4), {"level": "llevel", "seasonal": 4}),
}
N_AHEAD = 5
all_structures = pytest.mark.parametrize("kind", STRUCTURES.values(), ids=STRUCTURES)


def draw_series(rng, n=60):
    """A level with a season and a gap."""
    X = np.cumsum(rng.normal(size=n)) + 3.0 * np.tile([1.0, -1.0, 2.0, -2.0], n)[:n]
    X += 0.5 * rng.normal(size=n)
    X[[1, 20, 21]] = np.nan
    return X[:, None]


def inputs_of(structure, rng, X):
    """Add the effects of inputs to rows; return what methods and forecasts are told of these."""
    if Inputs() not in structure:
        return {}, {}
    u = rng.normal(size=(len(X) + N_AHEAD, 2)) + [5.0, 0.0]
    X += u[: len(X)] @ [[2.0], [-1.0]]
    return {"inputs": u[: len(X)]}, {"future_inputs": u[len(X) :]}


@all_structures
def test_likelihoods_and_maxima_are_those_of_statsmodels(kind, rng):
    components = pytest.importorskip("statsmodels.tsa.statespace.structural").UnobservedComponents
    structure, names = kind
    X = draw_series(rng)
    given, future = inputs_of(structure, rng, X)
    theirs = components(X.ravel(), exog=given.get("inputs"), use_exact_diffuse=True, **names)
    kalman = KalmanFilter(structure=structure, tol=1e-9).fit(X, **given)
    variances = kalman.transition_covariance_.diagonal()
    found = [kalman.observation_covariance_[0, 0], *variances[variances > 0.0]]
    if given:
        found += [*kalman.observation_input_weights_[0]]
    result = theirs.smooth(found)
    score = kalman.score(X, **given)
    assert_allclose(score, result.llf, rtol=1e-8, atol=1e-8)
    means, covariances = kalman.smooth(X, **given)
    assert_allclose(means, result.smoothed_state.T, rtol=1e-6, atol=1e-8)
    assert_allclose(covariances, result.smoothed_state_cov.transpose(2, 0, 1), atol=1e-7)
    ahead, spread = kalman.forecast(X, N_AHEAD, return_cov=True, **given, **future)
    expected = result.get_forecast(N_AHEAD, exog=future.get("future_inputs"))
    assert_allclose(ahead.ravel(), expected.predicted_mean, rtol=1e-8)
    assert_allclose(spread.ravel(), expected.var_pred_mean, rtol=1e-8)
    best = theirs.fit(result.params, disp=0, method="nm", maxiter=2000, xtol=1e-8, ftol=1e-10)
    assert score > best.llf - 1e-4


@all_structures
def test_components_add_up_to_the_series_without_noise(kind, rng):
    X = draw_series(rng)
    given, _ = inputs_of(kind[0], rng, X)
    kalman = KalmanFilter(structure=kind[0]).fit(X, **given)
    found = kalman.decompose(X, **given)
    total = sum(mean for name, (mean, _) in found.items() if name != "slope")
    seen = ~np.isnan(X.ravel())
    assert_allclose(total[~seen], kalman.impute(X, **given).ravel()[~seen], rtol=1e-9)
    signal = kalman.smooth(X, **given)[0] @ kalman.observation_matrices_.T
    if given:
        signal += given["inputs"] @ kalman.observation_input_weights_.T
    assert_allclose(total, signal.ravel(), rtol=1e-9)
    assert all((variance >= 0.0).all() for _, variance in found.values())
    kalman.structure = None
    assert kalman.decompose(X, **given).keys() == found.keys()


@pytest.mark.parametrize("structure", [Level() + Autoregression(2), [Trend(damped=True)]], ids=str)
def test_rates_that_are_learnt_are_at_a_maximum(structure, rng):
    level, X = 0.3 * rng.normal(size=400).cumsum(), np.zeros(400)
    for t in range(2, 400):
        X[t] = 0.9 * X[t - 1] - 0.5 * X[t - 2] + rng.normal()
    X = (X + level + 5.0)[:, None]
    kalman = KalmanFilter(structure=structure, tol=1e-7).fit(X)
    A, best = kalman.transition_matrices_, kalman.score(X)
    learnt = structure_of(structure).learnt
    assert (A[~learnt] == structure_of(structure).transitions[~learnt]).all()
    for place in zip(*np.nonzero(learnt), strict=True):
        for step in (-0.01, 0.01):
            other = A.copy()
            other[place] += step
            moved = clone(kalman).set_params(max_iter=0).fit(X)
            for name in ("transition_covariance_", "observation_covariance_"):
                setattr(moved, name, getattr(kalman, name))
            moved.transition_matrices_ = other
            assert moved.score(X) < best
    if len(structure) > 1:
        assert_allclose(A[1, 1:], [0.9, -0.5], atol=0.15)
        start = kalman.initial_state_covariance_.diagonal()
        assert_allclose(start, [np.inf, X.var(), X.var()])


def test_a_list_of_series_shares_variances(rng):
    series = [draw_series(rng, n) for n in (30, 40)]
    kalman = KalmanFilter(structure=[Level()]).fit(series)
    assert_allclose(kalman.score_samples(series), [kalman.score(X) for X in series])
    assert [len(part) for part in kalman.decompose(series)["level"][0]] == [30, 40]
    alone = KalmanFilter(structure=[Level()]).fit(series[0])
    assert alone.score(series[0]) > kalman.score(series[0])


def test_further_starts_find_other_maxima():
    # Cycles of sunspots are changes of a slope, or of a level.
    datasets = pytest.importorskip("statsmodels.api").datasets
    X = datasets.sunspots.load_pandas().data[["SUNACTIVITY"]].to_numpy()
    scores = [
        KalmanFilter(structure=[Trend()], n_init=n, random_state=0).fit(X).score(X) for n in (1, 5)
    ]
    assert scores[1] > scores[0] + 10.0


def test_streams_go_on_from_a_start_that_is_determined(rng):
    X = np.cumsum(rng.normal(size=(400, 1)), axis=0) + rng.normal(size=(400, 1))
    kalman = KalmanFilter(structure=[Level()])
    for piece in np.array_split(X, 20):
        kalman.partial_fit(piece, continues=True)
    whole = KalmanFilter(structure=[Level()]).fit(X)
    assert_allclose(kalman.score(X), whole.score(X), rtol=5e-3)
    assert_allclose(kalman.filtered_state_[1], whole.filter(X)[1][-1], rtol=0.3)


def test_series_with_inputs_are_streamed_merged_and_searched(rng):
    X = np.cumsum(rng.normal(size=(800, 1)), axis=0) + rng.normal(size=(800, 1))
    structure = Level() + Inputs()
    u = inputs_of(structure, rng, X)[0]["inputs"]
    pieces = [*zip(np.array_split(X, 20), np.array_split(u, 20), strict=True)]
    kalman = KalmanFilter(structure=structure)
    for piece, inputs in pieces[:10]:
        kalman.partial_fit(piece, inputs=inputs, continues=True)
    copy = pickle.loads(pickle.dumps(kalman))
    for piece, inputs in pieces[10:]:
        kalman.partial_fit(piece, inputs=inputs, continues=True)
        copy.partial_fit(piece, inputs=inputs, continues=True)
    assert kalman.score(X, inputs=u) == copy.score(X, inputs=u)
    halves = [clone(kalman).fit(X[i], inputs=u[i]) for i in np.split(np.arange(800), 2)]
    whole, merged = clone(kalman).fit(X, inputs=u), combine_estimators(halves)
    for found in (kalman, whole, merged):
        assert_allclose(found.observation_input_weights_, [[2.0, -1.0]], atol=0.5)
        assert_allclose(found.score(X, inputs=u), whole.score(X, inputs=u), rtol=1e-2)
    with config_context(enable_metadata_routing=True):
        kalman = KalmanFilter().set_fit_request(inputs=True).set_score_request(inputs=True)
        grid = {"structure": [structure, [Level(fixed=True), Inputs()]]}
        search = GridSearchCV(kalman, grid, cv=2).fit([X, X], inputs=[u, u])
    assert search.best_params_ == {"structure": structure}


def test_weights_are_found_where_rows_have_no_noise_and_inputs_are_far_from_0(rng):
    # With little noise EM leaves the weights as they are, and with such inputs it is slow.
    X, u = np.cumsum(rng.normal(size=(100, 1)), axis=0), rng.normal(size=(100, 2))
    X += u @ [[2.0], [-1.0]]
    kalman = KalmanFilter(structure=Level() + Inputs()).fit(X, inputs=u)
    least_squares = np.linalg.lstsq(np.diff(u, axis=0), np.diff(X, axis=0), rcond=None)[0].T
    assert_allclose(kalman.observation_input_weights_, least_squares, atol=0.1)
    far = clone(kalman).fit(X, inputs=u + 1e3)
    assert_allclose(far.score(X, inputs=u + 1e3), kalman.score(X, inputs=u), atol=0.1)


def test_infinite_variances_are_diffuse_starts_of_any_filter(rng):
    X = draw_series(rng)
    known = {"transition_covariance": 1.0, "observation_covariance": 0.5}
    kalman = KalmanFilter(**known, initial_state_covariance=np.inf, em_vars=[]).fit(X)
    assert kalman.initial_state_covariance_ == np.inf
    values = {name: getattr(kalman, f"{name}_") for name in FIELDS}
    other = KalmanFilter.from_parameters(**values)
    assert other.score(X) == kalman.score(X) != KalmanFilter(**known, em_vars=[]).fit(X).score(X)
    kalman.initial_state_covariance_ = 2.0 * np.eye(1)
    assert kalman.model_.diffuse is None
    wrong = [[np.inf, 1.0], [1.0, 2.0]]
    with pytest.raises(ValueError, match="must be 0 beside variances that are infinite"):
        KalmanFilter(2, transition_offsets=[1, 1], initial_state_covariance=wrong).fit(X)
    wrong = [[1.0, np.inf], [np.inf, 1.0]]
    with pytest.raises(ValueError, match="must be finite"):
        KalmanFilter(2, initial_state_covariance=wrong).fit(X)
    with pytest.raises(ValueError, match="whose units are learnt"):
        KalmanFilter(1, initial_state_covariance=np.inf).fit(X)


REFUSED = {
    "no component": ([1], TypeError, "must be a list of components"),
    "nothing": ([], TypeError, "must be a list of components"),
    "two levels": ([Level(), Level(fixed=True)], ValueError, "at most one Level"),
    "equal seasons": ([Season(4), Season(4, fixed=True)], ValueError, "different periods"),
    "two parts of inputs": ([Level(), Inputs(), Inputs()], ValueError, "at most one Inputs"),
    "inputs alone": ([Inputs()], ValueError, "a component beside Inputs"),
    "lacking inputs": ([Level(), Inputs()], ValueError, "and requires inputs"),
    "a long season": ([Level(), Season(100)], ValueError, "do not determine a diffuse start"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_structures_that_mean_nothing_are_refused(case, rng):
    structure, kind, message = case
    kalman = KalmanFilter(structure=structure)
    with pytest.raises(kind, match=message):
        kalman.fit(draw_series(rng))
    assert not kalman.__sklearn_is_fitted__()


def test_arguments_that_act_on_nothing_are_refused(rng):
    X = draw_series(rng)
    for name, value in {"n_dim_state": 2, "em_vars": [], "observation_matrices": 1.0}.items():
        with pytest.raises(ValueError, match=f"determines {name}"):
            KalmanFilter(structure=[Level()], **{name: value}).fit(X)
    with pytest.raises(ValueError, match="one column"):
        KalmanFilter(structure=[Level()]).fit(np.hstack([X, X]))
    with pytest.raises(ValueError, match=r"must have Inputs\(\) where"):
        KalmanFilter(structure=[Level()]).fit(X, inputs=np.ones(60))
    with pytest.raises(ValueError, match="requires a structure"):
        KalmanFilter().fit(X).decompose(X)
    for wrong in (1, 2.5, True):
        with pytest.raises(ValueError, match="period"):
            Season(wrong)
    with pytest.raises(ValueError, match="call fit again"):
        KalmanFilter(structure=[Level()]).fit(X).set_params(structure=[Trend()]).partial_fit(X)


def test_components_are_listed_or_added():
    assert Level() + Trend(damped=True) + Season(7) == [Level(), Trend(damped=True), Season(7)]
    assert [Level()] + Season(7) == Level() + [Season(7)] == [Level(), Season(7)]
    kalman = clone(KalmanFilter(structure=Level() + Season(7)))
    assert repr(kalman) == "KalmanFilter(structure=[Level(), Season(period=7)])"

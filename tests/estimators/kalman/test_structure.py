"""Kalman filters of structural components: known decompositions, statsmodels, and refusals."""

import numpy as np
import pytest
from cases.fitted_cases import hessian, jacobian
from numpy.testing import assert_allclose
from scipy.stats import chi2
from sklearn.base import clone
from statsmodels.api import datasets
from statsmodels.tsa.statespace.initialization import Initialization
from statsmodels.tsa.statespace.structural import UnobservedComponents

from sklearn_onlineem import KalmanFilter, combine_estimators
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.certificate import newton_step
from sklearn_onlineem.em.quasi_newton import Evaluation, QuasiNewton
from sklearn_onlineem.models.kalman.linear_dynamical import FIELDS
from sklearn_onlineem.structure import Autoregression, Cycle, Inputs, Level, Season, Trend
from sklearn_onlineem.structure import assembled as structure_of

THEIR_CYCLE = {"cycle": True, "stochastic_cycle": True, "damped_cycle": True}
THEIR_CYCLE["cycle_period_bounds"] = (2.0, 1000.0)
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
    "cycle": (Level() + Cycle(), {"level": "llevel", **THEIR_CYCLE}),
    "cycle around a constant": (
        [Level(fixed=True), Cycle()],
        {"level": "dconstant", **THEIR_CYCLE},
    ),
    "cycle and inputs": (Level() + Cycle() + Inputs(), {"level": "llevel", **THEIR_CYCLE}),
    "inputs": (Level() + Inputs(), {"level": "llevel"}),
    "inputs and season": (Inputs() + Level() + Season(4), {"level": "llevel", "seasonal": 4}),
}
N_AHEAD = 5
all_structures = pytest.mark.parametrize("kind", STRUCTURES.values(), ids=STRUCTURES)


def draw_cycle(rng, period=16.0, n=200):
    """A damped wave of standard deviation 2 in noise."""
    turn, state, X = 2.0 * np.pi / period, np.zeros(2), np.empty((n, 1))
    A = 0.9 * np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    for t in range(n):
        X[t] = state[0] + 0.5 * rng.normal()
        state = A @ state + rng.normal(size=2)
    return X


def draw_series(rng, n=60, structure=()):
    """A level with a season and a gap, or with a cycle."""
    if Cycle() in structure:
        X = draw_cycle(rng, n=200) + 0.1 * rng.normal(size=(200, 1)).cumsum(axis=0)
        X[[1, 20, 21]] = np.nan
        return X
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


def theirs_of(X, kalman, **names):
    """A model of statsmodels whose first states have the variances of ours."""

    class Components(UnobservedComponents):
        def initialize_default(self, *_, **__):
            own = Initialization(self.k_states)
            for i, variance in enumerate(kalman.initial_state_covariance_.diagonal()):
                if np.isinf(variance):
                    own.set(i, "diffuse")
                else:
                    own.set(i, "known", constant=[0.0], stationary_cov=[[variance]])
            self.ssm.initialization = own

    return Components(X.ravel(), use_exact_diffuse=True, **names)


def turning(A):
    """The first states of cycles."""
    is_turn = (np.diag(A, 1) == -np.diag(A, -1)) & (np.diff(A.diagonal()) == 0.0)
    return np.flatnonzero(is_turn & (np.diag(A, 1) != 0.0))


def their_parameters(kalman):
    variances, A = kalman.transition_covariance_.diagonal(), kalman.transition_matrices_
    turns = turning(A)
    own = np.delete(variances, [i + 1 for i in turns])
    found = [kalman.observation_covariance_[0, 0], *own[own > 0.0]]
    for i in turns:
        found += [abs(np.arctan2(A[i, i + 1], A[i, i])), np.hypot(A[i, i], A[i, i + 1])]
    if kalman.model_.n_inputs:
        found += [*kalman.observation_input_weights_[0]]
    return found


@all_structures
def test_likelihoods_and_maxima_are_those_of_statsmodels(kind, rng):
    structure, names = kind
    X = draw_series(rng, structure=structure)
    given, future = inputs_of(structure, rng, X)
    # Where a variance is near 0, a pass gains a small part of what is left.
    kalman = KalmanFilter(structure=structure, tol=1e-12).fit(X, **given)
    theirs = theirs_of(X, kalman, exog=given.get("inputs"), **names)
    result = theirs.smooth(their_parameters(kalman))
    score = kalman.score(X, **given)
    assert_allclose(score, result.llf, rtol=1e-8, atol=1e-8)
    means, covariances = kalman.smooth(X, **given)
    assert_allclose(means, result.smoothed_state.T, rtol=1e-6, atol=1e-8)
    assert_allclose(covariances, result.smoothed_state_cov.transpose(2, 0, 1), atol=1e-7)
    ahead, spread = kalman.forecast(X, N_AHEAD, return_cov=True, **given, **future)
    expected = result.get_forecast(N_AHEAD, exog=future.get("future_inputs"))
    assert_allclose(ahead.ravel(), expected.predicted_mean, rtol=1e-8, atol=1e-8)
    assert_allclose(spread.ravel(), expected.var_pred_mean, rtol=1e-8)
    best = theirs.fit(result.params, disp=0, method="nm", maxiter=2000, xtol=1e-8, ftol=1e-10)
    assert score > best.llf - 1e-4


@all_structures
def test_components_add_up_to_the_series_without_noise(kind, rng):
    X = draw_series(rng, structure=kind[0])
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
        # The truth is not refuted; errors of rates are not known beside a variance of 0.
        truth = clone(kalman).set_params(max_iter=0).fit(X)
        truth.transition_covariance_ = np.diag([0.09, 1.0, 0.0])
        truth.observation_covariance_ = [[1e-6]]
        truth.transition_matrices_ = [[1.0, 0.0, 0.0], [0.0, 0.9, -0.5], [0.0, 1.0, 0.0]]
        assert 0.0 < 2.0 * (best - truth.score(X)) < chi2(5).isf(1e-4)
        start = kalman.initial_state_covariance_.diagonal()
        assert_allclose(start, [np.inf, X.var(), X.var()])


def fixed_trend(rng, n=160):
    """A line and a season, which do not change, and a random walk with noise."""
    t = np.arange(n)
    X = (
        0.3 * t
        + 3.0 * np.cos(np.pi * t / 2)
        + rng.normal(size=n)
        + 0.5 * rng.normal(size=n).cumsum()
    )
    return X[:, None]


def test_variances_of_zero_are_found_and_certified_in_few_passes(rng):
    X, structure = fixed_trend(rng), [Trend(), Season(4)]
    kalman = KalmanFilter(structure=structure).fit(X)
    assert kalman.converged_
    # Those of the certificate are some 10 of them.
    assert kalman.history_[-1].n_rows <= 50 * len(X)
    best = KalmanFilter(structure=structure, tol=1e-9, max_iter=1000).fit(X).score(X)
    assert kalman.score(X) > best - 0.02


def test_small_variances_that_many_series_share_are_certified(rng):
    # Each series tells next to nothing of the season's changes.
    series = [fixed_trend(rng, 40) for _ in range(60)]
    season = 0.03 * rng.normal(size=(60, 10, 4)).cumsum(axis=1).reshape(60, 40)
    series = [X + own[:, None] for X, own in zip(series, season, strict=True)]
    structure = [Trend(), Season(4)]
    kalman = KalmanFilter(structure=structure, solver="batch").fit(series)
    assert kalman.converged_
    assert kalman.history_[-1].n_rows <= 60 * 60 * 40
    best = KalmanFilter(structure=structure, tol=1e-9, max_iter=1000, solver="batch").fit(series)
    assert 60 * kalman.score(series) > 60 * best.score(series) - 0.02


@pytest.mark.parametrize("start", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("name", ["transition_covariance", "observation_covariance"])
def test_variances_near_zero_rise_to_the_maximum(name, start, rng):
    X = fixed_trend(rng)
    names = ["transition_covariance", "observation_covariance"]
    known = {"initial_state_covariance": np.inf, "em_vars": names}
    best = KalmanFilter(**known).fit(X).score(X)
    assert KalmanFilter(**known, **{name: start}).fit(X).score(X) > best - 0.02


def test_certificates_have_the_newton_step_of_standard_deviations(rng):
    X = (0.7 * rng.normal(size=(400, 1)).cumsum(axis=0)) + rng.normal(size=(400, 1))
    data = Sequences(Rows(X), np.array([0, len(X)]))
    model = KalmanFilter(structure=[Level()], tol=0.0, max_iter=2).fit(X).model_

    def evaluate(model):
        return Evaluation(model, *model.e_step(data), [], data)

    here = evaluate(model)
    units = here.coordinates.deviations[0]

    def objective(changes):
        logs = np.log1p(changes) / units
        return evaluate(here.coordinates.moved(logs[None])).objective

    zero = np.zeros(len(units))
    gradient = jacobian(objective, zero, 1e-2)
    expected = np.linalg.solve(-hessian(objective, zero, 1e-2), gradient)
    found = newton_step(here, evaluate, QuasiNewton(), tol=1e-8)
    assert np.abs(expected).max() > 0.05
    assert_allclose(np.expm1(found.direction[0] * units), np.maximum(expected, -0.9), rtol=0.05)
    assert_allclose(found.gain, 0.5 * np.abs(gradient * expected).sum(), rtol=0.05)


def test_each_series_of_a_list_has_components(rng):
    series = [draw_series(rng, n) for n in (30, 40)]
    kalman = KalmanFilter(structure=[Level()]).fit(series)
    assert [len(part) for part in kalman.decompose(series)["level"][0]] == [30, 40]


def test_further_starts_find_other_maxima():
    # Cycles of sunspots are changes of a slope, or of a level.
    X = datasets.sunspots.load_pandas().data[["SUNACTIVITY"]].to_numpy()
    scores = [
        KalmanFilter(structure=[Trend()], n_init=n, random_state=0).fit(X).score(X) for n in (1, 5)
    ]
    assert scores[1] > scores[0] + 10.0


def periods(kalman):
    A = kalman.transition_matrices_
    turns = [np.arctan2(A[i, i + 1], A[i, i]) for i in turning(A)]
    return np.sort(2.0 * np.pi / np.abs(turns))


def test_periods_of_cycles_are_found(rng):
    X = draw_cycle(rng) + draw_cycle(rng, 5.0) + 7.0
    structure = Level(fixed=True) + Cycle() + Cycle()
    kalman = KalmanFilter(structure=structure).fit(X)
    assert_allclose(periods(kalman), [5.0, 16.0], rtol=0.25)
    # A sequence of one row has no spectrum.
    assert_allclose(periods(clone(kalman).fit([X[:1], X])), [5.0, 16.0], rtol=0.25)
    assert [*kalman.decompose(X)] == ["level", "cycle 1", "cycle 2"]
    # Further starts have other periods, and some end at lower maxima.
    for seed in range(4):
        several = clone(kalman).set_params(n_init=3, random_state=seed).fit(X)
        assert several.score(X) >= kalman.score(X) - 1e-3
    names = [*clone(kalman).set_params(structure=[Cycle(16), Cycle(5)]).fit(X).decompose(X)]
    assert names == ["cycle 16", "cycle 5"]


def test_a_start_has_the_periods_of_the_spectrum_and_the_best_weights(rng):
    turns, u = 2.0 * np.pi * np.arange(200) / [[16.0], [5.0]], rng.normal(size=(200, 2))
    X = np.cos(turns).T @ [[3.0], [2.0]] + 0.5 * rng.normal(size=(200, 1)) + u @ [[20.0], [-10.0]]
    structure = [Level(fixed=True), Cycle(), Cycle(), Inputs()]
    start = KalmanFilter(structure=structure, max_iter=0).fit(X, inputs=u)
    # Of cycles that fade, those nearby are as likely.
    assert_allclose(periods(start), [5.0, 16.0], rtol=0.15)
    assert_allclose(start.observation_input_weights_, [[20.0, -10.0]], rtol=0.1)


def test_of_cycles_of_known_periods_rates_and_noise_are_learnt(rng):
    X = draw_cycle(rng)
    kalman = KalmanFilter(structure=Level() + Cycle(16.0), tol=1e-9).fit(X)
    assert_allclose(periods(kalman), [16.0], rtol=1e-12)
    theirs = theirs_of(X, kalman, level="llevel", **THEIR_CYCLE)
    found = their_parameters(kalman)
    with theirs.fix_params({"frequency.cycle": 2.0 * np.pi / 16.0}):
        found.pop(-2)
        best = theirs.fit(found, disp=0, method="nm", maxiter=2000, xtol=1e-8, ftol=1e-10)
    assert kalman.score(X) > best.llf - 1e-4
    kalman = KalmanFilter(structure=Level() + Cycle(16.0, damped=False)).fit(X)
    variances = kalman.transition_covariance_.diagonal()
    assert variances[1] == variances[2] > 0.0
    assert_allclose(np.linalg.det(kalman.transition_matrices_[1:, 1:]), 1.0)
    assert (kalman.initial_state_covariance_.diagonal() == np.inf).all()
    theirs = theirs_of(X, kalman, level="llevel", cycle=True, stochastic_cycle=True)
    assert_allclose(kalman.score(X), theirs.loglike(their_parameters(kalman)[:-1]), rtol=1e-8)


def test_damped_slopes_cannot_pass_for_seasons(rng):
    X = rng.normal(size=(60, 1)).cumsum(axis=0)
    kalman = KalmanFilter(structure=Trend(damped=True) + Season(2)).fit(X)
    assert kalman.converged_
    # With a diffuse first slope, the likelihood of slopes that alternate is infinite.
    scores, A = [], kalman.transition_matrices_.copy()
    for A[1, 1] in -1.0 + np.array([1e-4, 1e-8]):
        scores.append(clone(kalman).set_params(max_iter=0).fit(X))
        scores[-1].transition_matrices_ = A
    assert_allclose(*(filtered.score(X) for filtered in scores), atol=1.0)


def test_fixed_cycles_are_harmonic_regressions(rng):
    X, turn = draw_cycle(rng), 2.0 * np.pi / 7.3
    structure = [Level(fixed=True), Cycle(7.3, damped=False, fixed=True)]
    kalman = KalmanFilter(structure=structure).fit(X)
    t = np.arange(len(X))
    waves = np.column_stack([np.ones(len(t)), np.cos(turn * t), np.sin(turn * t)])
    expected = waves @ np.linalg.lstsq(waves, X, rcond=None)[0]
    signal = sum(mean for mean, _ in kalman.decompose(X).values())
    assert_allclose(signal, expected.ravel(), atol=1e-8)


@pytest.mark.parametrize("structure", [Level() + Season(4), Trend() + Season(12)], ids=repr)
@pytest.mark.parametrize("size", [1, 7, 150])
def test_streams_end_near_the_maximum(structure, size, rng):
    t = np.arange(400)
    X = np.cumsum(0.3 * rng.normal(size=400)) + np.sin(np.pi * t / 2) + rng.normal(size=400)
    X[[1, 4, 5]] = np.nan  # a first piece may be too short for a season, and a row be missing
    X, stream = X[:, None], KalmanFilter(structure=structure)
    for begin in range(0, len(X), size):
        stream.partial_fit(X[begin : begin + size], continues=True)
    # Online steps leave some nats for three variances; a start alone leaves 30 to 65.
    assert clone(stream).fit(X).score(X) - 5.0 < stream.score(X)
    assert np.isinf(stream.initial_state_covariance_[0, 0])


def test_cycles_are_streamed_and_merged(rng):
    X = draw_cycle(rng, n=1000)
    kalman = KalmanFilter(structure=Level(fixed=True) + Cycle())
    for piece in np.array_split(X, 10):
        kalman.partial_fit(piece, continues=True)
    merged = combine_estimators([clone(kalman).fit(half) for half in np.array_split(X, 2)])
    for found in (kalman, merged):
        assert_allclose(periods(found), 16.0, rtol=0.25)
        A, variances = found.transition_matrices_, found.transition_covariance_.diagonal()
        assert_allclose([A[1, 1], A[1, 2]], [A[2, 2], -A[2, 1]], rtol=1e-12)
        assert_allclose(variances[1], variances[2], rtol=1e-12)


@pytest.mark.parametrize("structure", [Level() + Season(4), [Level(), Cycle(), Inputs()]], ids=str)
def test_columns_have_components_of_their_own(structure, rng):
    units = [1.0, 1e4]
    X = np.hstack([draw_series(rng, 120, structure), draw_series(rng, 120, structure)])
    given, future = inputs_of(structure, rng, X)
    X[1:3, 0] = X[40] = np.nan
    X *= units
    kalman = KalmanFilter(structure=structure, observation_covariance_type="diag", tol=1e-8)
    kalman.fit(X, **given)
    ahead, found = kalman.forecast(X, N_AHEAD, **given, **future), kalman.decompose(X, **given)
    total, k = 0.0, kalman.model_.n_components // 2
    for j in range(2):
        own = slice(j * k, j * k + k)
        column = clone(kalman).fit(X[:, [j]], **given)
        best = column.score(X[:, [j]], **given)
        # With the parameters of the column, the likelihood is that of both.
        for name in ("transition_matrices_", "transition_covariance_", "initial_state_covariance_"):
            setattr(column, name, getattr(kalman, name)[own, own])
        column.observation_covariance_ = kalman.observation_covariance_[[[j]], [j]]
        if given:
            column.observation_input_weights_ = kalman.observation_input_weights_[[j]]
        score = column.score(X[:, [j]], **given)
        assert_allclose(score, best, atol=0.02)
        total += score
        expected = column.forecast(X[:, [j]], N_AHEAD, **given, **future)
        assert_allclose(ahead[:, j], expected[:, 0], rtol=1e-6, atol=1e-6 * units[j])
        for name, parts in column.decompose(X[:, [j]], **given).items():
            for part, of_all in zip(parts, found[name], strict=True):
                assert_allclose(of_all[:, j], part, rtol=1e-6, atol=1e-6 * units[j] ** 2)
    assert_allclose(kalman.score(X, **given), total, rtol=1e-9)


def test_noise_of_columns_may_be_correlated(rng):
    noise = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], size=300)
    X = 0.3 * rng.normal(size=(300, 2)).cumsum(axis=0) + noise
    kalman = KalmanFilter(structure=[Level()]).fit(X)
    assert_allclose(kalman.observation_covariance_, [[1.0, 0.8], [0.8, 1.0]], atol=0.3)
    apart = clone(kalman).set_params(observation_covariance_type="diag").fit(X)
    assert kalman.score(X) > apart.score(X) + 20.0
    assert kalman.model_.n_parameters() == apart.model_.n_parameters() + 1 == 5
    stream = clone(kalman)
    for piece in np.array_split(X, 6):
        stream.partial_fit(piece, continues=True)
    assert_allclose(stream.score(X), kalman.score(X), rtol=0.1)
    assert stream.observation_covariance_[0, 1] > 0.4
    values = {name: getattr(kalman, f"{name}_") for name in FIELDS}
    known = KalmanFilter(structure=[Level()])
    for name, value in values.items():
        setattr(known, f"{name}_", value)
    assert known.score(X) == kalman.score(X)
    assert_allclose(known.decompose(X)["level"][0], kalman.decompose(X)["level"][0])
    with pytest.raises(ValueError, match="expecting 2 features"):
        kalman.forecast(X[:, :1])


def test_first_values_that_fade_have_the_variance_of_the_series(rng):
    X, u = 7.0 + rng.normal(size=(50, 1)) * [1.0, 100.0], 1e3 * rng.normal(size=50)
    kalman = KalmanFilter(structure=[Level(), Autoregression(), Inputs()]).fit(X, inputs=u)
    found = kalman.initial_state_covariance_.diagonal()
    assert_allclose(found, [np.inf, X[:, 0].var(), np.inf, X[:, 1].var()])


def test_weights_are_found_where_rows_have_no_noise_and_inputs_are_far_from_0(rng):
    # With little noise EM leaves the weights as they are, and with such inputs it is slow.
    X, u = np.cumsum(rng.normal(size=(100, 1)), axis=0), rng.normal(size=(100, 2))
    X += u @ [[2.0], [-1.0]]
    kalman = KalmanFilter(structure=Level() + Inputs()).fit(X, inputs=u)
    least_squares = np.linalg.lstsq(np.diff(u, axis=0), np.diff(X, axis=0), rcond=None)[0].T
    assert_allclose(kalman.observation_input_weights_, least_squares, atol=0.1)
    far = clone(kalman).fit(X, inputs=u + 1e3)
    assert_allclose(far.score(X, inputs=u + 1e3), kalman.score(X, inputs=u), atol=0.1)
    # A level explains a constant as well.
    constant = clone(kalman).fit(X, inputs=np.hstack([u, np.ones((100, 1))]))
    assert_allclose(
        constant.score(X, inputs=np.hstack([u, np.ones((100, 1))])),
        kalman.score(X, inputs=u),
        atol=0.1,
    )
    assert_allclose(constant.observation_input_weights_[:, 2], 0.0, atol=0.1)


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


def test_components_are_listed_or_added():
    assert Level() + Trend(damped=True) + Season(7) == [Level(), Trend(damped=True), Season(7)]
    assert [Level()] + Season(7) == Level() + [Season(7)] == [Level(), Season(7)]
    kalman = clone(KalmanFilter(structure=Level() + Season(7)))
    assert repr(kalman) == "KalmanFilter(structure=[Level(), Season(period=7)])"

"""Log-likelihoods of rows from E-steps, and rows of streams that are left out of learning."""

import copy
import pickle
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from cases.chains import CHAINS
from cases.comparing import assert_close, assert_identical
from cases.dynamical import DYNAMICAL
from cases.mixture_cases import MIXTURES
from numpy.testing import assert_allclose

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LaplaceMixture,
    PoissonHMM,
    PoissonMixture,
)
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em import BayesianOnline, Online

# ------------------------------------------------------------------ log-likelihoods from E-steps


def log_likelihoods_of(model, data):
    """Those of the E-step, which is the same with them."""
    out = np.full(data.n_rows, 7.0)
    found, expected = model.e_step(data, None, out), model.e_step(data)
    assert_identical(found, expected)
    return out


@pytest.mark.parametrize("case", MIXTURES, ids=repr)
@pytest.mark.parametrize("n", [1, 300])
def test_e_steps_of_mixtures_tell_log_likelihoods_of_rows(case, n, rng):
    for n_components in (1, 3):
        model = case.draw(rng, n_components)
        data = case.data(rng, n)
        out = np.full(n, 7.0)
        log_likelihood = model.e_step(data, None, out)[1]
        assert_allclose(out, model.log_likelihood(data), rtol=1e-8, atol=1e-8)
        assert_allclose(out.mean(), log_likelihood, rtol=1e-8)
        if n_components > 1:
            assert_identical(model.e_step(data, None, out), model.e_step(data))
            sampled = np.empty(n)
            model.e_step(data, np.random.default_rng(0), sampled)
            assert_allclose(sampled, out, rtol=1e-8, atol=1e-8)


def test_rows_without_weight_have_none(rng):
    model, weights = MIXTURES[0].draw(rng), np.array([1.0, 0.0, 2.0])
    out = log_likelihoods_of(model, Rows(MIXTURES[0].rows(rng, 3), weights))
    assert np.isnan(out).tolist() == [False, True, False]


def test_chunks_of_rows_tell_theirs(rng, monkeypatch):
    monkeypatch.setattr("sklearn_onlineem.models.mixtures.mixture._CHUNK_ROWS", 7)
    model, data = MIXTURES[0].draw(rng), MIXTURES[0].data(rng, 30)
    assert_allclose(log_likelihoods_of(model, data), model.log_likelihood(data), rtol=1e-8)


@pytest.mark.parametrize("case", CHAINS[:6], ids=repr)
def test_e_steps_of_chains_tell_those_of_the_best_state(case, rng):
    model, data = case.draw(rng), case.data(rng, 5)
    densities = model.family.log_density(model.parameters, data.X)
    assert_allclose(log_likelihoods_of(model, data), densities.max(axis=1), rtol=1e-8)
    without = data.without(np.array([1]))
    out = log_likelihoods_of(model, without)
    assert np.flatnonzero(np.isnan(out)).tolist() == [1]
    assert not np.isnan(data.X).any()


@pytest.mark.parametrize("n", [3, 400])
def test_e_steps_of_linear_systems_tell_those_given_the_rows_before(n, rng):
    model = DYNAMICAL[0].draw(rng)
    X = rng.normal(size=(2 * n, model.n_features))
    X[1, 0] = np.nan
    X[2] = np.nan
    data = Sequences(Rows(X), np.array([0, n, 2 * n]))
    k = model.n_components
    for rows in (data, data[1:], data.continued((np.zeros(k), np.eye(k)))):
        expected = model.row_log_likelihoods(rows)
        if rows.observed is not None:
            expected[~rows.observed] = np.nan
        assert_allclose(log_likelihoods_of(model, rows), expected, rtol=1e-8)


# ----------------------------------------------------------------------------------- streams


def turning(rng, n):
    return np.cumsum(rng.random(n) < 0.05) % 3


def normal_rows(rng, n):
    return np.array([0.0, 5.0, 10.0])[turning(rng, n)][:, None] + rng.normal(size=(n, 2))


def shuffled_rows(rng, n):
    return rng.permutation(normal_rows(rng, n))


def count_rows(rng, n):
    return rng.poisson(np.array([1.0, 8.0, 30.0])[turning(rng, n)][:, None], (n, 2)).astype(float)


def waves(rng, n):
    return np.sin(np.arange(n) / 20.0)[:, None] * [1.0, -2.0] + rng.normal(size=(n, 2))


FORGETTING = {"schedule": "forgetting", "beta": 0.98}
STREAMS = [
    (partial(GaussianMixture, 3), shuffled_rows),
    (partial(GaussianMixture, 3, **FORGETTING), shuffled_rows),
    (partial(GaussianMixture, 3, covariance_type="tied"), shuffled_rows),
    (partial(GaussianMixture, 3, covariance_type="diag"), shuffled_rows),
    (partial(GaussianMixture, 3, solver=BayesianOnline(forgetting=0.98)), shuffled_rows),
    (partial(LaplaceMixture, 3), shuffled_rows),
    (partial(PoissonMixture, 3), count_rows),
    (partial(GaussianHMM, 3), normal_rows),
    (partial(GaussianHMM, 3, **FORGETTING), normal_rows),
    (partial(PoissonHMM, 3), count_rows),
    (partial(KalmanFilter, 2), waves),
    (partial(KalmanFilter, 2, **FORGETTING), waves),
]
IDS = [f"{make.func.__name__}{list(make.keywords.values())}" for make, _ in STREAMS]
all_streams = pytest.mark.parametrize(("make", "rows"), STREAMS, ids=IDS)


def learnt(make, X, size=100, skips=True):
    estimator = make(random_state=0)
    solver = estimator.solver if isinstance(estimator.solver, BayesianOnline) else Online()
    estimator.set_params(solver=replace(solver, skips_outliers=skips))
    goes_on = {"continues": True} if hasattr(estimator, "filter") else {}
    for start in range(0, len(X), size):
        estimator.partial_fit(X[start : start + size], **goes_on)
    return estimator


def per_row(estimator, X):
    return estimator.score(X) / (len(X) if hasattr(estimator, "filter") else 1)


@all_streams
def test_where_there_are_no_outliers_nothing_changes(make, rows):
    X = rows(np.random.default_rng(1), 2500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, expected = (learnt(make, X, skips=skips) for skips in (True, False))
    assert_identical(found.model_, expected.model_)


@all_streams
@pytest.mark.parametrize("size", [10, 100])
def test_three_outliers_cost_next_to_nothing(make, rows, size):
    X, far = rows(np.random.default_rng(1), 2500), rows(np.random.default_rng(2), 1000)
    hit = X.copy()
    hit[[1803, 1805, 1951], [0, 1, 0]] = 1e6 * X.std()
    with pytest.warns(UserWarning, match="left out of learning"):
        found = learnt(make, hit, size)
    gate = found._fitted.state.carry["gate"]
    assert gate.n_left_out == 3
    assert per_row(found, far) > per_row(learnt(make, X, size), far) - 0.05
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spoilt = learnt(make, hit, size, skips=False)
    assert per_row(spoilt, far) < per_row(found, far) - 0.1


@all_streams
def test_a_jump_of_the_whole_source_is_followed_as_before(make, rows):
    X = rows(np.random.default_rng(1), 2500)
    X[1800:] += 40.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = (learnt(make, X, skips=skips) for skips in (True, False))
    assert per_row(found, X[2300:]) > per_row(expected, X[2300:]) - 0.1


@pytest.mark.filterwarnings("ignore")
@all_streams
@pytest.mark.parametrize("n_outliers", [2, 4, 30])
def test_weights_count_as_repetitions(make, rows, n_outliers, rng):
    weighted = learnt(make, rows(rng, 1000))
    repeated, n_left_out = copy.deepcopy(weighted), 0
    of_sequences = hasattr(weighted, "filter")
    for _ in range(5):
        X, weight = rows(rng, 150), rng.integers(0, 4, 150)
        hit = rng.choice(150, n_outliers, replace=False)
        X[hit, 0] = 10.0 ** rng.uniform(2.7, 5.5, n_outliers)
        numbers, lengths = np.arange(150), np.ones(150, int)
        if of_sequences:
            weight = np.append(rng.integers(0, 4, 6), 1)
            numbers = np.split(numbers, [1, 3, 8, 20, 21, 50])
            lengths = np.array([len(rows) for rows in numbers])
        again = [rows for rows, n in zip(numbers, weight, strict=True) for _ in range(n)]
        weighted.partial_fit(
            [X[rows] for rows in numbers] if of_sequences else X, sample_weight=weight
        )
        repeated.partial_fit([X[rows] for rows in again] if of_sequences else X[again])
        found, others = (one._fitted.state.carry["gate"].left_out for one in (weighted, repeated))
        counts = np.bincount(np.hstack(again)[list(others)], minlength=150)
        # Batches are without those that have no weight.
        counts, weight = (
            x[np.repeat(weight > 0, lengths)] for x in (counts, np.repeat(weight, lengths))
        )
        is_left_out = counts == weight
        assert found == tuple(np.flatnonzero(is_left_out))
        n_left_out += len(found)
        if (counts[~is_left_out] > 0).any():
            break  # Of some rows, some repetitions are learnt.
        # Outliers that are learnt cost digits.
        rounding = 1e-14 * X.max() ** 2
        assert_close(weighted.model_, repeated.model_, rtol=1e-6, atol=rounding)
    assert n_left_out > 0 or n_outliers > 2


@pytest.mark.parametrize("index", [0, 7, 10])
def test_outliers_in_the_first_rows_are_left_out_of_the_start(index):
    make, rows = STREAMS[index]
    X, far = rows(np.random.default_rng(1), 1500), rows(np.random.default_rng(2), 1000)
    hit = X.copy()
    hit[[50, 151], [0, 1]] = 1e6
    with pytest.warns(UserWarning, match="1 row was far more surprising"):
        found = learnt(make, hit)
    assert found._fitted.state.counters.n_rows == len(X)
    assert found._fitted.state.carry["gate"].n_left_out == 2
    assert per_row(found, far) > per_row(learnt(make, X), far) - 0.1


@pytest.mark.parametrize("index", [0, 4, 7, 10])
def test_streams_with_outliers_are_resumed_bit_for_bit(index):
    make, rows = STREAMS[index]
    X = rows(np.random.default_rng(1), 2000)
    X[[1200, 1310, 1555], 0] = 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole, resumed = learnt(make, X), learnt(make, X[:1350], 50)
        goes_on = {"continues": True} if hasattr(whole, "filter") else {}
        for start in range(1350, 2000, 50):
            resumed = pickle.loads(pickle.dumps(resumed)).partial_fit(
                X[start : start + 50], **goes_on
            )
        again = learnt(make, X, 50)
    assert_identical(resumed._fitted.state, again._fitted.state)
    gates = [one._fitted.state.carry["gate"] for one in (whole, again)]
    assert gates[0].n_left_out == gates[1].n_left_out == 3


def test_a_filter_goes_on_from_where_it_was_before_an_outlier():
    make, rows = STREAMS[10]
    X = rows(np.random.default_rng(1), 1600)
    hit = X.copy()
    hit[1599] = 1e6
    clean = learnt(make, X)
    with pytest.warns(UserWarning, match="left out"):
        found = learnt(make, hit)
    # In units of the rows: those of states are free.
    (C, (mean, covariance)), (D, (other, expected)) = (
        (one.observation_matrices_, one.filtered_state_) for one in (found, clean)
    )
    assert_allclose(C @ mean, D @ other, atol=1.0)
    assert_allclose(C @ covariance @ C.T, D @ expected @ D.T, atol=1.0)


def test_a_single_row_that_is_left_out_counts_as_read(rng):
    X = rng.normal(size=(1000, 2))
    mixture = GaussianMixture(2, random_state=0).partial_fit(X)
    before = mixture.model_
    with pytest.warns(UserWarning, match="1 row was far more surprising"):
        mixture.partial_fit([[1e6, 0.0]])
    assert mixture.model_ is before
    assert mixture.n_samples_seen_ == 1000
    step = mixture.history_[-1]
    assert (step.n_rows, step.eta, step.kl_divergence) == (1001, 0.0, 0.0)
    assert step.log_likelihood < -1e10
    mixture.partial_fit(X[:5])
    assert mixture.history_[-1].n_rows == 1006


def test_fits_learn_all_rows(rng):
    X = rng.normal(size=(3000, 1))
    X[2000] = 1e6
    for solver in (Online(), BayesianOnline(skips_outliers=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mixture = GaussianMixture(1, solver=solver, random_state=0, max_iter=1).fit(X)
        assert mixture.covariances_[0, 0, 0] > 1e6
        assert "gate" not in mixture._fitted.state.carry


def test_warnings_count_and_are_few(rng):
    mixture = GaussianMixture(1, random_state=0).partial_fit(rng.normal(size=(1000, 1)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in range(12):
            mixture.partial_fit(np.append(rng.normal(size=99), 10.0 ** (3 + size))[:, None])
    assert [str(one.message).split()[1] for one in caught] == ["1", "10"]
    assert mixture._fitted.state.carry["gate"].n_left_out == 12


@pytest.mark.filterwarnings("ignore:GaussianMixture. . row")
@pytest.mark.parametrize("first", [0, 2], ids=["class comes late", "two rows in the start"])
def test_rows_of_a_rare_class_are_learnt_by_their_labels(first, rng):
    """And wrong entries of a class that is known are left out, though they have its label."""
    centres, names = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 400.0]]), np.array([*"abc"])
    stream = GaussianMixture(3, semi_supervised=True, random_state=0)
    for i in range(20):
        y = rng.integers(0, 2, 200)
        y[: 1 if i else first] = 2
        X = centres[y] + rng.standard_normal((200, 2))
        if i == 10:
            y[100], X[100] = 1, 1e5
        stream.partial_fit(X, names[y], classes=names)
    assert 1 <= stream._fitted.state.carry["gate"].n_left_out <= 2
    assert_allclose(stream.means_, centres, atol=2.0)
    assert_allclose(stream.weights_[2], 0.005, atol=0.002)

"""What holds for forecasts of every hidden Markov model and Kalman filter."""

import numpy as np
import pandas as pd
import pytest
from cases.chains import CHAINS, filtered_by_definition
from cases.comparing import assert_close, assert_identical
from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES
from cases.sequence_cases import all_models
from numpy.testing import assert_allclose, assert_array_equal
from statsmodels.datasets import macrodata
from statsmodels.tsa.regime_switching.markov_regression import MarkovRegression

from sklearn_onlineem import HMM, CategoricalHMM, GaussianHMM, KalmanFilter, PoissonHMM
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.families.capabilities import ColumnDistributions, Marginals, Means
from sklearn_onlineem.models.forecasts import mixture_quantiles

LEVELS = np.array([0.001, 0.05, 0.5, 0.9, 0.999])
WITH_COLUMNS = [
    case
    for case in [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES]
    if isinstance(case.family, ColumnDistributions)
    and all(isinstance(f, ColumnDistributions) for f in getattr(case.family, "families", ()))
    and isinstance((case.inner or case).family, ColumnDistributions)
]
columns_of_families = pytest.mark.parametrize("case", WITH_COLUMNS, ids=repr)
all_chains = pytest.mark.parametrize("case", CHAINS, ids=repr)


# --------------------------------------------------------------------------------------- families


@columns_of_families
def test_distributions_of_columns_are_marginals_of_the_density(case, rng):
    parameters = case.draw(rng, 3, 2)
    X, means = case.rows(rng, 5, 2), case.family.means(parameters)
    for j in range(X.shape[1]):
        column = case.family.distribution(parameters, j)
        if isinstance(case.family, Marginals):
            alone = np.full_like(X, np.nan)
            alone[:, j] = X[:, j]
            expected = case.family.marginal_log_density(parameters, alone)
        else:  # One of two categories determines the other.
            n = np.rint(means.sum(axis=1)).astype(int)
            x = np.minimum(X[:, j], n.min())
            both = [np.column_stack([x, total - x][:: 1 - 2 * j]) for total in n]
            of_rows = [case.family.log_density(parameters, rows.copy()) for rows in both]
            expected = np.column_stack([found[:, k] for k, found in enumerate(of_rows)])
            X[:, j] = x
        density = getattr(column, "pmf", None) or column.pdf
        assert_allclose(np.log(density(X[:, j, None])), expected, rtol=1e-9, atol=1e-9)
        if isinstance(case.family, Marginals):
            assert_allclose(column.mean(), means[:, j], rtol=1e-9)


@columns_of_families
def test_covariances_are_those_of_samples(case, rng):
    parameters = case.draw(rng, 3, 2)
    covariances, n = case.family.covariances(parameters), 40_000
    for k, covariance in enumerate(covariances):
        variances = np.diag(covariance)
        expected = [case.family.distribution(parameters, j).var()[k] for j in range(len(variances))]
        assert_allclose(variances, expected, rtol=1e-9)
        X = case.family.sample(parameters, np.full(n, k), rng)
        if np.isfinite(covariance).all():
            error = np.sqrt((np.outer(variances, variances) + covariance**2) / n)
            assert (np.abs(np.cov(X.T) - covariance) <= 12.0 * error + 1e-12).all()


@columns_of_families
def test_quantiles_invert_the_distribution_function_of_the_mixture(case, rng):
    parameters = case.draw(rng, 3, 2)
    weights = np.vstack([rng.dirichlet(np.ones(3), 6), np.eye(3)])
    column = case.family.distribution(parameters, 1)
    quantiles = mixture_quantiles(column, weights, LEVELS)
    for level, found in zip(LEVELS, quantiles, strict=True):
        reached = (weights * column.cdf(found[:, None])).sum(axis=1)
        if hasattr(column, "pmf"):
            assert (reached >= level).all()
            assert ((weights * column.cdf(found[:, None] - 1.0)).sum(axis=1) < level).all()
        else:
            assert_allclose(reached, level, rtol=1e-10)
        assert_allclose(found[6:], column.ppf(level))


def test_quantiles_between_components_of_very_different_widths_are_exact():
    """Half of the rows are within some 1e-9 of 0."""
    hmm = GaussianHMM.from_parameters(
        startprob=[0.5, 0.5], transmat=np.full((2, 2), 0.5), means=[[0.0], [0.0]],
        covars=[[1e-18], [1e18]],
    )  # fmt: skip
    low, middle, high = hmm.forecast([[0.0]], quantiles=[0.3, 0.5, 0.7])[1].ravel()
    assert middle == pytest.approx(0.0, abs=1e-20)
    assert high == pytest.approx(-low, rel=1e-9)
    assert 1e-9 < high < 2e-9


# ----------------------------------------------------------------------------------------- models


@all_chains
def test_states_to_come_are_those_of_enumeration_over_all_paths(case, rng):
    model = case.draw(rng)
    data = Sequences(Rows(case.data(rng, 9).X[:6]), np.array([0, 2, 6]))
    log_densities = model.family.log_density(model.parameters, data.X).astype(float)
    found = model.forecast(data, 3).probabilities
    for i, (begin, end) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        and_more = np.vstack([log_densities[begin:end], np.zeros((3, 3))])
        expected = filtered_by_definition(model, and_more)[-3:]
        assert_allclose(found[i], expected, rtol=1e-9, atol=1e-12)
        assert_allclose(model.forecast(data[[i]], 3).probabilities, found[[i]], rtol=1e-9)
    start = model.ahead(None, 2).probabilities
    assert_allclose(start[0, 0], model.start)
    expected = filtered_by_definition(model, np.zeros((2, 3)))
    assert_allclose(start[0], expected, rtol=1e-9, atol=1e-12)


@all_chains
def test_moments_to_come_are_sums_over_the_states(case, rng):
    model = case.draw(rng)
    ahead = model.forecast(case.data(rng, 4), 3)
    if not isinstance(model.family, Means) or hasattr(model.family, "n_inputs"):
        return
    p, means = ahead.probabilities, model.family.means(model.parameters)
    factors = getattr(model.family, "families", (model.family,))
    columns = getattr(model.family, "columns", (range(means.shape[1]),))
    is_number = np.ones(means.shape[1], dtype=bool)
    for factor, own in zip(factors, columns, strict=True):
        is_number[list(own)] = not factor.is_nominal
    assert_allclose(ahead.mean[..., is_number], (p @ means)[..., is_number], rtol=1e-9, atol=1e-12)
    if not all(isinstance(factor, ColumnDistributions) for factor in factors):
        for find in (lambda: ahead.covariance, lambda: ahead.quantiles(LEVELS)):
            with pytest.raises(ValueError, match="has no distributions of single columns"):
                find()
        return
    second = model.family.covariances(model.parameters) + means[:, :, None] * means[:, None]
    expected = np.einsum("nsk,kij->nsij", p, second)
    total = p @ means
    expected -= total[..., None] * total[..., None, :]
    finite = np.isfinite(expected)
    assert_allclose(ahead.covariance[finite], expected[finite], rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------------- estimators


@all_models
def test_missing_rows_at_the_end_are_steps_of_a_forecast(case, rng):
    X, _ = case.data(rng)
    model = case().fit(X)
    gaps = [np.vstack([x, np.full((3, x.shape[1]), np.nan)]) for x in X]
    assert_allclose(model.forecast(gaps, 2), model.forecast(X, 5)[:, 3:], rtol=1e-9, atol=1e-9)
    if hasattr(model, "filter") and hasattr(model, "predict_next_proba"):
        found = model.predict_next_proba(X, 3)
        assert_allclose(found, np.stack([p[-3:] for p in model.filter(gaps)]), atol=1e-9)


@all_models
def test_forms_of_forecasts_are_those_of_their_sequences(case, rng):
    X, _ = case.data(rng, 4)
    model, (n, d) = case().fit(X), (4, X[0].shape[1])
    rows, lengths = np.concatenate(X), [len(x) for x in X]
    expected = model.forecast(X, 2)
    assert expected.shape == (n, 2, d)
    groups = np.repeat(np.arange(n), lengths)
    assert_identical(model.forecast(rows, 2, lengths=lengths), expected)
    assert_identical(model.forecast(rows, 2, groups=groups), expected)
    assert_close(model.forecast(X[1], 2), expected[1])
    if hasattr(model, "predict_next_proba"):
        proba = model.predict_next_proba(rows, 2, lengths=lengths)
        assert proba.shape == (n, 2, 3)
        assert_close(model.predict_next_proba(X[1], 2), proba[1])


@all_models
def test_a_live_filter_forecasts_as_the_estimator(case, rng):
    X, _ = case.data(rng)
    model = case().fit(X)
    options = {} if case.is_nominal else {"return_cov": True, "quantiles": LEVELS}
    live = model.live_filter()
    if getattr(model.model_, "diffuse", None) is not None:
        with pytest.raises(ValueError, match="do not determine a diffuse start"):
            live.forecast(2)
    elif not case.n_before:  # Others need rows before.
        assert live.forecast(2).shape == (2, X[0].shape[1])
    for row in X[1]:
        live.update(row)
    found, expected = live.forecast(3, **options), model.forecast(X[1], 3, **options)
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match="n_steps of live_filter"):
            live.forecast(wrong)


def test_next_states_and_rows_are_those_of_statsmodels():
    """Two levels of inflation; one-step forecasts are all that a Markov regression has."""
    y = macrodata.load_pandas().data[["infl"]].to_numpy()
    p, q, *of_states = params = np.array([0.98, 0.05, 4.0, 9.0, 2.0, 8.0])
    theirs = MarkovRegression(y, 2, switching_variance=True).filter(params)
    ours = GaussianHMM.from_parameters(
        startprob=[0.5, 0.5], transmat=[[p, 1.0 - p], [q, 1.0 - q]],
        means=np.reshape(of_states[:2], (2, 1)), covars=np.reshape(of_states[2:], (2, 1)),
    )  # fmt: skip
    ours.startprob_ = ours.get_stationary_distribution()
    proba = [ours.predict_next_proba(y[:t])[0] for t in range(1, len(y))]
    assert_allclose(proba, theirs.predicted_marginal_probabilities[1:], atol=1e-12)
    means = [ours.forecast(y[:t])[0, 0] for t in range(1, len(y))]
    assert_allclose(means, theirs.predict(probabilities="predicted")[1:], atol=1e-12)


# ------------------------------------------------------------------------------------------ dates


INDEXES = {
    "months": pd.date_range("2020-01-31", periods=8, freq="ME"),
    "business days in Berlin": pd.date_range("2020-01-31", periods=8, freq="B", tz="Europe/Berlin"),
    "quarters": pd.period_range("2019Q4", periods=8, freq="Q", name="quarter"),
    "inferred": pd.DatetimeIndex(pd.date_range("2020-01-31", periods=8, freq="W").to_numpy()),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize("make", [GaussianHMM, KalmanFilter])
def test_dates_in_are_dates_out(make, index, rng):
    frame = pd.DataFrame(rng.normal(size=(8, 2)), index, ["a", "b"])
    model = make(random_state=0).fit(frame[:5])
    expected, covariances, quantiles = model.forecast(
        frame[:5].reset_index(drop=True), 3, return_cov=True, quantiles=[0.1, 0.9]
    )
    means, found, (low, high) = model.forecast(frame[:5], 3, return_cov=True, quantiles=[0.1, 0.9])
    for table, values in ((means, expected), (low, quantiles[0]), (high, quantiles[1])):
        pd.testing.assert_frame_equal(
            table, pd.DataFrame(values, index[5:], ["a", "b"]), check_freq=False
        )
    assert_array_equal(found, covariances)
    several = model.forecast([frame[:5], frame[:4]], 2)
    assert [list(table.index) for table in several] == [list(index[5:7]), list(index[4:6])]
    mixed = np.array([0, 1, 0, 1, 0, 1, 0, 0])
    by_group = model.forecast(frame.set_axis(index[[0, 0, 1, 1, 2, 2, 3, 4]]), groups=mixed)
    assert [table.index[0] for table in by_group] == [index[5], index[3]]


@pytest.mark.parametrize(
    "index",
    [
        pd.DatetimeIndex(["2020-01-01", "2020-01-02", "2020-01-04"]),
        pd.PeriodIndex(["2020-01", "2020-02", "2020-04"], freq="M"),
        pd.date_range("2020-01-03", periods=3, freq="-1D"),
        pd.DatetimeIndex(["2020-01-01", "2020-01-01", "2020-01-01"]),
        pd.DatetimeIndex(["2020-01-01", None, "2020-01-03"]),
        pd.DatetimeIndex(["2020-01-01", "2020-01-02"]),
    ],
    ids=["gap", "gap in periods", "backwards", "repeated", "NaT", "too few"],
)
def test_dates_without_a_frequency_are_refused(index, rng):
    frame = pd.DataFrame(rng.normal(size=(len(index), 1)), index)
    hmm = GaussianHMM(random_state=0).fit(frame)
    dated = frame.set_axis(INDEXES["months"][: len(frame)])
    with pytest.raises(ValueError, match=r"GaussianHMM.* dates of sequence 1 of X .*asfreq"):
        hmm.forecast([dated, frame])
    assert hmm.forecast(frame.reset_index(drop=True)).shape == (1, 1)
    with pytest.raises(ValueError, match="sequence 1 of X has no dates"):
        hmm.forecast([dated, frame.reset_index(drop=True)])


def test_sequences_of_symbols_may_have_dates(rng):
    X = [pd.Series(rng.integers(0, 3, 8), INDEXES["months"]) for _ in range(3)]
    tables = CategoricalHMM(2, random_state=0).fit(X).forecast(X, 2)
    assert [table.shape for table in tables] == [(2, 1)] * 3
    assert tables[0].index[0] == pd.Timestamp("2020-09-30")


def test_frames_without_dates_give_arrays(rng):
    frame = pd.DataFrame(rng.normal(size=(5, 1)))
    assert type(GaussianHMM(random_state=0).fit(frame).forecast(frame)) is np.ndarray


# --------------------------------------------------------------------------------------- refusals


def test_chains_that_surely_end_have_no_next_row():
    hmm = PoissonHMM.from_parameters(
        startprob=[1.0, 0.0], transmat=[[0.0, 0.9], [0.5, 0.0]], lambdas=[[1.0], [5.0]],
        termination="end_state",
    )  # fmt: skip
    hmm.endprob_ = [0.0, 1.0]
    assert_allclose(hmm.forecast([[1]]), [[5.0]])
    with pytest.raises(ValueError, match=r"PoissonHMM: sequence 1 surely ends before step 1"):
        hmm.forecast([[[1]], [[1], [2]]])
    with pytest.raises(ValueError, match="sequence 0 surely ends before step 2"):
        hmm.predict_next_proba([[1]], 2)


def test_what_is_impossible_has_no_next_row():
    hmm = CategoricalHMM.from_parameters(
        startprob=[1.0], transmat=[[1.0]], emissionprob=[[1.0, 0.0]], n_features=2, params=""
    )
    with pytest.raises(ValueError, match="CategoricalHMM: sequence 1 is impossible"):
        hmm.forecast([[[0]], [[1]]])


def test_symbols_have_no_quantiles_and_are_the_most_probable_ones(rng):
    hmm = CategoricalHMM(2, random_state=0).fit(rng.integers(0, 3, (50, 2)))
    found = hmm.forecast([[0, 1]], 2)
    by_symbol = hmm.predict_next_proba([[0, 1]], 2) @ hmm.emissionprob_
    assert_array_equal(found, by_symbol.reshape(2, 2, 3).argmax(axis=2))
    for options in ({"return_cov": True}, {"quantiles": [0.5]}):
        with pytest.raises(ValueError, match="CategoricalHMM: Categorical has no distributions"):
            hmm.forecast([[0, 1]], **options)


def test_names_of_categories_come_back():
    table = pd.DataFrame({"kind": ["a", "b"] * 10, "size": np.arange(20.0) % 2})
    hmm = HMM(2, family={"kind": "categorical", "size": "gaussian_diag"}, random_state=0).fit(table)
    assert set(hmm.forecast(table, 3)[:, 0]) <= {"a", "b"}

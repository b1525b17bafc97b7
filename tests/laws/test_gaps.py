"""Laws of rows with missing values, for all mixtures whose families have marginals."""

import pickle

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.states import state_of
from cases.streams import AT_ONCE
from sklearn.base import clone
from sklearn.utils import get_tags

from sklearn_onlineem import HMM, GaussianHMM, GaussianMixture, Mixture, StudentTMixture
from sklearn_onlineem.diagnostics import (
    convergence_certificate,
    missing_information,
    standard_errors,
)
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Adaptive, Batch, Componentwise, Online, SplitMerge, Stochastic
from sklearn_onlineem.estimators.base import set_start

TAKE_GAPS = [case for case in ESTIMATORS if get_tags(case()).input_tags.allow_nan]
all_mixtures = pytest.mark.parametrize("case", TAKE_GAPS, ids=repr)
SOLVERS = {
    "online": Online(),
    "batch": Batch(),
    "plain": Batch(acceleration=None),
    "stochastic": Stochastic(),
    "componentwise": Componentwise(),
    "split and merge": SplitMerge(),
    "fixed": SplitMerge(n_components="fixed"),
    "adaptive": Adaptive(),
    "sample": Online(sample=100),
}


def with_gaps(X, rng, share=0.2):
    """Rows with a share of all values missing, but one in each row."""
    X, missing = np.array(X, dtype=float), rng.random(np.shape(X)) < share
    missing[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    return np.where(missing, np.nan, X)


@all_mixtures
def test_likelihood_never_falls(case, rng):
    X = with_gaps(case.data(rng)[0], rng)
    for solver in (Batch(), Batch(acceleration=None), Componentwise()):
        mixture = case(solver=solver, prior=None, max_iter=30, tol=0.0, weights_init=None).fit(X)
        gains = np.diff(mixture.lower_bounds_)
        assert len(gains) > 3 and gains.min() > -1e-9 * abs(mixture.lower_bounds_[-1])
        assert_close(mixture.score(X), mixture.lower_bounds_[-1], rtol=1e-2)


@all_mixtures
@pytest.mark.parametrize("solver", SOLVERS)
def test_gaps_cost_little(case, solver, rng):
    whole, _ = case.data(rng, 600)
    X, held_out = with_gaps(whole, rng, 0.1), case.data(rng, 300)[0]
    fits = [case(solver=SOLVERS[solver], max_iter=30).fit(rows) for rows in (whole, X)]
    complete, incomplete = (fit.score(held_out) for fit in fits)
    assert incomplete > complete - 0.05 * max(1.0, abs(complete))
    if solver not in ("batch", "plain", "componentwise"):
        stream = case(solver=SOLVERS[solver])
        for start in range(0, 600, 25):
            stream.partial_fit(X[start : start + 25])
        assert stream.score(held_out) > complete - 0.1 * max(1.0, abs(complete))
        resumed = pickle.loads(pickle.dumps(stream))
        assert_identical(resumed.partial_fit(X).model_, stream.partial_fit(X).model_)


LITTLE_SEEN = {
    **{k: GaussianMixture(2, covariance_type=k) for k in ("full", "tied", "diag", "spherical")},
    "no prior": GaussianMixture(2, prior=None),
    "student": StudentTMixture(2, covariance_type="diag"),
    "product": Mixture(2, family={0: "poisson", (1, 2): "gaussian_full"}),
    "states": GaussianHMM(2, covariance_type="full"),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", LITTLE_SEEN)
def test_what_few_values_determine_stays_where_they_are(case, solver):
    model, d = clone(LITTLE_SEEN[case]), 1 + (case == "product")
    if case in ("states", "student") and solver not in ("online", "batch", "stochastic"):
        return
    for seed in range(2):
        # A question that one form of a questionnaire has, and one that all answer alike.
        rng = np.random.default_rng([seed, 40])
        answers = rng.integers(1, 6, (3, 1 + d)) + rng.normal(0.0, 0.7, (13, 3, 1 + d))
        X = np.clip(np.rint(answers), 1.0, 5.0).reshape(39, -1)
        X[rng.random(39) < 0.8, -1] = np.nan
        for rows in (X, np.array([[1.0] * d + [np.nan], [1.0] * d + [5.0]] * 4)):
            fit = model.set_params(solver=SOLVERS[solver], random_state=seed).fit(rows)
            found = fit.model_.parameters
            gaussians = found[1] if case == "product" else getattr(found, "gaussians", found)
            assert -3.0 < gaussians.mean.min() and gaussians.mean.max() < 9.0
            assert np.abs(gaussians.covariance).max() < 20.0
            if case != "states":
                assert -3.0 < fit.impute(rows).min() and fit.impute(rows).max() < 9.0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", ["full", "tied", "no prior", "states"])
def test_a_column_of_one_value_is_correlated_with_no_other(case, solver, rng):
    if case == "states" and solver not in ("online", "batch", "stochastic"):
        return
    X = np.column_stack([rng.normal(5.0, 2.0, 60), np.full(60, 3.1), rng.normal(5.0, 1.0, 60)])
    X[:, 2] += X[:, 0]
    X[rng.random(X.shape) < 0.4] = np.nan
    model = clone(LITTLE_SEEN[case]).set_params(solver=SOLVERS[solver], random_state=0)
    for fit in (clone(model).fit(X), model.partial_fit(X[:20]).partial_fit(X[20:])):
        S = fit.model_.parameters.covariance
        roots = np.sqrt(np.einsum("kii->ki", S))
        correlations = S / (roots[:, :, None] * roots[:, None, :])
        assert np.abs(correlations[:, 1, [0, 2]]).max() < 1e-8
        assert np.abs(correlations[:, 0, 2]).max() > 0.1


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["full", "diag"])
def test_components_keep_what_no_value_tells(kind, solver, rng):
    X = np.concatenate([rng.normal(size=(60, 2)), [20.0, 0.0] + rng.normal(size=(60, 2))])
    X[60:, 1] = np.nan
    precisions = np.array([[1.0, 1.0], [1.0, 0.25]])
    if kind == "full":
        precisions = precisions[:, :, None] * np.eye(2)
    mixture = GaussianMixture(
        2, covariance_type=kind, means_init=[[0.0, 0.0], [20.0, 3.0]], precisions_init=precisions,
        reg_covar=0.1, prior=None, solver=SOLVERS[solver], max_iter=30, random_state=0,
    ).fit(X)  # fmt: skip
    parameters = mixture.model_.parameters
    k = np.argmax(parameters.mean[:, 0])
    assert_close(parameters.mean[k, 1], 3.0, rtol=1e-9)
    assert_close(parameters.covariance_matrices[k, 1, 1], 4.0, rtol=1e-6)
    assert not np.isclose(parameters.mean[k, 0], 20.0, atol=1e-6)


@pytest.mark.parametrize("kind", ["full", "tied"])
@pytest.mark.parametrize("student", [False, True])
def test_few_rows_with_many_gaps_determine_components(student, kind, rng):
    """Of mixtures, and of hidden Markov models, whose penalty is that of a mixture of the rows."""
    settings, d = {"covariance_type": kind, "random_state": 0}, 7
    models = [GaussianMixture(3, **settings), GaussianHMM(3, **settings)]
    if student:
        of_chains = HMM(3, family=f"student_t_{kind}", prior="auto", random_state=0)
        models = [StudentTMixture(3, **settings), of_chains]
    roots = rng.normal(size=(3, d, d))
    X = np.concatenate([8.0 * k + rng.normal(size=(80, d)) @ roots[k] for k in range(3)])
    rows, held_out = with_gaps(X[::2], rng, 0.5), X[1::2]
    for model, n in zip(models, (1, len(held_out)), strict=True):
        without = clone(model).set_params(prior=None).fit(rows).score(held_out)
        assert model.fit(rows).score(held_out) > max(without, -10.0 * d * n)
        # With whole rows "auto" is no prior.
        wholes = [clone(model).set_params(prior=p).fit(X).model_ for p in ("auto", None)]
        assert_identical(wholes[0].parameters, wholes[1].parameters)
    spreads = (model.model_.family.spread for model in models)
    assert_close(*(np.append(*spread) for spread in spreads), rtol=1e-12)


def test_gaps_penalise_covariances_of_hidden_markov_models_however_they_start(rng):
    X, means, unit = (
        with_gaps(rng.normal(size=(60, 2)), rng, 0.4),
        np.eye(2),
        np.array([np.eye(2)] * 2),
    )
    chain = {"startprob": [0.5, 0.5], "transmat": np.full((2, 2), 0.5)}
    given = GaussianHMM(2, covariance_type="full", means_init=means, covars_init=unit)
    known = GaussianHMM.from_parameters(covariance_type="full", means=means, covars=unit, **chain)
    fitted = GaussianHMM(2, covariance_type="full", random_state=0).fit(X)
    scatter = fitted._fitted.state.prior.emissions.scatter
    assert np.linalg.eigvalsh(scatter).min() > 0.0
    for hmm in (given.fit(X), known.partial_fit(X)):
        assert_close(hmm._fitted.state.prior.emissions.scatter, scatter, rtol=1e-12)
    # Rows of the start of a stream decide, and priors of other parameters replace it.
    assert known.partial_fit(X[:5])._fitted.state.prior is not None
    for hmm, rows in (
        (clone(given), np.nan_to_num(X)),
        (clone(given).set_params(covars_prior=3.0), X),
        (clone(given).set_params(prior=None, covars_prior=3.0), X),
    ):
        prior = hmm.fit(rows).partial_fit(X)._fitted.state.prior
        if hmm.covars_prior is None:
            assert prior is None
        else:
            assert_close(prior.emissions.scatter, 3.0 * unit, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "n_matrices"), [("full", 3), ("tied", 1)])
def test_the_default_prior_of_gaps(kind, n_matrices, weighted, rng):
    X = with_gaps(rng.normal(3.0, [1.0, 10.0], size=(40, 2)), rng, 0.4)
    weight = rng.integers(1, 4, size=40) if weighted else None
    repeated = X if weight is None else np.repeat(X, weight, axis=0)
    n_parameters, n_values = 3 * 2 + n_matrices * 3, np.count_nonzero(~np.isnan(repeated))
    rows = 4.0 * np.isnan(repeated).mean() * min(1.0, n_parameters / n_values)
    rows *= n_parameters / (3 * 2)
    expected = rows * np.diag(np.nanvar(repeated, axis=0)) / 3.0
    mixture = GaussianMixture(3, covariance_type=kind, max_iter=1).fit(X, sample_weight=weight)
    prior = mixture._fitted.state.prior
    assert_close(prior.emissions.scatter, np.tile(expected, (n_matrices, 1, 1)), rtol=1e-12)
    # The mode of a covariance has four times the variances of the data.
    assert_close(prior.emissions.degrees, np.full(n_matrices, rows / 3.0 / 4.0), rtol=1e-12)
    assert not prior.counts.any() and not prior.emissions.weight.any()


@all_mixtures
def test_rows_of_nothing_count_for_nothing(case, rng):
    X = with_gaps(case.data(rng)[0], rng)
    more = np.insert(X, [0, 10, 50, len(X)], np.nan, axis=0)
    mixture = case(max_iter=3).fit(X)
    assert_identical(state_of(case(max_iter=3).fit(more)), state_of(mixture))
    assert_identical(mixture.score(more), mixture.score(X))
    assert_identical(mixture.bic(more), mixture.bic(X))
    nothing = np.full((2, X.shape[1]), np.nan)
    assert_close(mixture.predict_proba(nothing), np.tile(mixture.weights_, (2, 1)), rtol=1e-12)
    assert_close(mixture.score_samples(nothing), np.zeros(2), atol=1e-12)
    before = state_of(mixture)
    assert_identical(state_of(mixture.partial_fit(nothing)), before)
    assert_identical(state_of(case(max_iter=3).partial_fit(more)), state_of(case().partial_fit(X)))
    for call in (case().fit, mixture.score, mixture.aic):
        with pytest.raises(ValueError, match=f"{type(mixture).__name__}: X has nothing but NaN"):
            call(nothing)


@all_mixtures
def test_what_is_imputed_is_the_mean_of_what_is_drawn(case, rng):
    whole, _ = case.data(rng)
    X = with_gaps(whole, rng)
    mixture = case(max_iter=10, random_state=np.random.RandomState(0)).fit(X)
    imputed, missing = mixture.impute(X), np.isnan(X)
    assert_identical(imputed[~missing], X[~missing])
    assert np.isfinite(imputed).all()
    draws = np.array([mixture.sample_missing(X) for _ in range(300)])
    assert_identical(draws[:, ~missing], np.broadcast_to(X[~missing], draws[:, ~missing].shape))
    assert np.isfinite(mixture.score_samples(draws[0])).all()
    if not case.is_nominal:
        error = draws[:, missing].std(axis=0) / np.sqrt(len(draws))
        off = np.abs(draws[:, missing].mean(axis=0) - imputed[missing])
        assert (off < 6.0 * error + 1e-9).mean() > 0.99
        closer = np.abs(imputed - whole)[missing].mean()
        assert closer < np.abs(np.nanmean(X, axis=0) - whole)[missing].mean()


@all_mixtures
def test_shards_add_up(case, rng):
    X = with_gaps(case.data(rng)[0], rng)
    one = case(solver="batch", max_iter=3).fit(X)
    many = DistributedEM(case(solver="batch", max_iter=3), n_shards=3).fit(X)
    assert_close(many.score(X), one.score(X), rtol=0.05)
    shards = [set_start(case(solver=AT_ONCE), X) for _ in range(3)]
    model, rows = shards[0].model_, [shards[0]._input().read(part) for part in np.split(X, 3)]
    everything = shards[0]._input().read(X)
    pooled = sum((model.e_step(part)[0] for part in rows[1:]), start=model.e_step(rows[0])[0])
    assert_close(pooled.scale(1 / 3), model.e_step(everything)[0], rtol=1e-9, atol=1e-9)


@all_mixtures
def test_known_components(case, rng):
    whole, y = case.data(rng)
    X, known = with_gaps(whole, rng), np.where(rng.random(len(y)) < 0.3, y, -1)
    mixture = case(semi_supervised=True, max_iter=20).fit(X, known)
    assert (mixture.predict(whole) == y).mean() > 0.9


def test_diagnostics_count_what_is_observed(rng):
    X = rng.normal(size=(400, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    X[:200, 1] = np.nan
    mixture = GaussianMixture(solver="batch", tol=1e-12, reg_covar=0.0).fit(X)
    errors = standard_errors(mixture, X).errors["means_"]
    # The pattern is monotone: the second mean is a regression on the first, which has all rows.
    covariance = mixture.covariances_[0]
    slope = covariance[0, 1] / covariance[0, 0]
    rest = covariance[1, 1] - slope * covariance[0, 1]
    expected = np.sqrt([covariance[0, 0] / 400, rest / 200 + slope**2 * covariance[0, 0] / 400])
    assert_close(errors[0], expected, rtol=0.01)
    assert 0.4 < missing_information(mixture, X).rate < 0.6
    assert convergence_certificate(mixture, X).natural_decrement < 1e-6

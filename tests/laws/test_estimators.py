"""What holds for every estimator."""

import inspect
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS, SPARSE_ESTIMATORS, by_likelihood
from cases.family_cases import case_of
from cases.merged_cases import WAYS
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from cases.states import state_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags
from sklearn.utils._param_validation import InvalidParameterError
from threadpoolctl import threadpool_limits

from sklearn_onlineem import MultinomialMixture, PoissonMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Batch
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.estimators._start import _some_rows
from sklearn_onlineem.models.mixtures.mixture import MixtureStatistics

# All estimators read labels, and copy, in these ways.
READERS = [*(case for case in ESTIMATORS if repr(case) in WAYS), GIBBS[0]]
all_readers = pytest.mark.parametrize("case", READERS, ids=repr)
all_estimators = pytest.mark.parametrize("case", [*ESTIMATORS, *GIBBS[:2]], ids=repr)
all_models = pytest.mark.parametrize(
    "case", [*ESTIMATORS, *GIBBS[:2], *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS], ids=repr
)
by_em = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
without_priors = pytest.mark.parametrize("case", by_likelihood(ESTIMATORS), ids=repr)
sparse_estimators = pytest.mark.parametrize("case", SPARSE_ESTIMATORS, ids=repr)
LABELLED = {"semi_supervised": True}
INITS = ["k-means", "k-means++", "random", "random_from_data"]


def accuracy(y, found):
    return np.mean(np.asarray(y) == np.asarray(found))


def centres(X, y):
    """The means of the clusters, to start from without chance."""
    return np.array([X[y == k].mean(axis=0) for k in range(y.max() + 1)])


# ----------------------------------------------------------------------------- learning in parts


@all_estimators
def test_starts_do_not_depend_on_the_number_of_threads(case, rng):
    X, _ = case.data(rng, 3000)
    with threadpool_limits(1):
        one = case(solver="batch", max_iter=2).fit(X)
    with threadpool_limits(2):
        two = case(solver="batch", max_iter=2).fit(X)
    assert_identical(state_of(two), state_of(one))


# ---------------------------------------------------------------------------------------- labels


@all_estimators
def test_a_few_labels_name_the_components(case, rng):
    X, y = case.data(rng)
    labels = np.full(300, -1)
    known = np.concatenate([np.flatnonzero(y == k)[:5] for k in range(3)])
    scores = []
    for permutation in ([0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [2, 1, 0], [1, 0, 2]):
        named = np.take(permutation, y)
        labels[known] = named[known]
        scores.append(accuracy(named, case(**LABELLED).fit(X, labels).predict(X)))
    assert min(scores) > 0.9


@pytest.mark.parametrize("n_labelled", [4, 3000, 200_000])
def test_starts_from_many_rows_keep_labelled_ones(n_labelled, rng):
    labels = np.where(np.arange(200_000) < n_labelled, np.arange(200_000) % 3, -1).astype(np.int32)
    labels[-1] = 3
    rows = Rows(rng.random((200_000, 1)))
    seeds = [np.random.RandomState(0) for _ in range(3)]
    chosen = _some_rows(replace(rows, labels=labels), 4, 2**16, seeds[0])
    kept = np.bincount(labels[chosen] + 1)[1:]
    assert (kept >= np.minimum(np.bincount(labels + 1)[1:], 1024)).all()
    assert len(chosen) <= 2**16 + 4 * 1024
    assert_array_equal(chosen, np.unique(chosen))
    unlabelled = np.sort(seeds[1].choice(200_000, 2**16, replace=False))
    assert_array_equal(_some_rows(rows, 4, 2**16, seeds[2]), unlabelled)


@all_estimators
def test_labels_of_one_component_change_nothing(case, rng):
    X, y = case.data(rng)
    labels = np.where(y, 0, -1)
    assert_identical(state_of(case(1, **LABELLED).fit(X, labels)), state_of(case(1).fit(X)))
    with pytest.raises(ValueError, match=r"known components 0\.\.0"):
        case(1, **LABELLED).fit(X, y)
    for amount in (0, 299, 301):
        with pytest.raises(ValueError, match=case.make.__name__):
            case(1, **LABELLED).fit(X, np.zeros(amount, dtype=int))


# ----------------------------------------------------------------------------------- types of data


@sparse_estimators
@pytest.mark.parametrize("init", INITS)
def test_sparse_rows_are_never_made_dense(case, init, rng, monkeypatch):
    X, _ = case.data(rng, 400)
    # Counts of transitions may have so many columns.
    wide = sparse.csr_array(np.hstack([X, np.zeros((400, 70 * 71 - X.shape[1]))]))
    made = []
    for form in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        original = form.toarray

        def toarray(self, *args, original=original, **kwargs):
            made.append(self.shape)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(form, "toarray", toarray)
    mixture = case(init=init, batch_size=100, max_iter=2).fit(wide).partial_fit(wide[:200])
    mixture.predict(wide), mixture.score_samples(wide), mixture.transform(wide)
    # Centres of a start are dense.
    assert all(rows <= 3 for rows, _ in made)


@all_readers
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output(case, library, rng):
    X, _ = case.data(rng)
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library](
        dict(zip(names, X.T, strict=True))
    )
    mixture = case().fit(frame).set_output(transform=library)
    out = mixture.transform(frame)
    prefix = type(mixture).__name__.lower()
    assert list(out.columns) == [f"{prefix}{k}" for k in range(3)]
    assert list(mixture.get_feature_names_out()) == list(out.columns)
    assert list(mixture.feature_names_in_) == names
    assert_allclose(out.to_numpy(), case().fit(X).transform(X))
    mixture.partial_fit(frame)
    with pytest.raises(ValueError, match="feature names"):
        mixture.partial_fit(frame[names[::-1]])


# ------------------------------------------------------------------------------------- in use


@all_estimators
def test_consistency_of_what_a_fitted_mixture_gives(case, rng):
    X, _ = case.data(rng)
    mixture = case().fit(X)
    n, log_likelihoods = len(X), mixture.score_samples(X)
    posterior = mixture.predict_proba(X)
    assert posterior.shape == (n, 3) and log_likelihoods.shape == (n,)
    assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(mixture.predict(X), posterior.argmax(axis=1))
    assert_array_equal(mixture.transform(X), posterior)
    assert_array_equal(clone(mixture).fit_predict(X), mixture.predict(X))
    assert_array_equal(clone(mixture).fit_transform(X), posterior)
    assert mixture.score(X) == pytest.approx(log_likelihoods.mean(), rel=1e-12)
    model = mixture.model_
    n_parameters = model.family.n_parameters(model.parameters) + 2
    deviance = -2.0 * log_likelihoods.sum()
    assert mixture.bic(X) == pytest.approx(deviance + n_parameters * np.log(n), rel=1e-12)
    assert mixture.aic(X) == pytest.approx(deviance + 2.0 * n_parameters, rel=1e-12)
    assert mixture.bic(X.tolist()) == pytest.approx(mixture.bic(X), rel=1e-12)
    assert mixture.weights_.shape == (3,) and mixture.means_.shape == (3, X.shape[1])
    assert mixture.weights_.sum() == pytest.approx(1.0, rel=1e-12)
    drawn, components = mixture.sample(50)
    drawn = case.rows_of(drawn)
    assert drawn.shape == (50, X.shape[1]) and components.shape == (50,)
    assert np.isfinite(mixture.score_samples(drawn)).all()
    with pytest.raises(ValueError, match=f"n_samples of {type(mixture).__name__}"):
        mixture.sample(0)


def documented_attributes(estimator):
    """Names of fitted attributes, each with the shapes of arrays that its docstring has."""
    text = inspect.cleandoc(type(estimator).__doc__)
    section = text.partition("Attributes\n----------\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^(\w.*?) : (.*(?:\n .*)*)", section, re.MULTILINE)
    return {
        name: re.findall(r"\(((?:n_components|n_features|side)[^)]*)\)", kind)
        for names, kind in entries
        for name in names.split(", ")
    }


@all_estimators
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_every_documented_attribute_can_be_read(case, method, rng):
    X, _ = case.data(rng)
    mixture = getattr(case(semi_supervised=True), method)(X)
    side = math.isqrt(X.shape[1])
    sizes = {"n_components": 3, "n_features": X.shape[1], "side": side, "n_symbols": side}
    sizes["n_categories"] = case.arguments.get("n_categories")
    attributes = documented_attributes(mixture)
    assert {"means_", "weights_", "model_", "history_"} <= attributes.keys()
    for name, shapes in attributes.items():
        value = getattr(mixture, name)
        expected = [tuple(sizes[n] for n in re.findall(r"\w+", shape)) for shape in shapes]
        for part in (value if isinstance(value, list) else [value]) if expected else ():
            assert part.shape in expected and np.isfinite(part).all(), name


@without_priors
def test_fitted_values_of_batch_em(case, rng):
    X, _ = case.data(rng)
    mixture = case(solver=Batch(acceleration=None), tol=1e-3).fit(X)
    assert mixture.converged_
    assert mixture.n_steps_ == mixture.n_iter_ == len(mixture.history_)
    assert mixture.n_samples_seen_ == len(X)
    etas, log_likelihoods, divergences, n_rows = np.array(mixture.history_).T
    assert_allclose(n_rows, len(X) * np.arange(1, mixture.n_steps_ + 1))
    assert np.isinf(etas).all()
    assert (np.diff(log_likelihoods) >= -1e-9 * np.abs(log_likelihoods[1:])).all()
    gains = np.diff([*log_likelihoods, mixture.score(X)])
    # A floor under the variances costs a little likelihood.
    slack = (1e-5 if case.is_gaussian else 1e-9) * np.abs(log_likelihoods)
    assert (divergences >= 0).all()
    if case.regular:
        assert (divergences <= gains + slack).all()


@all_estimators
def test_fitted_values_of_a_stream(case, rng):
    X, _ = case.data(rng, 700)
    mixture = case(schedule="power", eta0=0.5, beta=0.7).partial_fit(X[:50])
    before = mixture.score(X[50:100])
    mixture.partial_fit(X[50:100])
    assert mixture.history_[-1].log_likelihood == pytest.approx(before, rel=1e-9)
    assert (mixture.n_rows_kept_, mixture.n_samples_seen_, mixture.n_steps_) == (100, 100, 2)
    # The start is final, and the next rows are learnt by an online step.
    mixture.partial_fit(X[100:500])
    assert (mixture.n_rows_kept_, mixture.n_samples_seen_) == (0, 500)
    etas = [step.eta for step in mixture.history_]
    assert len(etas) == mixture.n_steps_ == 4 and np.isinf(etas[:3]).all()
    n_start = mixture.history_[2].n_rows
    assert etas[3] == pytest.approx(0.5 / (500.0 / (500 - n_start)) ** 0.7)
    mixture.partial_fit(X[500:501]).partial_fit(X[501:550], sample_weight=np.full(49, 0.5))
    assert (mixture.n_steps_, mixture.n_samples_seen_) == (6, 525.5)
    # Time is 1 + rows seen before / rows in the batch.
    previous, last = mixture.history_[-2], mixture.history_[-1]
    assert previous.eta == pytest.approx(0.5 / 501.0**0.7)
    assert last.eta == pytest.approx(0.5 / (1.0 + 501.0 / 24.5) ** 0.7)
    before = mixture.score(X[550:])
    mixture.partial_fit(X[550:])
    assert mixture.history_[-1].log_likelihood == pytest.approx(before, rel=1e-9)
    assert mixture.history_[-1].kl_divergence >= 0.0


@by_em
def test_a_fit_online_is_a_pass_of_mini_batches_and_then_batch_em(case, rng):
    X, _ = case.data(rng)
    etas = []
    note = [lambda step: etas.append(step.eta)]
    mixture = case(schedule=lambda t: 0.5 / t, batch_size=60, max_iter=3, tol=0.0, callbacks=note)
    mixture.fit(X)
    assert_allclose(etas, [*(0.5 / np.arange(1.0, 6.0)), np.inf, np.inf])
    assert (mixture.n_iter_, mixture.n_steps_, mixture.n_samples_seen_) == (3, 7, 300)


@all_estimators
@pytest.mark.parametrize("init", INITS)
def test_every_start_gives_a_model(case, init, rng):
    X, y = case.data(rng)
    for fitted in (case(init=init).fit(X), case(init=init).partial_fit(X[:50])):
        assert np.isfinite(fitted.score(X))
        assert fitted.weights_.min() > 0
    if init.startswith("k-means"):
        found = case(init=init, n_init=5).fit_predict(X)
        table = np.array([[np.sum((y == i) & (found == j)) for j in range(3)] for i in range(3)])
        assert table.max(axis=1).sum() > 0.9 * len(X)


@all_estimators
def test_starts_from_arrays(case, rng):
    X, y = case.data(rng)
    responsibilities = 0.1 + np.eye(3)[y]
    for init in (centres(X, y), centres(X, y).tolist(), responsibilities):
        assert accuracy(y, case(init=init).fit_predict(X)) > 0.95
    for init in (X[:2], np.full((3, X.shape[1]), np.nan), np.ones(3)):
        with pytest.raises(ValueError, match=f"init of {type(case()).__name__}"):
            case(init=init).fit(X)


# The means of codes do not determine their probabilities.
@pytest.mark.parametrize("case", [case for case in ESTIMATORS if not case.is_nominal], ids=repr)
def test_given_means_and_weights_are_what_em_starts_from(case, rng):
    X, y = case.data(rng)
    means, weights = np.array([X[y == k].mean(axis=0) for k in (2, 0, 1)]), [0.5, 0.3, 0.2]
    mixture = case(means_init=means, weights_init=weights, eta0=1e-12, beta=0.0, max_iter=1, tol=0)
    mixture.set_params(batch_size=100).fit(X)
    assert_allclose(mixture.means_, means, rtol=1e-8, atol=1e-8)
    assert_allclose(mixture.weights_, weights, rtol=1e-8)


# ------------------------------------------------------------------------------------------ priors


CONCENTRATIONS = np.array([1.5, 2.5, 1.2])


def with_prior(case, rng, **arguments):
    """An estimator with priors on everything, its data, and the priors as pseudo-statistics."""
    X, y = case.data(rng)
    uneven = (y > 0) | (np.arange(300) % 2 > 0)
    X, y = X[uneven], y[uneven]
    prior = case_of(case().fit(X).model_.family).prior(X.shape[1])
    mixture = case(
        init=centres(X, y), prior=prior, weight_concentration_prior=CONCENTRATIONS, tol=0.0,
        **arguments,
    )  # fmt: skip

    def pseudo_statistics(model):
        emissions = model.family.prior_statistics(3, n_features=X.shape[1], **prior)
        return MixtureStatistics(CONCENTRATIONS - 1.0, emissions)

    return mixture, X, pseudo_statistics


@all_estimators
def test_priors_are_terms_of_every_pass(case, rng):
    mixture, X, pseudo_statistics = with_prior(case, rng, solver="batch", max_iter=1)
    model = mixture.fit(X).model_
    expected, _ = batch_step(model, Rows(X), [(1.0 / len(X), pseudo_statistics(model))])
    assert_close(mixture.set_params(max_iter=2).fit(X).model_, expected, rtol=1e-9)
    without = clone(mixture).set_params(prior=None, weight_concentration_prior=None).fit(X)
    assert not np.allclose(without.weights_, mixture.weights_, rtol=1e-6)
    assert not np.allclose(without.means_, mixture.means_, rtol=1e-6)


@all_estimators
def test_the_log_posterior_is_the_log_likelihood_and_the_log_prior(case, rng):
    mixture, X, pseudo_statistics = with_prior(case, rng, solver="batch", max_iter=2)
    found = mixture.fit(X).log_posterior(X)
    log_prior = mixture.model_.expected_log_likelihood(pseudo_statistics(mixture.model_))
    assert_allclose(found, len(X) * mixture.score(X) + log_prior, rtol=1e-9)
    weight = rng.integers(1, 3, len(X))
    twice = mixture.log_posterior(np.repeat(X, weight, axis=0))
    assert_allclose(mixture.log_posterior(X, sample_weight=weight), twice, rtol=1e-9)
    assert mixture.set_params(max_iter=5).fit(X).log_posterior(X) >= found - 1e-9 * abs(found)


def test_the_log_prior_of_a_multinomial_mixture_is_that_of_dirichlets(rng):
    """Brochu, de Freitas & Bao: alpha of the weights, beta of the words."""
    X, alpha, beta = rng.poisson(4.0, (60, 4)), [1.5, 2.5, 1.2], 3.0
    mixtures = [
        MultinomialMixture(
            3, prior={"concentration": beta}, weight_concentration_prior=alpha, solver="batch",
            max_iter=n, tol=0.0, random_state=0,
        ).fit(X)
        for n in (1, 3)
    ]  # fmt: skip
    expected = [
        60 * m.score(X)
        + stats.dirichlet.logpdf(m.weights_, alpha)
        + sum(stats.dirichlet.logpdf(p, np.full(4, beta)) for p in m.probabilities_)
        for m in mixtures
    ]
    found = [m.log_posterior(X) for m in mixtures]
    assert_allclose(np.diff(found), np.diff(expected), rtol=1e-8)


@all_estimators
def test_priors_weigh_as_the_rows_of_a_stream_let_them(case, rng):
    """After n rows they weigh 1/n, however the rows were cut."""
    mixture, X, pseudo_statistics = with_prior(case, rng)
    model = mixture.partial_fit(X[:200]).model_
    mixture.partial_fit(X[200:])
    eta, prior = mixture.history_[-1].eta, pseudo_statistics(model)
    expected, _ = online_step(model, Rows(X[200:]), eta, [(1.0 / len(X), prior)])
    assert_close(mixture.model_, expected, rtol=1e-9)


def test_a_prior_that_takes_all_counts_keeps_the_weights():
    means = np.arange(1.0, 11.0)[:, None]
    mixture = PoissonMixture(10, weight_concentration_prior=1e-3, means_init=means)
    assert_allclose(mixture.partial_fit([[3.0]]).weights_.sum(), 1.0)


@pytest.mark.parametrize("value", ["2", None, [2, 3], np.ones(2)], ids=repr)
def test_tags_are_told_before_parameters_are_looked_at(value):
    mixture = PoissonMixture(n_components=value)
    assert get_tags(mixture).classifier_tags is None
    with pytest.raises(InvalidParameterError, match="n_components"):
        mixture.fit(np.ones((4, 1)))


def test_a_model_without_free_parameters_learns():
    X = np.full((3000, 1), 2.0)
    with pytest.warns(ConvergenceWarning, match="distinct"):
        mixture = MultinomialMixture(2, random_state=0).fit(X)
    assert np.isfinite(mixture.partial_fit(X[:5]).score(X))

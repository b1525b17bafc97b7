"""E-steps with a few candidates for each row."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import logsumexp, softmax

from sklearn_onlineem import GaussianHMM, GaussianMixture, PoissonMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Batch, Online, SplitMerge, Truncated
from sklearn_onlineem.families import Gaussian, Gaussians
from sklearn_onlineem.families.covariance_shapes import COVARIANCES
from sklearn_onlineem.models.mixture import MixtureModel
from sklearn_onlineem.models.truncated import Neighbourhoods, SparseEStep, TruncatedEStep

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

K = 30
ALL = [case for case in (*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES) if case.family.is_conjugate]
all_families = pytest.mark.parametrize("case", ALL, ids=repr)
all_covariances = pytest.mark.parametrize("kind", COVARIANCES)


def clusters(rng, n=1500, d=3, n_clusters=K):
    centres = 2.0 * rng.standard_normal((n_clusters, d))
    return centres[rng.integers(n_clusters, size=n)] + rng.standard_normal((n, d))


def gaussian_mixture(rng, X, kind, n_components=K):
    family = Gaussian(COVARIANCES[kind]).bind(X)
    covariance = np.tile(np.eye(X.shape[1]), (n_components, 1, 1))
    means = X[rng.choice(len(X), n_components, replace=False)].astype(float)
    parameters = Gaussians(means, family.covariance.from_matrices(covariance))
    if kind == "tied":
        parameters = Gaussians(means, parameters.covariance / n_components)
    return MixtureModel(family, np.full(n_components, 1.0 / n_components), parameters)


def after_passes(truncated, model, n_passes):
    bounds = []
    for _ in range(n_passes):
        statistics, bound = truncated.e_step(model)
        model = model.m_step(statistics)
        truncated.renewed(model)
        bounds.append(bound)
    return model, bounds


@all_families
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_have_the_mixtures_of_their_lists(case, weighted, rng):
    n_components, n = 6, 40
    family, X = case.family, case.rows(rng, n, 4)
    parameters = case.draw(rng, n_components, 4)
    log_weights = np.log(rng.dirichlet(np.ones(n_components)))
    weight = rng.uniform(0.5, 2.0, size=n) if weighted else None
    ends = np.array([15, 15, 29, n], dtype=np.intc)
    lists = np.array([[4, 0, 1], [2, 1, 0], [3, -1, 2], [5, 4, 0]], dtype=np.intc)
    group = np.repeat(np.arange(4), np.diff(ends, prepend=0))
    is_listed = (lists[group][:, :, None] == np.arange(n_components)).any(axis=1)
    joint = np.where(is_listed, family.log_density(parameters, X) + log_weights, -np.inf)
    shares = softmax(joint, axis=1)

    rows = Rows(X, weight)
    (counts, statistics), found, _ = family.in_groups(
        parameters, log_weights, rows, ends, lists, True
    )
    assert_close(found, logsumexp(joint, axis=1), rtol=1e-9, atol=1e-9)
    weighted_shares = shares if weight is None else shares * weight[:, None]
    expected = family.posterior_statistics(parameters, X, weighted_shares)
    assert_close(counts, weighted_shares.sum(axis=0))
    assert_close(statistics, expected, rtol=1e-8, atol=1e-8)

    none, found, listed = family.in_groups(parameters, log_weights, rows, ends, lists)
    assert none is None
    assert_close(found, logsumexp(joint, axis=1), rtol=1e-9, atol=1e-9)
    expected = np.take_along_axis(shares, np.maximum(lists[group], 0), axis=1)
    assert_close(listed, np.where(lists[group] >= 0, expected, 0.0), rtol=1e-8)


@all_covariances
def test_groups_of_single_precision(kind, rng):
    X = clusters(rng, 200).astype(np.float32)
    model = gaussian_mixture(rng, X, kind, 5)
    ends = np.array([120, 200], dtype=np.intc)
    lists = np.array([[0, 1, 2], [4, 2, 3]], dtype=np.intc)
    found, exact = (
        model.family.in_groups(model.parameters, model.log_weights, Rows(rows), ends, lists, True)
        for rows in (X, X.astype(float))
    )
    assert_allclose(found[1], exact[1], rtol=1e-4)
    assert_close(found[0], exact[0], rtol=1e-3, atol=1e-3)


@all_covariances
@pytest.mark.parametrize("n_candidates", [1, 3, 10])
def test_the_bound_never_falls(kind, n_candidates, rng):
    X = clusters(rng)
    rows = Rows(X, rng.uniform(0.5, 2.0, size=len(X)))
    model, bounds = gaussian_mixture(rng, X, kind), []
    truncated = TruncatedEStep(model, rows, n_candidates, rng)
    for _ in range(25):
        statistics, bound = truncated.e_step(model)
        assert_allclose(statistics.counts.sum(), 1.0)
        assert bound <= model.e_step(rows)[1] + 1e-12
        model = model.m_step(statistics)
        truncated.renewed(model)
        bounds.append(bound)
    # The M-step adds a floor, and so is not quite the maximiser.
    assert np.diff(bounds).min() > -1e-6
    assert bounds[-1] > bounds[0] + 0.1


@all_covariances
def test_it_comes_near_the_likelihood_of_all_components(kind, rng):
    X = clusters(rng, n=8000, n_clusters=200)
    settings = {"max_iter": 15, "tol": 0.0, "random_state": 0, "covariance_type": kind}
    few = GaussianMixture(200, solver=Truncated(24), **settings).fit(X)
    every = GaussianMixture(200, solver="batch", **settings).fit(X)
    assert few.score(X) > every.score(X) - 0.02
    assert few.lower_bounds_[-1] <= few.score(X)


@pytest.mark.parametrize("kind", [*COVARIANCES, "counts"])
@pytest.mark.parametrize("n_candidates", [2, 6])
def test_passes_of_a_fit_never_lower_the_bound(kind, n_candidates, rng):
    """Nor do quasi-Newton steps, between which candidates change."""
    X, weight = clusters(rng, n=3000), rng.uniform(0.5, 2.0, size=3000)
    # So few that none has the floor of variances, which is no part of the bound.
    mixture = GaussianMixture(12, covariance_type=kind)
    if kind == "counts":
        X, mixture = rng.poisson(X**2), PoissonMixture(12, prior=None)
    mixture.set_params(max_iter=1000, random_state=0, solver=Truncated(n_candidates))
    mixture.fit(X, sample_weight=weight)
    assert mixture.converged_
    assert np.diff(mixture.lower_bounds_).min() > -1e-6
    assert mixture.lower_bounds_[-1] <= np.average(mixture.score_samples(X), weights=weight) + 1e-12


def test_homes_that_all_rows_left_are_found_again(rng):
    """A start that is wrong everywhere: rows find their components through neighbours."""
    X = clusters(rng, n=3000)
    model = gaussian_mixture(rng, X, "spherical")
    truncated = TruncatedEStep(model, Rows(X), 4, rng)
    truncated._homes[:] = rng.integers(K, size=len(X))
    model, bounds = after_passes(truncated, model, 30)
    assert bounds[-1] > model.e_step(Rows(X))[1] - 0.2


@all_covariances
def test_no_bit_depends_on_the_number_of_threads(kind, rng):
    X = clusters(rng, n=8000)
    mixture = GaussianMixture(K, covariance_type=kind, max_iter=5, solver=Truncated(5))
    one, three = (mixture.set_params(n_jobs=n, random_state=0).fit(X).model_ for n in (1, 3))
    assert_identical(one, three)


def test_no_array_has_all_rows_and_components(rng):
    n, n_components = 60_000, 600
    X = clusters(rng, n=n, d=2, n_clusters=n_components)
    solver = Truncated(8)
    mixture = GaussianMixture(n_components, solver=solver, max_iter=2, random_state=0)
    tracemalloc.start()
    mixture.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n_components * 8 / 4


def test_streams_of_few_components_look_at_all(rng):
    X = clusters(rng)
    few = GaussianMixture(3, solver=Truncated(2), random_state=0)
    every = GaussianMixture(3, solver="online", random_state=0)
    for start in range(0, 1500, 300):
        few.partial_fit(X[start : start + 300])
        every.partial_fit(X[start : start + 300])
    assert_identical(few.model_, every.model_)


@pytest.fixture
def few_are_many(monkeypatch):
    """Streams of few components are truncated, too."""
    monkeypatch.setattr("sklearn_onlineem.em.solvers.truncated._LEAST_COMPONENTS", 2)


def streamed(estimator, X, weight=None, size=50):
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        estimator.partial_fit(X[part], sample_weight=None if weight is None else weight[part])
    return estimator


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_streams_with_all_candidates_take_online_steps(case, weighted, rng):
    X = case.data(rng)[0]
    weight = rng.integers(0, 3, size=len(X)).astype(float) if weighted else None
    few, every = (
        streamed(case(solver=solver, prior=None, eta0=0.5), X, weight, size=20)
        for solver in (Truncated(100), Online())
    )
    assert_close(few.model_.weights, every.model_.weights, rtol=1e-9)
    assert_close(few.model_.parameters, every.model_.parameters, rtol=1e-7, atol=1e-9)
    found, expected = ([step[1:4] for step in each.history_] for each in (few, every))
    assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_neighbours_are_the_likeliest_components(rng):
    """A wide one, and not only those with the nearest means."""
    means = rng.normal(np.repeat([[0.0, 0.0], [3.0, 0.0], [-30.0, 0.0]], [1, 24, 200], axis=0), 0.1)
    variances, weights = np.full(means.shape, 1e-4), np.full(225, 0.5 / 224)
    variances[0], weights[0] = 4.0, 0.5
    model = MixtureModel(Gaussian(COVARIANCES["diag"]), weights, Gaussians(means, variances))
    near = Neighbourhoods.of(model, 10, Rows(model.sample(4000, rng)[0]))
    homes = near.homes(model.family, rng.normal(0.0, 2.0, (500, 2)))
    assert (near.near.neighbours(10)[homes] == 0).any(axis=1).mean() < 0.7
    assert (near.lists[homes] == 0).any(axis=1).mean() > 0.8


@pytest.mark.usefixtures("few_are_many")
@all_covariances
def test_streams_come_near_those_of_all_components(kind, rng):
    X = clusters(rng, n=9000, n_clusters=200)
    settings = {"covariance_type": kind, "random_state": 0, "max_iter": 2, "tol": 0.0}
    start = GaussianMixture(200, solver="batch", **settings).fit(X[:3000])
    few, every = (
        streamed(copy.deepcopy(start).set_params(solver=solver), X[3000:8000])
        for solver in (Truncated(16), Online())
    )
    assert every.score(X[8000:]) > start.score(X[8000:])
    assert few.score(X[8000:]) > every.score(X[8000:]) - 0.01


@pytest.mark.usefixtures("few_are_many")
def test_a_step_of_a_stream_leaves_components_far_away(rng):
    X = clusters(rng, n=2000, n_clusters=200)
    mixture = GaussianMixture(200, solver=Truncated(3), max_iter=1, random_state=0).fit(X)
    before = mixture.model_
    after = mixture.partial_fit(X[:1]).model_
    stay = (after.parameters.mean == before.parameters.mean).all(axis=1)
    assert stay.sum() == 197
    ratios = after.weights[stay] / before.weights[stay]
    assert_allclose(ratios, ratios[0])
    assert ratios[0] < 1.0
    assert_allclose(after.weights.sum(), 1.0)


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("n_threads", [1, 3])
def test_streams_go_on_from_a_pickle(n_threads, rng):
    """To the bit, and on any number of threads."""
    X = clusters(rng, n=6000)
    estimator = GaussianMixture(K, solver=Truncated(5), random_state=0).partial_fit(X[:3000])
    loaded = pickle.loads(pickle.dumps(streamed(estimator, X[3000:4000])))
    loaded.set_params(n_jobs=n_threads)
    assert_identical(streamed(estimator, X[4000:]).model_, streamed(loaded, X[4000:]).model_)


def test_what_it_cannot_fit_is_refused(rng):
    X, solver = clusters(rng, 200), Truncated(2)
    with pytest.raises(ValueError, match="has no components of independent rows"):
        GaussianHMM(2, solver=solver).fit(X)
    gaps = X.copy()
    gaps[0, 0] = np.nan
    with pytest.raises(ValueError, match="without missing values"):
        GaussianMixture(2, solver=solver).fit(gaps)
    with pytest.raises(ValueError, match="without known components"):
        GaussianMixture(2, solver=solver, semi_supervised=True).fit(X, np.zeros(200, dtype=int))


@pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_with_all_candidates_it_is_batch_em_or_says_why_not(case, container, weighted, rng):
    X = case.data(rng)[0]
    weight = rng.uniform(0.5, 2.0, size=len(X)) if weighted else None
    settings = {"max_iter": 4, "tol": 0.0, "prior": None}
    every = case(solver=Batch(acceleration=None), **settings).fit(X, sample_weight=weight)
    if container is sparse.csr_array and every.model_.family.takes_sparse:
        X = container(X)
        every.fit(X, sample_weight=weight)
    estimator = case(solver=Truncated(100), **settings)
    if not every.model_.is_conjugate:
        with pytest.raises(ValueError, match="needs statistics of fixed size"):
            estimator.fit(X)
        return
    estimator.fit(X, sample_weight=weight)
    assert_allclose(estimator.lower_bounds_, every.lower_bounds_, rtol=1e-8)
    assert_close(estimator.model_.parameters, every.model_.parameters, rtol=1e-5, atol=1e-7)
    assert np.isfinite(case(solver=Truncated(1), **settings).fit(X).score(X))


@pytest.mark.parametrize(
    ("ends", "lists"),
    [
        ([], [[0]]),
        ([6], np.empty((1, 0))),
        ([5], [[0]]),
        ([4, 2, 6], [[0], [1], [0]]),
        ([6], [[2]]),
        ([6], [[-2]]),
        ([3, 6], [[0]]),
    ],
)
def test_groups_that_do_not_fit_are_refused(ends, lists, rng):
    X = rng.standard_normal((6, 2))
    model = gaussian_mixture(rng, X, "full", 2)
    ends, lists = np.array(ends, dtype=np.intc), np.array(lists, dtype=np.intc)
    with pytest.raises(ValueError, match="kernel"):
        model.family.in_groups(model.parameters, model.log_weights, Rows(X), ends, lists, True)


@pytest.fixture
def may_overlap(monkeypatch):
    """A few candidates of each row may have any share of it."""
    monkeypatch.setattr("sklearn_onlineem.models.truncated._LEAST_SHARE", 0.0)


@pytest.fixture
def is_sparse(may_overlap, monkeypatch):
    """Default fits of few components take sparse passes, too, of few candidates."""
    for name, value in {"_MANY": 8, "_PARAMETERS": 0, "_SPARSE_CANDIDATES": 3}.items():
        monkeypatch.setattr(f"sklearn_onlineem.em.solvers.truncated.{name}", value)


@pytest.mark.usefixtures("may_overlap")
@all_covariances
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_candidates", [1, 3, 100])
def test_sparse_passes_bound_the_likelihood_and_touch_it(kind, weighted, n_candidates, rng):
    X = clusters(rng)
    weight = rng.integers(0, 3, size=len(X)).astype(float) if weighted else None
    rows, model = Rows(X, weight), gaussian_mixture(rng, X, kind)
    sparse, bounds = SparseEStep(model, rows, n_candidates, rng), []
    for n in range(40):
        statistics, bound = sparse.e_step(model)
        every, log_likelihood = model.e_step(rows)
        if n % 16 == 0:
            assert_allclose(bound, log_likelihood, rtol=1e-13)
            assert_close(statistics.counts, every.counts)
            assert_close(statistics.emissions, every.emissions, rtol=1e-8, atol=1e-10)
        assert bound <= log_likelihood + 1e-12
        model = model.m_step(statistics)
        assert sparse.renewed(model) == (n % 16 == 15)
        bounds.append(bound)
    # The M-step adds a floor, and so is not quite the maximiser.
    assert np.diff(bounds).min() > -1e-6
    assert (bounds[-1] == pytest.approx(log_likelihood, abs=1e-12)) == (n_candidates == 100)


@pytest.mark.usefixtures("may_overlap")
def test_sparse_passes_end_after_one_that_has_seen_all(rng):
    X = clusters(rng)
    model = gaussian_mixture(rng, X, "diag")
    sparse = SparseEStep(model, Rows(X), 3, rng)
    assert [sparse.renewed(model, True) for _ in range(8)] == 2 * [False, False, False, True]


@pytest.mark.usefixtures("is_sparse")
@all_covariances
def test_default_fits_with_sparse_passes_are_at_a_maximum(kind, rng):
    """A pass of batch EM gains less than what may be left where a fit ends, on any threads."""
    X = clusters(rng, n=6000)
    mixture, other = (
        GaussianMixture(K, covariance_type=kind, n_jobs=n, random_state=0).fit(X) for n in (1, 3)
    )
    assert_identical(mixture.model_, other.model_)
    bounds, before, rows = mixture.lower_bounds_, mixture.model_, Rows(X)
    statistics, log_likelihood = before.e_step(rows)
    gain = before.m_step(statistics).e_step(rows)[1] - log_likelihood
    assert mixture.converged_
    assert gain < 0.5 * 0.1**2 * before.n_parameters() / len(X)
    assert log_likelihood - 1e-4 < bounds[-1] < log_likelihood + 1e-9
    assert np.diff(bounds[-20:]).min() > -1e-6


@pytest.mark.usefixtures("is_sparse")
@pytest.mark.parametrize("settings", [{}, {"weight_concentration_prior": 20.0}], ids=repr)
def test_default_fits_with_sparse_passes_are_as_likely(settings, rng, monkeypatch):
    X = clusters(rng, n=4000)
    sparse = GaussianMixture(K, random_state=0, **settings).fit(X)
    monkeypatch.setattr("sklearn_onlineem.em.solvers.truncated._MANY", 1000)
    every = GaussianMixture(K, random_state=0, **settings).fit(X)
    assert sparse.lower_bounds_ != every.lower_bounds_
    assert sparse.score(X) > every.score(X) - 0.01


@pytest.mark.usefixtures("is_sparse")
@pytest.mark.parametrize(
    "case", ["missing", "labels", "removing prior", "counts", "tol=0", "overlap"]
)
def test_other_default_fits_have_all_components(case, rng, monkeypatch):
    X, y = clusters(rng, n=1000), None
    mixture = GaussianMixture(K, covariance_type="diag", random_state=0, max_iter=20)
    if case == "missing":
        X[0, 0] = np.nan
    elif case == "labels":
        mixture.set_params(semi_supervised=True)
        y = np.arange(1000) % K
    elif case == "removing prior":
        mixture.set_params(weight_concentration_prior=0.9)
    elif case == "counts":
        X, mixture = rng.poisson(X**2), PoissonMixture(K, random_state=0, max_iter=20)
    elif case == "tol=0":
        mixture.set_params(tol=0.0)
    else:
        monkeypatch.setattr("sklearn_onlineem.models.truncated._LEAST_SHARE", 0.98)
        X = rng.standard_normal((1000, 3))
    monkeypatch.setattr(SparseEStep, "e_step", None)
    assert np.isfinite(mixture.fit(X, y).lower_bounds_[-1])


@pytest.mark.usefixtures("is_sparse")
@pytest.mark.parametrize("n_before", [0, 5, 20])
def test_callbacks_that_fail_in_sparse_passes_leave_the_estimator(n_before, rng, monkeypatch):
    def fails(step):
        steps.append(step)
        if len(steps) > n_before:
            raise ValueError("no more")

    X, steps = clusters(rng), []
    # Such fits have no turns, and Batch would take passes over all components.
    monkeypatch.setattr("sklearn_onlineem.em.solvers.truncated.Batch", None)
    solver = SplitMerge(n_components="fixed")
    mixture = GaussianMixture(K, solver=solver, random_state=0, callbacks=[fails])
    with pytest.raises(ValueError, match="no more"):
        mixture.fit(X)
    assert len(steps) == n_before + 1 and not hasattr(mixture, "history_")

"""Fits without a pass, and fits that go on from another one pass by pass."""

import copy
import pickle

import numpy as np
import pytest
from cases.comparing import arrays, assert_identical
from cases.estimator_cases import (
    ESTIMATORS,
    EstimatorCase,
    by_likelihood,
    document_clusters,
    normal_clusters,
)
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS

from sklearn_onlineem import (
    CompoundDirichlet,
    EditDistance,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    PoissonMixture,
)
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import BayesianOnline, Gibbs
from sklearn_onlineem.models.kalman.linear_dynamical import FIELDS


def learner(kind, data, **arguments):
    """A case of an estimator with data of its own."""

    def make(n, **given):
        return kind(**given)

    return EstimatorCase(make, lambda rng, y: data, arguments, kind.__name__)


PAIRS = [("ab", "a"), ("b", "ab"), ("ba", "b"), ("abba", "aba")]
DOCUMENTS = document_clusters(np.random.default_rng(0), np.arange(300) % 3)
CASES = [
    *ESTIMATORS,
    *SEQUENCE_ESTIMATORS,
    *KALMAN_FILTERS,
    learner(CompoundDirichlet, DOCUMENTS),
    learner(LatentDirichletAllocation, DOCUMENTS, n_components=3),
    learner(EditDistance, PAIRS),
]
all_estimators = pytest.mark.parametrize("case", CASES, ids=repr)
without_priors = pytest.mark.parametrize("case", by_likelihood(CASES), ids=repr)


@all_estimators
@pytest.mark.filterwarnings("error::UserWarning")
def test_no_pass_is_the_start_alone(case, rng, capsys):
    data, _ = case.data(rng)
    estimator = case(max_iter=0, verbose=1).fit(data)
    assert "nothing is learnt" in capsys.readouterr().out
    assert (estimator.n_iter_, estimator.converged_, estimator.n_steps_) == (0, False, 0)
    assert estimator.n_samples_seen_ == 0
    assert (list(estimator.history_), estimator.lower_bounds_) == ([], [])
    assert np.isnan(estimator.lower_bound_)
    assert np.isfinite(estimator.score(data))
    estimator.sample(3)
    assert_identical(arrays(pickle.loads(pickle.dumps(estimator)).model_), arrays(estimator.model_))


@without_priors
def test_what_follows_begins_there(case, rng):
    data, _ = case.data(rng)
    batch = {} if case(max_iter=0).solver == "online" else {"solver": "batch"}
    at_once = case(max_iter=2, tol=0.0, **batch).fit(data)
    start = case(max_iter=0, tol=0.0, **batch).fit(data)
    first = start.score(data)
    start.set_params(max_iter=2, warm_start=True).fit(data)
    assert start.n_iter_ == 2 and start.n_samples_seen_ == at_once.n_samples_seen_
    if batch:
        assert_identical(arrays(start.model_), arrays(at_once.model_))
    streamed = case(max_iter=0, tol=0.0).fit(data).partial_fit(data)
    assert streamed.n_steps_ == 1
    assert streamed.score(data) > first - 1e-9 or not batch
    before = arrays(streamed.model_)
    streamed.set_params(warm_start=True).fit(data)
    assert_identical(arrays(streamed.model_), before)


# Parameters that say which parts are learnt, and their values for none.
NOTHING = {"params": "", "em_vars": []}
RELEARNT = [
    (case, name)
    for case in CASES
    for name in NOTHING
    if name in case().get_params(deep=False)
    # Masks say it of the arrays that they are of, and structures of all.
    # Masks say it of the arrays that they are of, and structures of all.
    if not (case.is_diffuse or (name == "em_vars" and case().params))
]


@pytest.mark.parametrize(("case", "name"), RELEARNT, ids=repr)
def test_a_fit_that_goes_on_learns_what_parameters_now_say(case, name, rng):
    data, _ = case.data(rng, 60)
    once = case(max_iter=1, tol=0.0, solver="batch", warm_start=True).fit(data)
    stopped, before = copy.deepcopy(once), once.score_samples(data)
    every = getattr(stopped, name)
    is_system = isinstance(stopped, KalmanFilter) and name == "params"
    stopped.set_params(**{name: dict.fromkeys(FIELDS, False) if is_system else NOTHING[name]})
    with pytest.raises(ValueError, match=f"(?s){name}=.*call fit again"):
        stopped.partial_fit(data)
    for _ in range(2):
        assert stopped.fit(data).model_.n_parameters() == 0
        np.testing.assert_array_equal(stopped.score_samples(data), before)
    stopped.set_params(**{name: every}).fit(data)
    assert_identical(arrays(stopped.model_), arrays(once.fit(data).model_))


@pytest.mark.parametrize("solver", [BayesianOnline(), Gibbs()], ids=repr)
def test_other_solvers_make_no_pass_either(solver, rng):
    X = rng.poisson(3.0, (60, 2))
    arguments = {"prior": {"rate": 1.0, "shape": 2.0}, "random_state": 0}
    mixture = PoissonMixture(2, solver=solver, max_iter=0, **arguments).fit(X)
    assert mixture.n_iter_ == 0 and not hasattr(mixture, "chains_")
    assert np.isfinite(mixture.partial_fit(X).score(X))


def test_a_cluster_of_machines_makes_no_pass_either(rng):
    X = rng.poisson(3.0, (60, 2))
    mixture = PoissonMixture(2, max_iter=0, random_state=0)
    learner = DistributedEM(mixture, n_shards=2, mode="batch").fit(X)
    assert learner.estimator_.n_iter_ == 0
    assert np.isfinite(learner.score(X))


@without_priors
@pytest.mark.parametrize("batch_size", [50, 10_000])
def test_fits_of_one_pass_notice_convergence(case, batch_size, rng):
    data, _ = case.data(rng)
    arguments = {"tol": 0.05, "batch_size": batch_size, "solver": "auto"}
    if isinstance(case(), LatentDirichletAllocation):
        arguments |= {"solver": "online", "e_step": "map"}
    estimator = case(max_iter=1, warm_start=True, **arguments)
    bounds = []
    while not bounds or not estimator.converged_:
        bounds.append(estimator.fit(data).lower_bound_)
        assert estimator.n_iter_ == 1 and len(bounds) < 200
    assert len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < 0.05
    changes = np.abs(np.diff(bounds[:-1]))
    assert (changes >= 0.05).all()


@pytest.mark.parametrize("max_iter", [1, 2, 50])
def test_convergence_is_noticed_whatever_the_passes_of_a_fit(max_iter, rng):
    X = normal_clusters(rng, np.arange(300) % 3)
    mixture = GaussianMixture(3, warm_start=True, max_iter=max_iter, random_state=0, tol=1e-6)
    passes = 0
    while not passes or not mixture.converged_:
        passes += mixture.fit(X).n_iter_
        assert passes < 200
    at_once = GaussianMixture(3, random_state=0, tol=1e-6).fit(X)
    assert passes == at_once.n_iter_
    assert_identical(arrays(mixture.model_), arrays(at_once.model_))

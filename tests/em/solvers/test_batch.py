"""Batch EM that is accelerated ends at the same maxima as other optimisers do, and sooner."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from cases.chains import CHAINS
from cases.comparing import assert_identical
from cases.coordinates import DynamicalCoordinates, coordinates
from cases.dynamical import DYNAMICAL
from cases.mixture_cases import MIXTURES
from cases.transducers import TRANSDUCERS
from scipy.optimize import minimize
from sklearn.base import clone

from benchmarks.real_data.certified import KINDS
from sklearn_onlineem import (
    BernoulliMixture,
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    PoissonMixture,
)
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Batch
from sklearn_onlineem.em.certificate import Certificate, newton_step
from sklearn_onlineem.em.loop import Progress, run
from sklearn_onlineem.em.quasi_newton import Evaluation, QuasiNewton
from sklearn_onlineem.em.solvers import Plan
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.stopping import LikelihoodStopping, StandardErrorStopping
from sklearn_onlineem.families import Laplace
from sklearn_onlineem.families.tangents import raised_rows
from sklearn_onlineem.models.coordinates import has_coordinates
from sklearn_onlineem.models.strings.operations import FullOperations
from sklearn_onlineem.models.terminations import EndState, GivenLength

PLAIN = Batch(acceleration=None)


def plan_of(rule):
    return Plan(None, 1, lambda is_exact=True: rule, None)


def fitted(model, data, prior):
    """The progress of a fit to the last digits."""
    progress = Progress(State(model, prior=prior))
    run(Batch().passes(progress, data, plan_of(LikelihoodStopping(1e-13))), progress, 3000)
    return progress


def has_place(case):
    """Whether models of a case move in coordinates of ours and in unconstrained ones."""
    termination = getattr(case, "termination", None)
    if isinstance(case.case.family, Laplace):
        return False
    return termination in (None, EndState, GivenLength) and has_coordinates(
        case.draw(np.random.default_rng(0))
    )


CASES = [*(case for case in (*MIXTURES, *CHAINS) if has_place(case)), *TRANSDUCERS]


def problem(case, seed):
    """A random model to start from, data, and a prior."""
    rng = np.random.default_rng(seed)
    sizes = (1, 1) if case in DYNAMICAL else (2, 2)
    model, data = case.draw(rng, *sizes), case.data(rng, 100, sizes[1])
    return model, data, case.prior(model, data.n_features, 2.5)


def maximum_near(place, model, data, prior):
    """The largest objective that a general optimiser finds from a model that is moved a little."""
    share = 0.0 if prior is None else 1.0 / data.total_weight

    def loss(x):
        try:
            there = place.decode(x)
            value = there.e_step(data)[1]
            if prior is not None:
                value += share * there.expected_log_likelihood(prior)
        except (ValueError, FloatingPointError):
            return 1e10
        return -value if np.isfinite(value) else 1e10

    x = place.encode(model)
    nudged = x + 1e-2 * np.random.default_rng(0).standard_normal(len(x))
    with np.errstate(all="ignore"):
        return max(-minimize(loss, start, method="BFGS").fun for start in (x, nudged))


def objective(progress, data):
    """What batch EM maximises, of the model of a fit."""
    model, prior = progress.state.model, progress.state.prior
    value = model.e_step(data)[1]
    if prior is not None:
        value += model.expected_log_likelihood(prior) / data.total_weight
    return value


# General optimisers of all cases take a tenth of the time of the other tests together.
@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 4, 5))]
)
@pytest.mark.parametrize("case", [*CASES, *(c for c in DYNAMICAL if c.fixed is None)], ids=repr)
def test_it_ends_at_the_maximum_of_a_general_optimiser(case, seed):
    model, data, prior = problem(case, seed)
    progress = fitted(model, data, prior)
    found = progress.state.model
    place = DynamicalCoordinates(found) if case in DYNAMICAL else coordinates(case, found)
    best = maximum_near(place, found, data, prior)
    assert abs(best - objective(progress, data)) < 1e-6


@pytest.mark.parametrize("has_prior", [False, True])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("case", TRANSDUCERS, ids=repr)
def test_no_probability_that_is_near_zero_is_left_behind(case, seed, has_prior, monkeypatch):
    # From the fourth pass on, however fast EM is.
    monkeypatch.setattr("sklearn_onlineem.em.quasi_newton._FEW_PASSES", 0.0)
    model, data, prior = problem(case, seed)
    progress = fitted(model, data, prior if has_prior else None)
    found, value = progress.state.model, objective(progress, data)
    inside = replace(found, probabilities=0.99 * found.probabilities + 0.01 * model.probabilities)
    best = maximum_near(coordinates(case, model), inside, data, prior if has_prior else None)
    assert -1e-3 < best - value < 1e-6
    if not has_prior and isinstance(model.operations, FullOperations):
        assert (found.probabilities < 1e-8).any()


LATENT_CLASSES = [("categorical", number) for number in (2, 29, 97, 112, 118, 243)]


@pytest.mark.parametrize("kind, number", [*LATENT_CLASSES, ("poisson", 73), ("poisson", 78)])
def test_em_raises_nothing_that_a_fit_leaves_near_zero(kind, number):
    """Nor where all that would rise cannot do so together, or one has negative curvature."""
    mixture, data = KINDS[kind](np.random.default_rng([number, list(KINDS).index(kind)]))
    found = mixture.set_params(random_state=0).fit(**data).score(**data)
    assert mixture.converged_
    mixture.set_params(solver=PLAIN, tol=0.0, max_iter=400, warm_start=True).fit(**data)
    left = len(data["X"]) * (mixture.score(**data) - found)
    assert left < 0.005 * mixture.model_.n_parameters()


@pytest.mark.parametrize("is_one, risen", [(False, [1, 2]), (True, [2])])
def test_the_smallest_numbers_rise_too(is_one, risen):
    p, after = np.array([[0.9, 5e-324, 1e-9, 0.0]]), np.array([[0.9, 1e-323, 1e-8, 0.0]])
    with np.errstate(all="raise", under="ignore"):
        rows = raised_rows(p, after, (is_one, 0.5))
    assert np.flatnonzero(rows != p).tolist() == risen
    assert (rows[0, risen] == 0.5 * p.mean()).all()


@pytest.mark.parametrize("has_prior", [False, True])
@pytest.mark.parametrize("case", [*CASES, *DYNAMICAL], ids=repr)
def test_no_step_lowers_the_objective(case, has_prior):
    model, data, prior = problem(case, 7)
    progress = Progress(State(model, prior=prior if has_prior else None))
    plan, values = plan_of(LikelihoodStopping(1e-13)), [objective(progress, data)]
    for _ in islice(Batch().passes(progress, data, plan), 60):
        values.append(objective(progress, data))
    # A floor under variances costs a little.
    assert min(after - before for before, after in pairwise(values)) > -1e-9


def random_walk(rng, n=1000):
    walk = 0.1 * rng.standard_normal(n).cumsum() + rng.standard_normal(n)
    return walk[:, None]


LEVEL = {
    "transition_matrices": [[1.0]],
    "observation_matrices": [[1.0]],
    "em_vars": ["transition_covariance", "observation_covariance"],
    "solver": "batch",
}


def test_a_slow_fit_takes_few_passes(rng):
    X = random_walk(rng)
    ours = KalmanFilter(1, **LEVEL).fit(X)
    plain = KalmanFilter(1, **LEVEL | {"solver": PLAIN, "tol": 1e-9, "max_iter": 10_000}).fit(X)
    assert ours.n_iter_ < 40 < 200 < plain.n_iter_
    assert abs(ours.score(X) - plain.score(X)) < 1e-3
    np.testing.assert_allclose(ours.transition_covariance_, plain.transition_covariance_, rtol=0.02)
    # Steps that were not taken have read the rows, too.
    assert ours.history_[-1].n_rows >= ours.n_iter_ * len(X)


def test_missing_values_and_known_parameters(rng):
    X = random_walk(rng)
    X[rng.random(len(X)) < 0.3] = np.nan
    ours, plain = (
        KalmanFilter(1, **LEVEL | settings).fit(X)
        for settings in ({"tol": 1e-9}, {"solver": PLAIN, "tol": 1e-11, "max_iter": 20_000})
    )
    np.testing.assert_allclose(ours.transition_covariance_, plain.transition_covariance_, rtol=1e-4)
    assert ours.transition_matrices_ == [[1.0]] and ours.n_iter_ < 100


def overlapping(rng):
    return rng.normal(size=(4000, 2)) + 1.0 * rng.integers(0, 2, size=(4000, 1))


def unlike(rng, n=2000):
    """Pairs of strings that have nothing in common."""
    words = ["".join(rng.choice(list("abcd"), size)) for size in rng.integers(3, 9, 2 * n)]
    return list(zip(words[:n], words[n:], strict=True))


@pytest.mark.parametrize("kind", [GaussianMixture, GaussianHMM, EditDistance])
def test_threads_and_shards_change_nothing(kind, rng):
    X = unlike(rng) if kind is EditDistance else overlapping(rng)
    X = list(X.reshape(200, 20, 2)) if kind is GaussianHMM else X
    settings = {"random_state": 0, "solver": "batch"}
    settings |= {} if kind is EditDistance else {"n_components": 2}
    alone, threads = (kind(n_jobs=n_jobs, **settings).fit(X) for n_jobs in (1, 3))
    plain = kind(**settings | {"solver": PLAIN, "max_iter": alone.n_iter_, "tol": 0.0}).fit(X)
    assert 10 < alone.n_iter_ < 200
    # States are told apart fast enough.
    assert kind is GaussianHMM or alone.lower_bounds_ != plain.lower_bounds_
    assert_identical(alone.model_, threads.model_)
    shards = DistributedEM(kind(**settings), mode="batch", n_shards=3).fit(X).estimator_
    assert shards.converged_ and shards.n_iter_ < 200
    np.testing.assert_allclose(shards.score(X), alone.score(X), atol=1e-4)


def test_a_number_of_passes_are_passes_of_em(rng):
    X = overlapping(rng)
    ours, plain = (
        GaussianMixture(3, solver=solver, tol=0.0, max_iter=60, random_state=0).fit(X)
        for solver in (Batch(), PLAIN)
    )
    assert_identical(ours.model_, plain.model_)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", [*CASES, *DYNAMICAL], ids=repr)
def test_a_fit_that_has_converged_is_near_the_maximum(case, seed):
    """Of data that a model has drawn."""
    model, data, prior = problem(case, seed)
    data = model.pseudo_data(500, np.random.default_rng(seed), like=data).unlabelled
    rule = StandardErrorStopping(data.total_weight, model.n_parameters())
    progress = Progress(State(model, prior=prior))
    run(Batch().passes(progress, data, plan_of(rule)), progress, 1000)
    assert progress.converged
    gain = objective(fitted(progress.state.model, data, prior), data) - objective(progress, data)
    # In root mean square.
    assert 2.0 * gain * data.total_weight / model.n_parameters() < 0.1**2


def test_weighted_rows_take_the_passes_of_repeated_ones(rng):
    for _ in range(3):
        X = rng.normal(1.5 * rng.integers(0, 2, (150, 1)), size=(150, 2))
        start = {"means_init": X[:2], "weights_init": [0.5] * 2, "precisions_init": [np.eye(2)] * 2}
        mixture = GaussianMixture(2, solver="batch", n_init=1, **start)
        n_passes = mixture.fit(X, sample_weight=np.full(150, 40.0)).n_iter_
        assert mixture.fit(np.repeat(X, 40, axis=0)).n_iter_ == pytest.approx(n_passes, abs=2)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_newton_step_is_that_of_the_hessian(case):
    model, data, prior = problem(case, 3)
    rng, model = np.random.default_rng(3), fitted(model, data, prior).state.model
    terms = () if prior is None else ((1.0 / data.total_weight, prior),)

    def evaluate(model):
        return Evaluation(model, *model.e_step(data), terms, data)

    def unit_score(statistics):
        return coordinates.unit_score(coordinates.score(statistics)).ravel()

    def product(x):
        v = coordinates.direction(x.reshape(coordinates.shape))
        length = 1e-4 / max(coordinates.size(v), 1e-4)
        ahead, behind = (
            unit_score(evaluate(coordinates.moved(sign * length * v)).evidence) for sign in (1, -1)
        )
        return x - (ahead - behind) / (2.0 * length)

    coordinates = evaluate(model).coordinates
    v = coordinates.direction(rng.standard_normal(coordinates.shape))
    here = evaluate(coordinates.moved(0.02 / coordinates.size(v) * v))
    coordinates = here.coordinates
    score = unit_score(here.statistics)
    hessian = np.array([product(unit) for unit in np.eye(len(score))])
    found = newton_step(here, evaluate, QuasiNewton(), 1e-3, fewest=40)
    expected = 0.5 * score @ np.linalg.solve(hessian, score)
    assert not found.is_saddle and found.gain == pytest.approx(expected, rel=0.02, abs=1e-9)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_step_that_gains_what_it_promised_has_led_to_the_maximum(case):
    model, data, prior = problem(case, 3)
    terms = () if prior is None else ((1.0 / data.total_weight, prior),)

    def evaluate(model):
        return Evaluation(model, *model.e_step(data), terms, data)

    best, rng = evaluate(fitted(model, data, prior).state.model), np.random.default_rng(3)
    v = best.coordinates.direction(rng.standard_normal(best.coordinates.shape))
    here = evaluate(best.coordinates.moved(0.02 / best.coordinates.size(v) * v))
    rule = StandardErrorStopping(data.total_weight, model.n_parameters())
    left = best.objective - here.objective
    rule.errors *= np.sqrt(2.0 * left / rule.tol)
    certificate = Certificate(rule, QuasiNewton(is_open=True))
    _, there = certificate.holds(here, evaluate)
    if there is certificate.sure:
        # The certificate says what is left: the difference of the promise and the gain.
        assert certificate.gain < 0.02 * left
        assert best.objective - there.objective < 0.02 * left
    # Where nothing is left, no step is worth a read.
    certificate.gain = 0.0
    assert certificate.holds(best, evaluate) == (True, best)


def test_steps_below_rounding_are_those_of_em(rng):
    """Where EM stands still, but for the last digits of the score."""
    X = Rows(rng.normal(3.0 * rng.integers(2, size=(50, 1)), size=(50, 2)))
    model, models = GaussianMixture(2, solver=PLAIN, tol=0.0, max_iter=3000).fit(X.X).model_, []

    def evaluate(model):
        models.append(model)
        return Evaluation(model, *model.e_step(X), (), X)

    here = evaluate(model)
    QuasiNewton().step(here, evaluate)
    assert len(models) == 2 and models[1] is here.stepped


@pytest.mark.parametrize("solver", ["auto", PLAIN], ids=["auto", "plain"])
@pytest.mark.parametrize(
    "estimator",
    [
        GaussianMixture(2, means_init=[[0.5], [0.5]]),
        PoissonMixture(2, means_init=[[1.0], [3.0]], weights_init=[1 - 1e-9, 1e-9], prior=None),
        PoissonMixture(2, means_init=[[1e-9, 2.0], [2.0, 2.0]], prior=None),
    ],
    ids=["equal components", "a weight near zero", "a rate near zero"],
)
def test_saddles_and_zeros_are_left(estimator, solver):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (400, 1))
    if isinstance(estimator, GaussianMixture):
        X = 3.0 * labels + rng.normal(size=(400, 1))
    else:
        X = rng.poisson(np.where(labels, 8.0, 1.0) * np.ones(np.shape(estimator.means_init)[1]))
    found = clone(estimator).set_params(solver=solver).fit(X)
    best = clone(estimator).set_params(means_init=None, weights_init=None, random_state=0).fit(X)
    assert found.converged_ and found.distance_to_maximum_ < 0.1
    assert abs(found.score(X) - best.score(X)) < 1e-3


def test_a_fit_ends_at_the_maximum_where_gains_and_promises_are_small():
    rng = np.random.default_rng(20)
    X = rng.normal(size=(400, 1)) + 1.5 * rng.integers(0, 2, (400, 1))
    scores = [
        400 * GaussianMixture(2, random_state=0, solver=solver).fit(X).score(X)
        for solver in ("auto", PLAIN)
    ]
    np.testing.assert_allclose(scores, -659.4225, atol=0.01)


def test_the_floor_does_not_move_a_small_noise_of_states():
    rng = np.random.default_rng(1)
    y = (0.03 * rng.normal(size=3650)).cumsum() + rng.normal(size=3650)
    learnt = [*LEVEL["em_vars"], "initial_state_mean"]
    level = KalmanFilter(1, **LEVEL | {"em_vars": learnt, "solver": "auto"}).fit(y[:, None])
    assert level.converged_ and abs(level.transition_covariance_.item() - 9.37e-4) < 3e-6


def test_the_distance_is_of_the_fit(rng):
    X = overlapping(rng)[:500]
    mixture = GaussianMixture(2, random_state=0).fit(X)
    assert mixture.converged_ and mixture.distance_to_maximum_ < 0.1
    # The certificate reads the data, too.
    assert mixture.history_[-1].n_rows > mixture.n_iter_ * len(X)
    assert mixture.partial_fit(X[:9]).distance_to_maximum_ < 0.1
    assert mixture.set_params(tol=1e-3).fit(X).distance_to_maximum_ == np.inf


@pytest.mark.filterwarnings("ignore:There are fewer distinct rows")
def test_a_plateau_of_few_rows_is_left():
    mixture = BernoulliMixture(6, random_state=0).fit(np.arange(17)[:, None] < 7)
    assert mixture.converged_ and mixture.n_iter_ < 400


def test_the_acceleration_is_named():
    mixture = PoissonMixture(solver=Batch()).set_params(solver__acceleration=None)
    assert mixture.solver == PLAIN

"""Bayesian online EM, for every estimator: running statistics and their rates."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from cases.comparing import assert_close
from cases.estimator_cases import ESTIMATORS, by_likelihood
from cases.merged_cases import EXACT
from cases.streams import AT_ONCE
from numpy.testing import assert_allclose

from sklearn_onlineem import KalmanFilter, LaplaceMixture, PoissonMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import BayesianOnline
from sklearn_onlineem.em.solvers import RunningStatistics, running_step
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.families import Multinomial
from sklearn_onlineem.models.mixtures.mixture import MixtureModel
from sklearn_onlineem.statistics import combine

CARRYING = [case for case in EXACT if case.make is not LaplaceMixture]
MIXTURES = [case for case in ESTIMATORS if case in CARRYING]
# Parameters determine their statistics, so that running statistics are the model.
DETERMINED = [case for case in MIXTURES if case.regular and not case.hidden]

all_estimators = pytest.mark.parametrize("case", CARRYING, ids=repr)


def batches(X, n, rng=None):
    order = np.arange(len(X)) if rng is None else rng.permutation(len(X))
    return [taken(X, chosen) for chosen in np.array_split(order, n)]


def taken(X, chosen):
    return X[chosen] if hasattr(X, "shape") else [X[i] for i in chosen]


def running(estimator):
    return estimator._fitted.state.carry["running_statistics"]


def stream(estimator, parts, *others):
    for part in zip(parts, *others, strict=True):
        estimator.partial_fit(*part)
    return estimator


@pytest.mark.parametrize("case", by_likelihood(CARRYING), ids=repr)
def test_the_carried_statistics_are_the_sum_over_the_batches(case, rng):
    X = case.data(rng, 60)[0]
    learner = stream(case(solver="bayesian"), batches(X, 2))
    later, terms = batches(X, 3), []
    before = running(learner)
    for part in later:
        reader = learner._input()
        data = reader.read(part)
        terms.append((data.total_weight, learner.model_.e_step(data)[0]))
        learner.partial_fit(part)
    carried = running(learner)
    # The last batch comes first, as in a step: sums remember where working responses were made.
    expected = combine([*reversed(terms), (before.mass, before.statistics)])
    assert_close(carried.statistics.scale(carried.mass), expected, rtol=1e-9, atol=1e-9)
    assert learner.n_samples_seen_ == 120
    assert carried.mass == 120
    assert_close(learner.model_, learner.model_.m_step(carried.statistics), rtol=1e-9, atol=1e-9)


# Default priors have rows as long as those of the first batch.
@pytest.mark.parametrize(
    "case", by_likelihood(case for case in MIXTURES if not case.hidden), ids=repr
)
def test_with_all_labels_it_is_the_posterior_of_batch_em_in_any_order(case, rng):
    X, y = case.data(rng, 90)
    labelled = {"semi_supervised": True, "weight_concentration_prior": 2.0}
    batch = case(solver="batch", max_iter=1, tol=0.0, **labelled).fit(X, y)
    found = [
        stream(case(solver="bayesian", **labelled), np.split(X[order], 5), np.split(y[order], 5))
        for order in (np.arange(90), rng.permutation(90))
    ]
    for learner in found:
        assert_allclose(learner.weights_, batch.weights_, rtol=1e-12)
        if learner.model_.family.determined_by_means:
            assert_allclose(learner.means_, batch.means_, rtol=1e-12)
    assert_close(running(found[0]), running(found[1]), rtol=1e-12)


def test_one_step_is_that_of_the_paper():
    """DERIVATIONS 9: alpha_c += xi_c, beta_ca += x_a xi_c, of the mean form."""
    alpha, beta = np.array([2.0, 3.0]), np.array([[3.0, 1.0, 2.0], [1.0, 6.0, 2.0]])
    x = np.array([2.0, 0.0, 3.0])
    model = MixtureModel(Multinomial(), alpha / 5.0, beta / alpha[:, None])
    joint = alpha / 5.0 * np.prod((beta / beta.sum(axis=1, keepdims=True)) ** x, axis=1)
    xi = joint / joint.sum()
    new, carried, rates, _ = running_step(
        model, Rows(x[None]), RunningStatistics.of_model(model, 5.0)
    )
    assert_allclose(new.weights, (alpha + xi) / 6.0, rtol=1e-12)
    counts = beta + xi[:, None] * x
    assert_allclose(new.family.probabilities(new.parameters), _rows(counts), rtol=1e-12)
    # These are rates: phi_c += eta_c (x / |x| - phi_c).
    assert_allclose(rates, xi * x.sum() / counts.sum(axis=1), rtol=1e-12)
    phi = _rows(beta)
    moved = phi + rates[:, None] * (x / x.sum() - phi)
    assert_allclose(new.family.probabilities(new.parameters), moved, rtol=1e-12)
    # It is SOEM with rho = 1 / (alpha_0 + t), and online EM with eta = 1 / (alpha_0 + t - 1).
    online, _ = online_step(model, Rows(x[None]), eta=1.0 / 5.0)
    assert_close(new, online, rtol=1e-12)
    rho = 1.0 / 6.0
    soem = (1.0 - rho) * model.own_statistics().emissions.total + rho * xi[:, None] * x
    assert_allclose(new.family.probabilities(new.parameters), _rows(soem), rtol=1e-12)


def _rows(values):
    return values / values.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("case", by_likelihood(DETERMINED), ids=repr)
@pytest.mark.parametrize("factor", [1.0, 0.8])
def test_mixtures_without_a_prior_have_equal_steps_of_online_em(case, factor, rng):
    """Where parameters say all that was carried; floors and unequal counts apart."""
    X = case.data(rng, 200)[0]
    start = case(solver=AT_ONCE).partial_fit(X[:80])
    carrying = copy.deepcopy(start).set_params(solver=BayesianOnline(forgetting=factor))
    carried, model = RunningStatistics.of_model(start.model_, 80.0), start.model_
    for part in np.split(X[80:], 6):
        data = carrying._input().read(part)
        eta = data.total_weight / (factor * carried.mass)
        model = online_step(model, data, eta)[0]
        carried = replace(carried, mass=factor * carried.mass + data.total_weight)
        carrying.partial_fit(part)
    state = carrying._fitted.state
    assert state.carry["running_statistics"].mass == pytest.approx(carried.mass, rel=1e-12)
    assert_close(state.model, model, rtol=1e-6, atol=1e-9)


@all_estimators
def test_a_fit_takes_one_pass_and_counts_each_observation_once(case, rng):
    X = case.data(rng, 60)[0]
    fitted = case(solver="bayesian", batch_size=20).fit(X)
    assert (fitted.n_iter_, fitted.n_steps_, fitted.converged_) == (1, 3, True)
    n_components = fitted.model_.n_components if fitted.model_.has_components else 1
    expected = 60.0 + 0.01 * n_components
    assert running(fitted).mass == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("case", by_likelihood(MIXTURES), ids=repr)
def test_rates_of_components_are_their_shares_of_what_is_carried(case, rng):
    X = case.data(rng, 120)[0]
    learner = stream(case(solver="bayesian"), batches(X, 3))
    assert_allclose(learner.history_[0].component_rates, 1.0)
    data = learner._input().read(X[:30])
    state, family = learner._fitted.state, learner.model_.family
    new = family.effective_counts(state.model.e_step(data)[0].emissions) * 30.0
    carried = running(learner)
    old = family.effective_counts(carried.statistics.emissions) * carried.mass
    learner.partial_fit(X[:30])
    rates = learner.history_[-1].component_rates
    assert_allclose(rates, new / (new + old), rtol=1e-9)
    assert learner.history_[-1].eta == pytest.approx(30.0 / 120.0)


def test_another_solver_drops_what_was_carried_and_the_model_stands_for_the_rows_seen(rng):
    X = rng.poisson(3.0, (90, 2)).astype(float)
    learner = stream(PoissonMixture(2, solver="bayesian", random_state=0), batches(X, 2))
    learner.set_params(solver="online").partial_fit(X[:10])
    assert "running_statistics" not in learner._fitted.state.carry
    learner.set_params(solver="bayesian").partial_fit(X[:10])
    assert running(learner).mass == 110.0


def test_a_start_that_is_not_final_carries_nothing_yet(rng):
    """The running statistics come from all rows that were kept, which are dropped."""
    X = rng.poisson(rng.choice([2.0, 20.0], size=(260, 2))).astype(float)
    learner = PoissonMixture(2, random_state=0).partial_fit(X[:50])
    assert learner.n_rows_kept_ == 50
    with pytest.raises(ValueError, match="predictive=True requires running statistics"):
        learner.score_samples(X, predictive=True)
    learner.set_params(solver="bayesian").partial_fit(X[50:90])
    start = learner.history_[-1]
    assert (start.n_rows, start.eta, learner.n_rows_kept_) == (90, np.inf, 0)
    at_last = copy.deepcopy(learner).partial_fit(X[90:])
    assert at_last.history_[-1].eta == pytest.approx(170.0 / 90.0, rel=1e-12)
    predictive = at_last.score_samples(X, predictive=True).mean()
    assert predictive == pytest.approx(at_last.score(X), abs=0.05)
    carried = running(at_last)
    assert carried.mass == at_last.n_samples_seen_ == 260
    assert_allclose(carried.statistics.emissions.total.sum(axis=0), X.mean(axis=0), rtol=1e-12)
    # A fit that continues adds its rows to those that were seen.
    fitted = learner.set_params(warm_start=True).fit(X)
    assert running(fitted).mass == pytest.approx(90.0 + 260.0, rel=1e-12)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_rates_that_were_set_have_no_say_and_the_user_is_told(learn, rng):
    learner = PoissonMixture(solver="bayesian", eta0=0.5)
    with pytest.warns(UserWarning, match="depends on eta0.*its own learning rates"):
        getattr(learner, learn)(rng.poisson(3.0, (20, 2)))


@pytest.mark.parametrize("n_dim_state", [1, 3])
def test_a_start_without_components_counts_for_itself(n_dim_state, rng):
    kalman = KalmanFilter(n_dim_state, solver=BayesianOnline(start_mass=0.5), random_state=0)
    kalman.fit([rng.standard_normal((9, 2)) for _ in range(10)])
    assert running(kalman).mass == pytest.approx(10.5, rel=1e-12)

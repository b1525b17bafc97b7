"""Certificates of streams, and changes of their sources."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.mixture_cases import MIXTURES
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from cases.streams import AT_ONCE
from numpy.testing import assert_allclose
from sklearn.base import clone

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    PoissonMixture,
)
from sklearn_onlineem.diagnostics import DriftWarning, DriftWatch, StreamCertificate
from sklearn_onlineem.diagnostics.certificates import step_certificate
from sklearn_onlineem.diagnostics.drift import Drift
from sklearn_onlineem.em import BayesianOnline, Restart
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.state import Step
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.estimators.learning import schedule_of


def steps(certificates, log_likelihoods=None, n=100, eta=0.1, start=0):
    """Steps whose batches have these certificates, after one that only tells where rows begin."""
    certificates = np.asarray(certificates, dtype=float)
    if log_likelihoods is None:
        log_likelihoods = np.zeros(len(certificates))
    rho = 1.0 if eta == math.inf else eta / (1.0 + eta)
    yield Step(eta, 0.0, 0.0, start + n)
    for t, (value, score) in enumerate(zip(certificates, log_likelihoods, strict=True), start=2):
        yield Step(eta, float(score), float(value * rho**2), start + t * n)


def chi_squares(rng, n_steps, p=6, n=100, n_excess=0.0):
    """Certificates of batches of n rows, of a regular model of p parameters."""
    return rng.noncentral_chisquare(p, n_excess + 1e-9, n_steps) / (2.0 * n)


def fed(callback, path):
    return [callback(step) for step in path]


# ------------------------------------------------------------------------- certificates of streams


@pytest.mark.parametrize("case", [case for case in MIXTURES if case.regular], ids=repr)
@pytest.mark.parametrize("eta", [1e-2, 1e-3])
def test_a_step_tells_the_decrement_of_its_batch(case, eta, rng):
    for _ in range(5):
        truth = case.draw(rng)
        batch, model = truth.pseudo_data(200, rng, case.data(rng, 200)).unlabelled, truth
        new, score = online_step(model, batch, eta)
        certificate = StreamCertificate()
        certificate(Step(eta, score, 0.0, 100))
        certificate(Step(eta, score, new.kl_divergence(model), 300))
        expected = step_certificate(model, batch).natural_decrement
        assert_allclose(certificate.mean, expected, rtol=30.0 * eta)


def test_where_nothing_is_hidden_it_is_half_a_nat_per_parameter_and_batch(rng):
    certificate = StreamCertificate(half_life=300)
    mixture = PoissonMixture(1, callbacks=[certificate], random_state=0)
    for _ in range(1000):
        mixture.partial_fit(rng.poisson([3.0, 8.0, 20.0, 1.0], (50, 4)))
    assert abs(50 * certificate.mean - 4 / 2) < 4.0 * 50 * certificate.standard_error
    assert 50 * certificate.standard_error < 0.1


def test_its_standard_error_is_that_of_its_errors(rng):
    errors = []
    for _ in range(200):
        certificate = StreamCertificate(half_life=20)
        fed(certificate, steps(chi_squares(rng, 200)))
        errors.append((certificate.mean - 0.03) / certificate.standard_error)
    assert abs(np.mean(errors)) < 0.3
    assert 0.85 < np.std(errors) < 1.2


def test_equal_weights_at_first_and_half_of_them_later():
    certificate = StreamCertificate(half_life=1)
    fed(certificate, steps([8.0]))
    assert certificate.mean == 8.0 and math.isnan(certificate.standard_error)
    fed(certificate, list(steps([2.0], start=100))[1:])
    assert certificate.mean == pytest.approx((2.0 + 0.5 * 8.0) / 1.5)
    assert certificate.n_steps == 2


@pytest.mark.parametrize("eta", [1e-3, 1.0, math.inf])
def test_it_does_not_depend_on_rates(eta):
    certificate = StreamCertificate()
    fed(certificate, steps([0.2, 0.4, 0.3], eta=eta))
    assert certificate.mean == pytest.approx(0.3, rel=0.01)


def test_streams_that_converge_become_stationary(rng):
    found = {100: [], 1000: []}
    for _ in range(50):
        certificate, falling = StreamCertificate(half_life=20), 100.0 / np.arange(1, 1001) ** 1.5
        for t, step in enumerate(steps(chi_squares(rng, 1000) + falling)):
            certificate(step)
            if t in found:
                found[t].append(certificate.is_stationary())
    assert not any(found[100])
    assert np.mean(found[1000]) > 0.9


def test_nothing_is_stationary_before_its_time(rng):
    certificate = StreamCertificate(half_life=10)
    fed(certificate, steps(chi_squares(rng, 39)))
    assert not certificate.is_stationary(1e6)
    certificate(list(steps([0.03], start=39 * 100))[1])
    assert certificate.is_stationary(1e6) and not certificate.is_stationary(1e-9)


@pytest.mark.parametrize("solver", ["online", AT_ONCE, "bayesian"], ids=str)
def test_the_history_tells_as_much_as_the_callback(solver, rng):
    certificate = StreamCertificate(half_life=7)
    mixture = PoissonMixture(3, solver=solver, callbacks=[certificate], random_state=0)
    for _ in range(30):
        mixture.partial_fit(rng.poisson(rng.choice([2.0, 9.0], size=(40, 1)), (40, 2)))
    found = StreamCertificate.from_history(mixture.history_, half_life=7)
    assert vars(found._mean) == vars(certificate._mean)
    # Starts are no steps: one, of the first batch, or as many as rows of a stream make anew.
    n_steps = sum(step.eta < math.inf for step in mixture.history_)
    assert found.n_steps == certificate.n_steps == n_steps
    assert 23 < n_steps < 29 if solver == "online" else n_steps == 29
    assert found.is_stationary() is certificate.is_stationary()
    for step in mixture.history_:
        gamma = step.eta / (1.0 + step.eta) if step.eta < math.inf else 1.0
        expected = pytest.approx(step.kl_divergence / gamma**2, rel=1e-12, nan_ok=True)
        assert step.certificate == expected


def test_a_rate_too_small_to_tell_has_no_certificate():
    assert math.isnan(Step(1e-200, -1.0, 0.0, 10).certificate)


# --------------------------------------------------------------------------------- all estimators


@pytest.mark.pinned("one stream of other rows in some thousands has a false alarm")
@pytest.mark.parametrize("case", [*ESTIMATORS, *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS], ids=repr)
@pytest.mark.parametrize("solver", ["online", AT_ONCE, "bayesian"], ids=str)
def test_they_are_callbacks_of_every_estimator(case, solver, rng):
    if solver == "bayesian" and "Laplace" in repr(case):
        solver = "online"
    certificate, watch = StreamCertificate(), DriftWatch(warm_up=5)
    estimator = case(solver=solver, callbacks=[certificate, watch])
    for _ in range(8):
        data = case.data(rng)
        estimator.partial_fit(data[0] if isinstance(data, tuple) else data)
    n_of_start = sum(step.eta == math.inf for step in estimator.history_)
    # The first step says where rows begin.
    assert certificate.n_steps == len(estimator.history_) - max(1, n_of_start)
    assert n_of_start == 1 or solver == "online"
    assert certificate.mean > 0.0 and certificate.standard_error > 0.0
    assert watch.alarms == []


def test_carried_steps_and_topics_are_steps(rng):
    certificate = StreamCertificate()
    mixture = PoissonMixture(2, solver=BayesianOnline(), callbacks=[certificate], random_state=0)
    lda = LatentDirichletAllocation(2, solver=AT_ONCE, callbacks=[certificate], random_state=0)
    for estimator in (mixture, lda):
        for _ in range(4):
            estimator.partial_fit(rng.poisson(3.0, (40, 6)))
        assert certificate.n_steps == 3


def test_a_model_that_begins_anew_is_another_stream(rng):
    certificate, watch = StreamCertificate(), DriftWatch(warm_up=5)
    for scale in (1.0, 50.0):
        path = list(steps(scale * chi_squares(rng, 30)))
        fed(certificate, path)
        fed(watch, path)
        assert certificate.n_steps == 30
        assert_allclose(certificate.mean, scale * 0.03, rtol=0.5)
    assert watch.alarms == []


# -------------------------------------------------------------------------------------------- drift


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "t(2)", "log-normal", "counts"])
def test_false_alarms_are_as_rare_whatever_the_law_of_the_values(law, rng):
    draw = {
        "normal": rng.standard_normal,
        "t(2)": lambda n: rng.standard_t(2.0, n),
        "log-normal": lambda n: rng.lognormal(0.0, 2.0, n),
        "counts": lambda n: rng.poisson(3.0, n),
    }[law]
    n_alarms = 0
    for _ in range(20):
        watch = DriftWatch(action="stop")
        fed(watch, steps(draw(1000) ** 2, -draw(1000)))
        n_alarms += len(watch.alarms)
    # One in some 20,000 batches; by means and spreads some hundred with heavy tails.
    assert n_alarms <= 5


def test_false_alarms_are_rare(rng):
    """Two signs of independent batches: one in some 50,000, and a few more as bands are found."""
    n_alarms = 0
    for _ in range(5):
        watch, n_steps = DriftWatch(action="stop"), 2500
        fed(watch, steps(chi_squares(rng, n_steps), rng.standard_normal(n_steps)))
        n_alarms += len(watch.alarms)
    assert n_alarms <= 3


@pytest.mark.parametrize("p, n_excess", [(3, 20.0), (20, 40.0), (100, 80.0)])
def test_certificates_that_rise_make_an_alarm(p, n_excess, rng):
    for _ in range(5):
        watch, values = DriftWatch(action="stop"), chi_squares(rng, 200, p)
        values = np.append(values, chi_squares(rng, 20, p, n_excess=n_excess))
        stops = fed(watch, steps(values))
        (drift,) = watch.alarms[:1]
        assert drift.sign == "certificate"
        assert stops.index(True) == drift.n_rows // 100 - 1
        assert 20_100 < drift.n_rows <= 21_000
        assert abs(drift.since - 20_100) <= 1000


def test_log_likelihoods_that_fall_make_an_alarm_and_those_that_rise_do_not(rng):
    for sign in (-1.0, 1.0):
        watch, scores = DriftWatch(action="stop"), rng.standard_normal(240)
        scores[200:] += 2.5 * sign
        fed(watch, steps(chi_squares(rng, 240), scores))
        assert [drift.sign for drift in watch.alarms] == ["log-likelihood"] * (sign < 0.0)


def test_larger_batches_have_narrower_bands(rng):
    """Of a hundred times the rows, a tenth of the fall."""
    scores = np.append(rng.standard_normal(200), np.full(10, -0.5) + 0.1 * rng.standard_normal(10))
    path = list(steps(np.full(210, 0.03), scores))
    assert not any(fed(DriftWatch(action="stop"), path))
    rows = np.cumsum(np.append(np.full(201, 100), np.full(10, 10_000)))
    path = [step._replace(n_rows=int(n)) for step, n in zip(path, rows, strict=True)]
    path = [
        s._replace(kl_divergence=s.kl_divergence * (1.0 if s.n_rows <= 20_100 else 0.01))
        for s in path
    ]
    assert any(fed(DriftWatch(action="stop"), path))


def test_convergence_is_no_drift(rng):
    for _ in range(5):
        watch, t = DriftWatch(action="stop"), np.arange(1, 1001)
        falling, rising = 20.0 / t**1.5, -30.0 / t
        scores = rising + rng.standard_normal(1000)
        fed(watch, steps(chi_squares(rng, 1000) + falling, scores))
        assert len(watch.alarms) <= 1


def test_one_strange_batch_is_no_drift(rng):
    for strange in (1e6, 1e90):
        values = chi_squares(rng, 400)
        values[300] = strange
        assert not any(fed(DriftWatch(action="stop"), steps(values)))


def test_a_constant_stream_has_a_band_all_the_same():
    values = np.append(np.full(100, 0.03), np.full(10, 0.04))
    watch = DriftWatch(action="stop")
    fed(watch, steps(values))
    assert watch.alarms[0].since == 10_100


def test_what_is_not_finite_is_passed_over(rng):
    values, scores = chi_squares(rng, 100), rng.standard_normal(100)
    values[50], scores[60], values[70], values[80] = np.inf, -np.inf, np.nan, 1e300
    certificate, watch = StreamCertificate(), DriftWatch(action="stop")
    assert not any(fed(watch, steps(values, scores)))
    fed(certificate, steps(values, scores))
    assert certificate.mean < 0.1 and certificate.n_steps == 96


def test_rates_of_any_size_will_do(rng):
    for eta in (5e-324, 1e-200, 1e-100, 1e300):
        certificate, watch = StreamCertificate(), DriftWatch(action="stop")
        for step in steps(np.full(50, 0.03), eta=eta):
            assert not certificate(step) and not watch(step)
        assert certificate.n_steps == 0 or 0.0 <= certificate.mean < 0.04


@pytest.mark.parametrize("size", [1, 5, 10])
def test_the_start_of_a_stream_is_no_drift(size, rng):
    """Its components are others each time that it is made anew."""
    watch, certificate = DriftWatch(action="stop"), StreamCertificate()
    mixture = PoissonMixture(2, callbacks=[watch, certificate], random_state=0)
    for _ in range(200 // size + 40):
        mixture.partial_fit(rng.poisson(rng.choice([2.0, 20.0], size=(size, 1))))
    assert watch.alarms == []
    assert certificate.n_steps == sum(step.eta < math.inf for step in mixture.history_)
    assert_allclose(size * certificate.mean, 3 / 2, rtol=0.5)


def test_a_change_of_the_source_is_found_and_its_own_learning_is_not(rng):
    watch = DriftWatch(action="stop")
    mixture = GaussianMixture(2, callbacks=[watch], random_state=0)
    centres = np.array([[0.0, 0.0], [6.0, 0.0]])
    for t in range(400):
        shift = [0.0, 1.5 * (t >= 200)]
        X = centres[rng.integers(2, size=100)] + shift + rng.standard_normal((100, 2))
        mixture.partial_fit(X)
    (drift,) = watch.alarms
    assert 20_000 < drift.n_rows <= 20_500 and abs(drift.since - 20_000) <= 200


# ------------------------------------------------------------------------------------------ actions


def rising(rng):
    return steps(np.append(chi_squares(rng, 60), np.full(10, 1.0)))


def test_it_warns(rng):
    watch = DriftWatch()
    with pytest.warns(DriftWarning, match="of the certificate detected at row 6") as caught:
        assert not any(fed(watch, rising(rng)))
    assert caught[0].filename == __file__
    assert len(caught) == len(watch.alarms) == 1


def test_a_function_is_called_and_may_set_parameters(rng):
    drifts = []

    def reset(drift):
        drifts.append(drift)
        mixture.set_params(eta0=2.0, beta=0.0)

    watch = DriftWatch(action=reset)
    mixture = PoissonMixture(1, callbacks=[watch], eta0=1.0, beta=0.9, random_state=0)
    for t in range(200):
        mixture.partial_fit(rng.poisson(3.0 if t < 150 else 9.0, (50, 2)))
    assert drifts == watch.alarms and isinstance(drifts[0], Drift)
    assert mixture.history_[-1].eta == 2.0
    assert_allclose(mixture.means_, 9.0, rtol=0.1)


class Answers:
    """A callback that says what it was told to, update by update."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self, step):
        return self.answers.pop(0)


@pytest.mark.parametrize("case", [*ESTIMATORS, *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS], ids=repr)
def test_rates_begin_anew_from_the_rows_that_still_count(case, rng):
    data = case.data(rng)
    data = data[0] if isinstance(data, tuple) else data
    estimator = case(solver=AT_ONCE).partial_fit(data).partial_fit(data)
    state = estimator._fitted.state
    size, n_rows = state.counters.size / 2.0, estimator.history_[-1].n_rows // 2
    for kept, share in [(0, 0.0), (n_rows, 1.0), (3 * n_rows, 3.0), (10 * n_rows, 3.0)]:
        twin = copy.deepcopy(estimator)
        twin.set_params(callbacks=[Answers(Restart(kept), False)])
        twin.partial_fit(data).partial_fit(data)
        expected = rate_of(schedule_of(twin, state), share * size, size)
        assert_allclose(twin.history_[-1].eta, expected, rtol=1e-12)
        assert twin.n_steps_ == 4 and twin.history_[-1].n_rows == 4 * n_rows


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_what_is_carried_weighs_as_much_as_the_rows_that_still_count(forgetting, rng):
    solver, X = BayesianOnline(forgetting=forgetting), rng.poisson(3.0, (100, 2))
    masses = {}
    for kept in (None, 0, 30, 1000):
        answers = Answers(False, False if kept is None else Restart(kept), False)
        mixture = PoissonMixture(2, solver=solver, callbacks=[answers], random_state=0)
        mixture.partial_fit(X).partial_fit(X)
        masses[kept] = mixture._fitted.state.carry.get("running_statistics")
        assert (mixture.partial_fit(X).weights_ > 0.0).all()
    assert masses[0] is None
    assert masses[1000].mass == masses[None].mass
    assert_allclose(masses[30].mass, 30 / 200 * masses[None].mass)


def test_after_a_change_a_restart_follows_sooner(rng):
    scores = {}
    for action in ("stop", "restart"):
        watch, rows = DriftWatch(action=action), np.random.default_rng(0)
        mixture = PoissonMixture(2, callbacks=[watch], random_state=0)
        for t in range(306):
            means = [3.0, 12.0] if t < 300 else [6.0, 30.0]
            mixture.partial_fit(rows.poisson(rows.choice(means, size=(100, 1))))
        assert watch.alarms[0].since == 30_000
        scores[action] = mixture.score(rows.poisson(rows.choice([6.0, 30.0], size=(5000, 1))))
    assert scores["restart"] > scores["stop"] + 0.05


@pytest.mark.parametrize("case", [*ESTIMATORS, *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS], ids=repr)
@pytest.mark.parametrize("n_last", [0, 20])
def test_a_start_begins_anew_from_the_rows_that_still_count(case, n_last, rng):
    data = case.data(rng, 60)[0]
    data = data[:6] if isinstance(data, list) else data  # sequences have many rows
    half, lengths = len(data) // 2, [len(np.atleast_2d(x)) for x in data]
    first, later = data[:half], data[half:]
    estimator = case(callbacks=[Answers(False, Restart(n_last), False)])
    estimator.partial_fit(first[:1]).partial_fit(first[1:])
    n_kept = len(estimator._fitted.state.carry["first_rows"].followed_by())
    assert estimator.n_rows_kept_ == sum(lengths[half - n_kept : half])
    assert estimator.n_rows_kept_ <= n_last
    # All short sequences are kept.
    assert n_kept == half or n_last < sum(lengths[half - n_kept - 1 : half])
    estimator.partial_fit(later)
    twin = case()
    if n_kept:
        twin.partial_fit(first[half - n_kept :])
    assert_identical(twin.partial_fit(later).model_, estimator.model_)
    assert estimator.n_samples_seen_ == len(data)
    assert estimator.history_[-1].n_rows == sum(lengths)


@pytest.mark.parametrize("make", [GaussianHMM, KalmanFilter])
def test_a_restart_in_a_sequence_begins_another(make, rng):
    """As the numbers of states of two starts say nothing of each other."""
    X = rng.standard_normal((60, 2))
    estimator = make(2, callbacks=[Answers(False, Restart(), False)], random_state=0)
    for rows in np.split(X, 3):
        estimator.partial_fit(rows, continues=True)
    assert_identical(make(2, random_state=0).partial_fit(X[40:]).model_, estimator.model_)


def test_a_restart_that_fails_leaves_the_estimator_as_it_was(rng):
    def fails(step):
        raise RuntimeError("no")

    X = rng.poisson(3.0, (50, 2))
    mixture = PoissonMixture(1, random_state=0).partial_fit(X)
    twin = copy.deepcopy(mixture).set_params(callbacks=[lambda step: Restart(), fails])
    with pytest.raises(RuntimeError):
        twin.partial_fit(X)
    twin.set_params(callbacks=None)
    for estimator in (mixture, twin):
        estimator.partial_fit(X)
    assert mixture.history_ == twin.history_


@pytest.mark.parametrize("answer", [None, False, True])
def test_the_answer_of_a_function_ends_a_fit(answer, rng):
    assert any(fed(DriftWatch(action=lambda drift: answer), rising(rng))) is bool(answer)


@pytest.mark.parametrize("make", [StreamCertificate, lambda: DriftWatch(action="stop")])
def test_they_are_copied_and_pickled_as_they_are(make, rng):
    path = list(rising(rng))
    callback = make()
    fed(callback, path[:50])
    twins = copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))
    answers = fed(callback, path[50:])
    for twin in twins:
        assert fed(twin, path[50:]) == answers
    other = clone(PoissonMixture(callbacks=[callback])).callbacks[0]
    assert type(other) is type(callback) and other is not callback


# ------------------------------------------------------------------------------------------- errors


def test_a_watch_is_silent_while_all_is_well(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed(DriftWatch(), steps(chi_squares(rng, 500)))

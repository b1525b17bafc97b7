"""Learning rates, and what they weigh."""

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Constant, Forgetting, Harmonic, PowerDecay
from sklearn_onlineem.em.schedules import PowerDecayInRows, learning_rate, rate_of, step_size
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.families import Multinomial
from sklearn_onlineem.models.mixtures.mixture import MixtureModel


def decaying_factor(t):
    """Of the step sizes (10 + t)^-0.7, by proposition 1 of Brochu, de Freitas & Bao."""
    return (9.0 + t) ** -0.7 * ((10.0 + t) ** 0.7 - 1.0)


SCHEDULES = [
    PowerDecay(0.7, 0.6),
    PowerDecay(2.0, 0.8, t0=30.0),
    PowerDecayInRows(4.0, 0.5),
    Harmonic(2.0, 3.0, 1.0),
    Constant(0.2),
    Forgetting(0.9, 2.0),
    Forgetting(decaying_factor, learning_rate(11.0**-0.7)),
]
all_schedules = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: type(s).__name__)


def batch_weights(schedule, n_steps):
    """Weight of each batch in the statistics after all steps, and that of the start."""
    weights = [1.0]
    for t in range(1, n_steps + 1):
        gamma = step_size(schedule(t))
        weights = [(1.0 - gamma) * w for w in weights] + [gamma]
    return np.array(weights)


@pytest.mark.parametrize("eta", [1e-8, 0.1, 1.0, 30.0, math.inf])
def test_step_size_and_learning_rate_are_inverse(eta):
    assert learning_rate(step_size(eta)) == pytest.approx(eta)
    assert 0.0 < step_size(eta) <= 1.0


@all_schedules
def test_rates_are_positive_and_never_rise(schedule):
    etas = [schedule(t) for t in range(1, 200)]
    assert min(etas) > 0
    if schedule != Forgetting(0.9, 2.0):
        assert (np.diff(etas) <= 0).all()


@all_schedules
def test_schedules_are_values(schedule):
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert hash(schedule) == hash(pickle.loads(pickle.dumps(schedule)))


def test_formulas():
    assert PowerDecay(0.7, 0.6)(5) == pytest.approx(0.7 / 5**0.6)
    assert PowerDecay(0.7, 0.6, t0=20.0)(5) == pytest.approx(0.7 / 25**0.6)
    assert PowerDecayInRows(4.0, 0.5)(5) == pytest.approx(0.25 * 0.8**0.5)
    assert Harmonic(2.0, 3.0, 1.0)(5) == pytest.approx(2.0 / 16.0)
    assert Constant(0.2)(5) == 0.2
    assert Constant(math.inf)(5) == math.inf


def test_harmonic_rates_weigh_all_batches_alike():
    assert_allclose(batch_weights(Harmonic(), 50), 1.0 / 51.0)


@pytest.mark.parametrize("eta0", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.0])
def test_satos_identity(factor, eta0):
    """1 / gamma_t = 1 + factor / gamma_{t-1}: older batches weigh powers of the factor."""
    schedule = Forgetting(factor, eta0)
    gammas = [step_size(schedule(t)) for t in range(1, 40)]
    assert gammas[0] == pytest.approx(eta0 / (1.0 + eta0))
    for previous, gamma in zip(gammas, gammas[1:], strict=False):
        assert 1.0 / gamma == pytest.approx(1.0 + factor / previous)
    weights = batch_weights(schedule, 39)
    assert_allclose(weights[2:] * factor, weights[1:-1])
    # The start is worth 1 / eta0 batches.
    assert weights[0] * factor == pytest.approx(weights[1] * factor / eta0)


def test_forgetting_that_changes_has_any_step_sizes():
    """Whichever steps are asked for, and in which order."""
    for times in (range(1, 60), [1, 40, 7, 8, 9, 60, 60], [300]):
        schedule = SCHEDULES[-1].with_params()
        for t in times:
            assert step_size(schedule(t)) == pytest.approx((10.0 + t) ** -0.7, rel=1e-12)


def test_a_function_that_returns_one_factor_is_that_factor(rng):
    constant, function = Forgetting(0.95, 0.5), Forgetting(lambda t: 0.95, 0.5)
    for n_seen, n_rows in rng.integers(1, 200, (100, 2)):
        expected = rate_of(constant, n_seen, n_rows)
        assert rate_of(function, n_seen, n_rows) == pytest.approx(expected, rel=1e-12)


def test_forgetting_tends_to_a_constant_and_to_harmonic():
    assert step_size(Forgetting(0.95)(10_000)) == pytest.approx(0.05)
    assert_allclose([Forgetting(1.0)(t) for t in range(1, 9)], [Harmonic()(t) for t in range(1, 9)])


@pytest.mark.parametrize("eta", [0.0, 5e-324, -1.0, math.nan, None, "0.5", 1j, np.ones(2)])
def test_a_callable_that_gives_nonsense_is_an_error(eta):
    with pytest.raises(ValueError, match="schedule.*above 0"):
        rate_of(lambda t: eta, 10, 5)


def test_any_callable_is_a_schedule_and_time_is_counted_in_rows():
    assert rate_of(lambda t: 1.0 / t**2, 10, 5) == pytest.approx(1.0 / 9.0)
    assert rate_of(lambda t: 1.0 / t**2, 0, 5) == 1.0
    assert rate_of(PowerDecayInRows(4.0, 0.5), 10, 6) == pytest.approx(0.75)


def boem(alpha, beta, documents):
    """Brochu, de Freitas & Bao 2004, equations (7)-(12) in their mean form, by counts."""
    alpha, beta = alpha.copy(), beta.copy()
    for x in documents:
        phi = beta / beta.sum(axis=1, keepdims=True)
        xi = alpha / alpha.sum() * np.prod(phi**x, axis=1)
        xi /= xi.sum()
        alpha += xi
        beta += xi[:, None] * x
    return alpha / alpha.sum(), beta / beta.sum(axis=1, keepdims=True), beta / alpha[:, None]


def test_harmonic_rates_make_online_em_boem(rng):
    alpha, beta = np.array([2.0, 1.0, 0.5]), rng.gamma(2.0, 3.0, (3, 5))
    documents = rng.multinomial(rng.integers(1, 20, 60), rng.dirichlet(np.ones(5))).astype(float)
    schedule = Harmonic(c=alpha.sum() - 1.0)
    model = MixtureModel(Multinomial(), alpha / alpha.sum(), beta / alpha[:, None])
    for t, x in enumerate(documents, start=1):
        model, _ = online_step(model, Rows(x[None]), schedule(t))
    weights, probabilities, means = boem(alpha, beta, documents)
    assert_allclose(model.weights, weights, rtol=1e-9)
    assert_allclose(model.family.probabilities(model.parameters), probabilities, rtol=1e-9)
    assert_allclose(model.parameters, means, rtol=1e-9)


@pytest.mark.parametrize("half_life", [5.0, 400.0, 1e5])
def test_a_half_life_in_rows_does_not_depend_on_the_batches(half_life, rng):
    schedule, sizes = Forgetting(half_life=half_life), rng.integers(1, 50, size=60)
    weight, n_seen = np.zeros(0), 0
    for n_rows in sizes:
        gamma = step_size(rate_of(schedule, float(n_seen), float(n_rows)))
        weight = np.append((1.0 - gamma) * weight, gamma)
        n_seen += n_rows
    # The sums over each batch of 2**(-k / half_life), for rows that k others have followed.
    after = np.append(np.cumsum(sizes[::-1])[-2::-1], 0)
    expected = 2.0 ** (-after / half_life) * (1.0 - 2.0 ** (-sizes / half_life))
    assert_allclose(weight[1:] / weight[-1], expected[1:] / expected[-1], rtol=1e-9)


def test_forgetting_by_the_step_is_a_half_life_of_equal_batches():
    by_step, by_row = Forgetting(factor=0.5), Forgetting(half_life=30.0)
    for n_seen in (0.0, 3e3, 3e4):  # between, the start counts apart from the first batch by steps
        assert by_row.for_batch(n_seen, 30.0) == pytest.approx(by_step.for_batch(n_seen, 30.0))


def test_batches_of_many_half_lives_forget_the_past():
    assert rate_of(Forgetting(half_life=1.0), 1e4, 1e4) == math.inf

"""Logistic regressions: maxima by statsmodels, the bound of EM, streams, digits."""

import numpy as np
import pytest
import statsmodels.api as sm
from cases.family_cases import case_of
from numpy.testing import assert_allclose
from scipy.special import expit

from sklearn_onlineem import Mixture
from sklearn_onlineem.em import Online
from sklearn_onlineem.families import BernoulliRegression

FAMILY = BernoulliRegression(2)


def bits(rng, n=400, offset=0.0):
    """Rows of two inputs and of two bits, whose log odds they shift."""
    x = rng.normal(size=(n, 2)) + 0.5
    matrix, intercept = np.array([[1.0, -0.5], [0.3, 0.8]]), np.array([-0.5, 0.2])
    y = rng.random((n, 2)) < expit(x @ matrix.T + intercept)
    return np.hstack([x + offset, y])


def after_passes(rows, weights, n_passes=300):
    """Parameters after passes of batch EM, and the log-likelihoods on the way."""
    found, path = FAMILY.m_step(FAMILY.expected_statistics(rows, weights)), []
    for _ in range(n_passes):
        path.append(float((weights * FAMILY.log_density(found, rows)).sum()))
        found = FAMILY.m_step(FAMILY.posterior_statistics(found, rows, weights), found)
    return found, np.array(path)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_weighted_maxima_are_those_of_statsmodels(offset, rng):
    rows, weights = bits(rng), rng.random((400, 1))
    shifted = rows + [offset, offset, 0.0, 0.0]
    found, path = after_passes(shifted, weights)
    assert (np.diff(path) >= -1e-9).all()
    for j in range(2):
        design, family = sm.add_constant(rows[:, :2]), sm.families.Binomial()
        theirs = sm.GLM(rows[:, 2 + j], design, family, freq_weights=weights[:, 0]).fit(tol=1e-14)
        assert_allclose(found.matrix[0, j], theirs.params[1:], rtol=1e-7)
        level = theirs.params[0] - offset * theirs.params[1:].sum()
        assert_allclose(found.offset[0, j], level, rtol=1e-7)
        assert path[-1] == pytest.approx(FAMILY.log_density(found, shifted).T @ weights)


def test_the_bound_of_em_is_below_the_likelihood_and_touches_it(rng):
    case = case_of(BernoulliRegression)
    X, old = case.rows(rng, 200, 3), case.draw(rng, 1, 3)
    bound = case.complete_log_density(old, old, X)
    touching = case.family.log_density(old, X) - bound
    for _ in range(20):
        new = case.draw(rng, 1, 3)
        gap = case.family.log_density(new, X) - case.complete_log_density(old, new, X) - touching
        assert (gap >= -1e-12).all()


def test_streams_come_to_the_maximum_of_all_rows(rng):
    rows = bits(rng, 4000)
    best, _ = after_passes(rows, np.ones((4000, 1)))
    settings = {"family": FAMILY, "solver": Online(stages=()), "schedule": "harmonic"}
    stream = Mixture(1, eta0=1.0, random_state=0, **settings)
    for part in np.split(rows, 200):
        stream.partial_fit(part)
    found = stream.parameters_
    left = FAMILY.log_density(best, rows).sum() - FAMILY.log_density(found, rows).sum()
    assert 0.0 <= left < 5.0  # Of six parameters, whose errors alone are 3 nats.
    # Their moments, weighted by precisions of the time, are the information of the maximum.
    assert_allclose(found.precision, best.precision, rtol=0.1)
    assert_allclose(found.spread, best.spread, rtol=0.1, atol=0.1)


def test_inputs_that_do_not_vary_keep_their_coefficients(rng):
    rows = bits(rng)
    rows[:, 1] = 3.0
    found, _ = after_passes(rows, np.ones((400, 1)))
    assert_allclose(found.matrix[..., 1], 0.0)
    theirs = sm.Logit(rows[:, 2], sm.add_constant(rows[:, :1])).fit(disp=0, tol=1e-12)
    assert_allclose(found.matrix[0, 0, 0], theirs.params[1], rtol=1e-7)


def test_bits_that_inputs_separate_stay_finite_and_a_prior_keeps_them_small():
    rows = np.column_stack([np.arange(-3.0, 4.0), np.zeros(7), np.arange(7) > 3, np.arange(7) > 3])
    found, path = after_passes(rows, np.ones((7, 1)))
    assert np.isfinite(found.matrix).all() and -0.5 < path[-1] < 0.0
    prior = FAMILY.prior_statistics(1, n_features=4, matrix_precision=1.0)
    for _ in range(300):
        evidence = FAMILY.posterior_statistics(found, rows, np.ones((7, 1)))
        found = FAMILY.m_step(evidence + prior, found)
    psi = FAMILY.linear_predictor(found, rows[:, :2])
    slope = ((rows[:, 2:] - expit(psi[:, 0])) * rows[:, :1]).sum(axis=0)
    assert_allclose(slope, found.matrix[0, :, 0], rtol=1e-6)


def test_what_is_no_bit_is_refused(rng):
    rows = bits(rng)
    rows[0, 2] = 0.5
    with pytest.raises(ValueError, match="Bits must be 0 or 1"):
        FAMILY.check(rows)
    with pytest.raises(ValueError, match="columns of bits after"):
        FAMILY.check(rows[:, :2])
    for wrong in (0, 1.5, None):
        with pytest.raises(ValueError, match="n_inputs must be a whole number"):
            BernoulliRegression(wrong)

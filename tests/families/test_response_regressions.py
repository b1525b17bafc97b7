"""Regressions of bits and counts: maxima by statsmodels, bounds and steps, streams, digits."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from scipy.special import expit, gammaln

from sklearn_onlineem import Mixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Online
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.families import BernoulliRegression, PoissonRegression
from sklearn_onlineem.families.responses import Origin
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

BITS, FAMILY = BernoulliRegression(2), PoissonRegression(2)


def inputs(rng, n, matrix, intercept):
    """Two inputs, and the predictors of two responses that they shift."""
    x = rng.normal(size=(n, 2)) + 0.5
    return x, x @ np.array(matrix).T + intercept


def bits(rng, n=400):
    """Rows of two inputs and of two bits, whose log odds they shift."""
    x, predictor = inputs(rng, n, [[1.0, -0.5], [0.3, 0.8]], [-0.5, 0.2])
    return np.hstack([x, rng.random((n, 2)) < expit(predictor)])


def counts(rng, n=400):
    """Rows of two inputs and of two counts, whose log rates they shift."""
    x, predictor = inputs(rng, n, [[0.6, -0.3], [0.2, 0.5]], [0.5, -1.0])
    return np.hstack([x, rng.poisson(np.exp(predictor))])


def after_passes(rows, weights, found=None, prior=None, n_passes=30, family=FAMILY):
    """Parameters after passes of batch EM, and the log-likelihoods on the way."""
    found, path = found or family.m_step(family.expected_statistics(rows, weights)), []
    for _ in range(n_passes):
        path.append(float((weights * family.log_density(found, rows)).sum()))
        evidence = family.posterior_statistics(found, rows, weights)
        found = family.m_step(evidence if prior is None else evidence + prior, found)
    return found, np.array(path)


class Responses(NamedTuple):
    """A family, rows of it, its twin in statsmodels, its log density, and passes to its maximum."""

    family: BernoulliRegression | PoissonRegression
    rows: Callable
    twin: type
    log_density: Callable
    n_passes: int

    def maximum(self, rows, weights):
        return after_passes(rows, weights, n_passes=self.n_passes, family=self.family)


both = pytest.mark.parametrize(
    "responses",
    [
        Responses(
            BITS, bits, sm.families.Binomial, lambda y, p: np.log(np.where(y > 0, p, 1.0 - p)), 300
        ),
        Responses(
            FAMILY, counts, sm.families.Poisson,
            lambda y, rate: y * np.log(rate) - rate - gammaln(y + 1.0), 30,
        ),
    ],
    ids=["bits", "counts"],
)  # fmt: skip


def known(matrix, offset, rows):
    """Parameters with these coefficients, and the moments of the inputs of rows."""
    blank = FAMILY.blank(len(matrix), 2)
    for part, value in zip(FAMILY.parts, (matrix, offset), strict=True):
        blank = part.put(FAMILY, blank, value)
    return FAMILY.with_inputs_of(blank, rows)


@both
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_weighted_maxima_are_those_of_statsmodels(responses, offset, rng):
    rows, weights = responses.rows(rng), rng.random((400, 1))
    shifted = rows + [offset, offset, 0.0, 0.0]
    found, path = responses.maximum(shifted, weights)
    assert (np.diff(path) >= -1e-9).all()
    if responses.family is FAMILY:  # Steps near the maximum are Newton's.
        assert path[5] == pytest.approx(path[-1], abs=1e-9)
    for j in range(2):
        design, family = sm.add_constant(rows[:, :2]), responses.twin()
        theirs = sm.GLM(rows[:, 2 + j], design, family, freq_weights=weights[:, 0]).fit(tol=1e-14)
        assert_allclose(found.matrix[0, j], theirs.params[1:], rtol=1e-7)
        level = theirs.params[0] - offset * theirs.params[1:].sum()
        assert_allclose(found.offset[0, j], level, rtol=1e-7)
    means = responses.family.predicted(found, shifted[:, :2])[:, 0]
    expected = (weights * responses.log_density(rows[:, 2:], means)).sum()
    assert path[-1] == pytest.approx(expected, abs=1e-6 * max(1.0, offset / 1e3))


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("is_whole", [False, True])
def test_likelihoods_never_fall_from_far_starts(offset, is_whole, rng):
    """Whole Newton steps would: rates of e^3 times the others, slopes of either sign."""
    fell = False
    for _ in range(30):
        K = int(rng.integers(1, 4))
        rows = counts(rng, 200) * [rng.choice([0.1, 1.0, 3.0]), 1.0, 1.0, 1.0]
        rows[:, :2] += offset
        matrix = rng.normal(size=(K, 2, 2)) / rows[:, :2].std(axis=0)
        offsets = 3.0 * rng.normal(size=(K, 2)) - matrix @ rows[:, :2].mean(axis=0)
        model = MixtureModel(FAMILY, np.full(K, 1.0 / K), known(matrix, offsets, rows))
        data, path = Rows(rows), []
        for _ in range(15):
            step = model.e_step(data)
            path.append(step[1])
            emissions = step[0].emissions
            if is_whole:
                emissions = replace(emissions, origin=Origin())
            parameters = FAMILY.m_step(emissions, model.parameters)
            model = MixtureModel(FAMILY, step[0].counts, parameters)
        fell |= bool((np.diff(path) < -1e-10 * np.abs(path[:-1])).any())
    assert fell == is_whole


def test_a_rise_of_all_rates_is_exact_in_one_step(rng):
    rows = np.hstack([np.full((200, 2), 3.0), rng.poisson(100.0, (200, 2))])
    start = known(np.zeros((1, 2, 2)), np.zeros((1, 2)), rows)
    found = FAMILY.m_step(FAMILY.posterior_statistics(start, rows, np.ones((200, 1))), start)
    assert_allclose(FAMILY.predicted(found, rows[:1, :2])[0, 0], rows[:, 2:].mean(axis=0))
    model = MixtureModel(FAMILY, np.ones(1), start)
    # Online steps are those of a Poisson mixture: means of old and new rates.
    step, _ = online_step(model, Rows(rows), 0.5)
    expected = (rows[:, 2:].mean(axis=0) + 2.0) / 3.0
    assert_allclose(FAMILY.predicted(step.parameters, rows[:1, :2])[0, 0], expected)
    assert_allclose(step.parameters.precision[0], expected)


def test_steps_do_not_depend_on_rows_without_weight(rng):
    rows = counts(rng, 50)
    far = np.vstack([rows, [[50.0, -50.0, 3.0, 1.0]]])
    start = known(rng.normal(size=(2, 2, 2)), np.zeros((2, 2)), rows)
    model = MixtureModel(FAMILY, np.array([0.5, 0.5]), start)
    new, _ = batch_step(model, Rows(far, np.append(np.ones(50), 0.0)))
    expected, _ = batch_step(model, Rows(rows))
    assert_allclose(new.parameters.matrix, expected.parameters.matrix)


@both
def test_streams_come_to_the_maximum_of_all_rows(responses, rng):
    rows, family = responses.rows(rng, 4000), responses.family
    best, _ = responses.maximum(rows, np.ones((4000, 1)))
    settings = {"family": family, "solver": Online(stages=()), "schedule": "harmonic"}
    stream = Mixture(1, eta0=1.0, random_state=0, **settings)
    for part in np.split(rows, 200):
        stream.partial_fit(part)
    found = stream.parameters_
    left = family.log_density(best, rows).sum() - family.log_density(found, rows).sum()
    assert 0.0 <= left < 5.0  # Of six parameters, whose errors alone are 3 nats.
    # Their moments, weighted by precisions of the time, are the information of the maximum.
    assert_allclose(found.precision, best.precision, rtol=0.1)
    assert_allclose(found.spread, best.spread, rtol=0.1, atol=0.1)


def test_a_stream_follows_rates_that_jump(rng):
    rows = np.hstack([rng.normal(size=(4000, 2)), rng.poisson(1.0, (4000, 2))])
    rows[2000:, 2:] = rng.poisson(100.0, (2000, 2))
    settings = {"family": FAMILY, "solver": Online(stages=()), "schedule": "constant"}
    stream = Mixture(1, eta0=0.05, random_state=0, **settings)
    for part in np.split(rows, 200):
        stream.partial_fit(part)
    assert_allclose(stream.parameters_.offset[0], np.log(100.0), atol=0.05)
    assert_allclose(stream.parameters_.matrix, 0.0, atol=0.05)


@both
def test_inputs_that_do_not_vary_keep_their_coefficients(responses, rng):
    rows = responses.rows(rng)
    rows[:, 1] = 3.0
    found, _ = responses.maximum(rows, np.ones((400, 1)))
    assert_allclose(found.matrix[..., 1], 0.0)
    design, family = sm.add_constant(rows[:, :1]), responses.twin()
    theirs = sm.GLM(rows[:, 2], design, family).fit(tol=1e-14)
    assert_allclose(found.matrix[0, 0, 0], theirs.params[1], rtol=1e-7)


def test_bits_that_inputs_separate_stay_finite_and_a_prior_keeps_them_small():
    rows = np.column_stack([np.arange(-3.0, 4.0), np.zeros(7), np.arange(7) > 3, np.arange(7) > 3])
    found, path = after_passes(rows, np.ones((7, 1)), n_passes=300, family=BITS)
    assert np.isfinite(found.matrix).all() and -0.5 < path[-1] < 0.0
    prior = BITS.prior_statistics(1, n_features=4, matrix_precision=1.0)
    found, _ = after_passes(rows, np.ones((7, 1)), found, prior, n_passes=300, family=BITS)
    psi = BITS.linear_predictor(found, rows[:, :2])
    slope = ((rows[:, 2:] - expit(psi[:, 0])) * rows[:, :1]).sum(axis=0)
    assert_allclose(slope, found.matrix[0, :, 0], rtol=1e-6)


def test_columns_without_counts_stay_finite_and_a_prior_keeps_them_near(rng):
    rows = counts(rng, 100)
    rows[:, 2] = 0.0
    found, path = after_passes(rows, np.ones((100, 1)), n_passes=300)
    assert np.isfinite(found.matrix).all() and np.isfinite(path).all()
    assert FAMILY.predicted(found, rows[:, :2])[..., 0].max() < 1e-20
    # A first count after them is no surprise to steps.
    rows[50, 2] = 7.0
    again, _ = after_passes(rows, np.ones((100, 1)), found)
    assert np.isfinite(again.matrix).all()
    assert FAMILY.predicted(again, rows[:, :2])[..., 0].sum() == pytest.approx(7.0)
    prior = FAMILY.prior_statistics(1, n_features=4, matrix_precision=1.0, offset_precision=0.5)
    found, _ = after_passes(rows, np.ones((100, 1)), found, prior, n_passes=300)
    left = rows[:, 2:] - FAMILY.predicted(found, rows[:, :2])[:, 0]
    assert_allclose(left.T @ rows[:, :2], found.matrix[0], rtol=1e-6, atol=1e-9)
    assert_allclose(left.sum(axis=0), 0.5 * found.offset[0], rtol=1e-6)

"""What M-steps maximise: the log-likelihood of complete data, in expectation."""

from dataclasses import replace

import numpy as np
import pytest
from cases.chains import CHAINS
from cases.dynamical import DYNAMICAL
from cases.mixture_cases import MIXTURES
from cases.transducers import TRANSDUCERS
from numpy.testing import assert_allclose

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.families import Diagonal, Full, Gaussian, Spherical, Tied
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

MODELS = [*MIXTURES, *CHAINS, *DYNAMICAL, *TRANSDUCERS]
all_models = pytest.mark.parametrize("case", MODELS, ids=repr)


def gain(new, old, statistics):
    return new.expected_log_likelihood(statistics) - old.expected_log_likelihood(statistics)


@all_models
def test_of_own_statistics_it_falls_by_the_divergence(case, rng):
    like = case.data(rng, 20)
    for _ in range(5):
        model, other = case.draw(rng), case.draw(rng)
        divergence = model.kl_divergence(other, like=like)
        found = gain(model, other, model.own_statistics(like))
        assert_allclose(found, divergence, rtol=1e-9)


@all_models
def test_the_m_step_maximises_it(case, rng):
    model, data = case.draw(rng), case.data(rng, 40)
    evidence, _ = model.e_step(data)
    best = model.m_step(evidence)
    for other in (model, *(case.draw(rng) for _ in range(20))):
        assert gain(best, other, evidence) >= 0.0
    for eta in (0.1, 1.0, 10.0):
        near = model.m_step(evidence + eta * model.own_statistics(data))
        assert gain(best, near, evidence) >= -1e-13


@all_models
def test_no_model_gains_less_likelihood(case, rng):
    """Jensen's inequality, whichever the new model is."""
    model, data = case.draw(rng), case.data(rng, 40)
    evidence, before = model.e_step(data)
    for _ in range(10):
        other = case.draw(rng)
        assert other.e_step(data)[1] - before >= gain(other, model, evidence) - 1e-11


@all_models
def test_of_pseudo_statistics_it_is_the_log_prior(case, rng):
    model, other, concentration = case.draw(rng), case.draw(rng), 1.7
    prior = case.prior(model, case.data(rng, 5).n_features, concentration)
    expected = case.log_prior(model, concentration) - case.log_prior(other, concentration)
    assert_allclose(gain(model, other, prior), expected, rtol=1e-8)


@pytest.mark.parametrize("covariance", [Full(), Tied(), Diagonal(), Spherical()])
def test_floors_are_part_of_what_is_maximised(covariance, rng):
    """So that near a fixed point no step lowers it."""
    X = rng.standard_normal((60, 3))
    gaussians = Gaussian(covariance, reg_covar=0.3).bind(X)
    start = replace(gaussians, floor=np.zeros(3)).expected_statistics(X, rng.random((60, 2)))
    model = MixtureModel(gaussians, np.array([0.4, 0.6]), gaussians.m_step(start))
    evidence, _ = model.e_step(Rows(X))
    best, _ = batch_step(model, Rows(X))
    for eta in (1e-2, 1.0, 1e2):
        near = model.m_step(evidence + eta * model.own_statistics())
        assert gain(best, near, evidence) >= 0.0
    assert_allclose(gain(best, model, evidence), best.kl_divergence(model), rtol=1e-9)


def test_a_model_that_does_not_say_is_named(rng):
    class Silent(MixtureModel):
        expected_log_likelihood = Model.expected_log_likelihood

    model = Silent(*vars(MIXTURES[0].draw(rng)).values())
    with pytest.raises(ValueError, match="Silent does not implement expected_log_likelihood"):
        model.expected_log_likelihood(model.own_statistics())

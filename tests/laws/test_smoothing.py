"""`prior="auto"`, the default: half a pseudo-count of what components may show, of counts."""

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from numpy.testing import assert_allclose

from sklearn_onlineem import (
    CategoricalHMM,
    CompoundDirichlet,
    GaussianHMM,
    MultinomialHMM,
    MultinomialMixture,
    PoissonHMM,
    PoissonMixture,
)

SMOOTHED = {
    "PoissonMixture": lambda X: {"shape": 1.5, "rate": 0.5 * X.shape[1] / X.sum(axis=1).mean()},
    "MultinomialMixture": lambda X: {"concentration": 1.5},
    "BernoulliMixture": lambda X: {"alpha": 1.5, "beta": 1.5},
    "MarkovChainMixture": lambda X: {"concentration": 1.5, "start_concentration": 1.5},
    "Mixture(Categorical)": lambda X: {"concentration": 1.5},
    "CategoricalMixture": lambda X: {"concentration": 1.5},
}


@pytest.mark.parametrize(
    ("case", "solver"),
    [
        (case, solver)
        for case in ESTIMATORS
        for solver in ("batch", "online", "bayesian")
        # The last needs a prior.
        if solver != "bayesian" or repr(case) in SMOOTHED
    ],
    ids=str,
)
def test_the_default_is_a_weak_prior(case, solver, rng):
    X, _ = case.data(rng)
    given = SMOOTHED[repr(case)](X) if repr(case) in SMOOTHED else None
    default, same = (
        case(solver=solver, max_iter=5, **prior).fit(X).model_ for prior in ({}, {"prior": given})
    )
    assert_identical(default, same)
    if given is not None and solver == "batch":
        with pytest.raises(AssertionError):
            assert_close(case(solver=solver, prior=None, max_iter=5).fit(X).model_, default)


def test_estimators_whose_default_is_no_prior_say_so():
    assert CompoundDirichlet().prior is None
    assert all(case().prior == "auto" for case in ESTIMATORS)


@pytest.mark.parametrize("case", [c for c in ESTIMATORS if repr(c) in SMOOTHED], ids=repr)
def test_the_default_is_proper(case, rng):
    """So that Gibbs sampling and posterior predictive scores work with it."""
    X, _ = case.data(rng, 60)
    mixture = case(2, solver="gibbs", max_iter=3).fit(X)
    assert np.isfinite(mixture.score(X))
    mixture = case(2, solver="bayesian").partial_fit(X)
    assert np.isfinite(mixture.score_samples(X, predictive=True)).all()


@pytest.mark.parametrize("make", [MultinomialMixture, PoissonMixture])
@pytest.mark.parametrize("prior", ["auto", None])
def test_components_are_as_long_as_their_rows(make, prior, rng):
    """Pseudo-counts, of many more words than rows have, come in rows of the mean length."""
    X = rng.multinomial(12, rng.dirichlet(np.ones(400)), 50).astype(float)
    mixture = make(1, prior=prior, solver="batch", random_state=0).fit(X)
    assert_allclose(mixture.means_.sum(), 12.0)
    assert mixture.sample(200)[0].sum(axis=1).mean() == pytest.approx(12.0, abs=0.8)


def test_large_counts_stay_as_they_are():
    """Where a whole pseudo-row would move a rate by many standard errors."""
    X = np.array([[1000.0, 3000.0]] * 4)
    assert_allclose(PoissonMixture(1).fit(X).rates_, X[:1], rtol=1e-3)


@pytest.mark.parametrize(
    ("make", "own"),
    [
        (MultinomialHMM, {"emissionprob_prior": 1.5}),
        (CategoricalHMM, {"emissionprob_prior": 1.5}),
        (PoissonHMM, {}),
        (GaussianHMM, {}),
    ],
)
def test_hidden_markov_models_smooth_if_asked(make, own, rng):
    X = rng.poisson(2.0, (60, 3 if make is not CategoricalHMM else 1)).astype(float)
    fits = {
        name: make(2, random_state=0, max_iter=5, **more).fit(X).model_
        for name, more in {"auto": {"prior": "auto"}, "own": own, "none": {}}.items()
    }
    if own:
        assert_close(fits["auto"], fits["own"])
    if make is GaussianHMM:
        assert_identical(fits["auto"], fits["none"])
    else:
        with pytest.raises(AssertionError):
            assert_close(fits["auto"], fits["none"])

"""`prior="auto"`: half a pseudo-count of what components may show, of families of counts."""

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS

from sklearn_onlineem import MultinomialMixture

# Tests stop fits on purpose before they converge.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SMOOTHED = {
    "PoissonMixture": {"shape": 1.5, "rate": 0.5},
    "MultinomialMixture": {"concentration": 1.5},
    "BernoulliMixture": {"alpha": 1.5, "beta": 1.5},
    "MarkovChainMixture": {"concentration": 1.5},
    "Mixture(Categorical)": {"concentration": 1.5},
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
def test_auto_is_a_weak_prior(case, solver, rng):
    X, _ = case.data(rng)
    given = SMOOTHED.get(repr(case))
    fits = [case(solver=solver, prior=prior, max_iter=5).fit(X).model_ for prior in ("auto", given)]
    assert_identical(*fits)
    if given is not None and solver == "batch":
        with pytest.raises(AssertionError):
            assert_close(case(solver=solver, max_iter=5).fit(X).model_, fits[0])


def test_half_a_count(rng):
    X = rng.poisson(1.0, (50, 6)).astype(float)
    X[:, 2] = 0.0
    found = MultinomialMixture(1, prior="auto", solver="batch").fit(X).probabilities_[0]
    np.testing.assert_allclose(found, (X.sum(axis=0) + 0.5) / (X.sum() + 3.0))


def test_another_string_is_refused(rng):
    with pytest.raises(ValueError, match="prior"):
        MultinomialMixture(2, prior="some").fit(rng.poisson(1.0, (50, 6)))

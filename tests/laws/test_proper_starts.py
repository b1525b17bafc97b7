"""A proper prior on covariances saves a start from rows that have none, without a floor."""

import numpy as np
import pytest
from cases.comparing import arrays
from cases.estimator_cases import ESTIMATORS, normal_clusters
from cases.family_cases import hyperparameters
from cases.sequence_cases import SEQUENCE_ESTIMATORS

from sklearn_onlineem.estimators._start import STARTS

CASES = [
    case
    for case in (*ESTIMATORS, *SEQUENCE_ESTIMATORS)
    # Bits have the parameter and refuse it.
    if hasattr(case(), "covariance_type") and not (case.is_binary or case.is_count)
]
all_gaussians = pytest.mark.parametrize("case", CASES, ids=repr)
PROPER = {"covariance": 1.0, "degrees_of_freedom": 6.0, "shape": 3.0, "scale": 1.0}


def spoilt_rows(rng):
    """Rows all alike, of two kinds, with a constant column, and few for each component."""
    X = normal_clusters(rng, np.arange(60) % 3)
    constant = X.copy()
    constant[:, 1] = 3.0
    return {
        "alike": np.repeat(X[:1], 60, axis=0),
        "two": np.repeat(X[:2], 30, axis=0),
        "constant": constant,
        "few": X[:5],
    }


def proper_prior(case):
    names = hyperparameters(case()._family())
    return {name: value for name, value in PROPER.items() if name in names}


@all_gaussians
@pytest.mark.parametrize("init", STARTS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_prior_joins_the_rows_of_a_start(case, init, method, rng):
    prior = proper_prior(case)
    for X in spoilt_rows(rng).values():
        estimator = case(reg_covar=0.0, prior=prior, init=init)
        getattr(estimator, method)(X)
        assert all(np.isfinite(array).all() for array in arrays(estimator.model_))
        assert np.isfinite(estimator.score(X))


@all_gaussians
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_without_a_prior_they_are_refused(case, method, rng):
    with pytest.raises(ValueError, match="not positive"):
        getattr(case(reg_covar=0.0), method)(spoilt_rows(rng)["alike"])


@all_gaussians
def test_rows_that_make_a_start_make_it_alone(case, rng):
    """A prior counts in M-steps, and lets starts be as they are."""
    X = normal_clusters(rng, np.arange(60) % 3)
    prior = proper_prior(case)
    heard = []
    case(prior=prior, solver="batch", max_iter=1, callbacks=[heard.append]).fit(X)
    case(solver="batch", max_iter=1, callbacks=[heard.append]).fit(X)
    assert heard[0].log_likelihood == heard[1].log_likelihood

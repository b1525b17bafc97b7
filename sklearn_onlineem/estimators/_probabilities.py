"""Probabilities of symbols: start values, and priors on them."""

from __future__ import annotations

import numpy as np

__all__ = ["checked_probabilities", "dirichlet_prior"]


def dirichlet_prior(estimator, family):
    """`emissionprob_prior` as pseudo-statistics."""
    concentration = np.asarray(estimator.emissionprob_prior, dtype=np.float64)
    if not (concentration > 0).all():
        raise ValueError(f"emissionprob_prior of {type(estimator).__name__} must be above 0.")
    return family.prior_statistics(
        estimator.n_components, n_features=estimator.n_features_in_, concentration=concentration
    )


def checked_probabilities(hmm, shape):
    """`emissionprob_init`, its rows adding up to 1."""
    given = hmm._checked_start("emissionprob_init", hmm.emissionprob_init, shape)
    totals = given.sum(axis=1, keepdims=True)
    if given.min() < 0 or not totals.all():
        raise ValueError(f"emissionprob_init of {type(hmm).__name__} must not be negative.")
    return given / totals

"""Probabilities of symbols: start values, and priors on them."""

from __future__ import annotations

from sklearn_onlineem.estimators._priors import prior_statistics

__all__ = ["checked_probabilities", "dirichlet_prior"]


def dirichlet_prior(estimator, family):
    """`emissionprob_prior` as pseudo-statistics."""
    return prior_statistics(
        estimator,
        family,
        {"concentration": estimator.emissionprob_prior},
        estimator.n_components,
        n_features=estimator.n_features_in_,
        name="emissionprob_prior",
    )


def checked_probabilities(hmm, shape):
    """`emissionprob_init`, its rows adding up to 1."""
    given = hmm._checked_start("emissionprob_init", hmm.emissionprob_init, shape)
    totals = given.sum(axis=1, keepdims=True)
    if given.min() < 0 or not totals.all():
        raise ValueError(f"emissionprob_init of {type(hmm).__name__} must not be negative.")
    return given / totals

"""Probabilities of symbols: start values, and priors on them."""

from __future__ import annotations

from sklearn_onlineem.estimators._priors import prior_statistics
from sklearn_onlineem.estimators._validation import finite_start

__all__ = ["checked_probabilities", "dirichlet_prior"]


def dirichlet_prior(concentration, family, n_components, n_features):
    """`emissionprob_prior` as pseudo-statistics."""
    hyperparameters, name = {"concentration": concentration}, "emissionprob_prior"
    return prior_statistics(family, hyperparameters, n_components, n_features=n_features, name=name)


def checked_probabilities(emissionprob_init, shape):
    """`emissionprob_init`, its rows adding up to 1."""
    given = finite_start("emissionprob_init", emissionprob_init, shape)
    totals = given.sum(axis=1, keepdims=True)
    if given.min() < 0 or not totals.all():
        raise ValueError("emissionprob_init must not be negative.")
    return given / totals

"""Priors that users give as dicts of hyper-parameters; errors name the estimator."""

from __future__ import annotations

from sklearn_onlineem.families.capabilities import ConjugatePriors

__all__ = ["prior_statistics"]


def prior_statistics(family, hyperparameters, *sizes, name="prior", **named_sizes):
    """Return hyper-parameters as a family's pseudo-statistics.

    Parameters
    ----------
    family : Family
    hyperparameters : dict
    *sizes, **named_sizes
        Further arguments of the family's `prior_statistics`.
    name : str, default="prior"
        What the user calls the hyper-parameters.

    Raises
    ------
    ValueError
        If one is unknown or out of range.
    """
    if not isinstance(hyperparameters, dict):
        raise ValueError(f"{name} must be a dict, got {hyperparameters!r}.")
    if not isinstance(family, ConjugatePriors):
        raise ValueError(f"{name}: {type(family).__name__} {ConjugatePriors.lacking}.")
    known = family.prior_keys
    unknown = [key for key in hyperparameters if key not in known] if known is not None else []
    if unknown:
        raise ValueError(f"{name} has the key {unknown[0]!r}; it may have {known}.")
    try:
        return family.prior_statistics(*sizes, **named_sizes, **hyperparameters)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error

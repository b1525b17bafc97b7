"""Priors that users give as dicts of hyper-parameters; errors name the estimator."""

from __future__ import annotations

from inspect import Parameter, signature

__all__ = ["prior_statistics"]

# Of `prior_statistics` of families, what the data and the estimator say.
_SIZES = {"n_components", "n_features", "n_inputs", "n_outputs"}


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
    _check_known(family.prior_statistics, hyperparameters, name)
    try:
        return family.prior_statistics(*sizes, **named_sizes, **hyperparameters)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error


def _check_known(method, hyperparameters, name):
    parameters = signature(method).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = [name for name in parameters if name not in _SIZES]
    unknown = [key for key in hyperparameters if key not in known]
    if unknown:
        raise ValueError(f"{name} has the key {unknown[0]!r}; it may have {known}.")

"""Parts of a model: its parameters as users know them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from sklearn_onlineem._checks import finite_start
from sklearn_onlineem._python import ours
from sklearn_onlineem._values import checksum
from sklearn_onlineem.families.capabilities import Means, require


class Part(NamedTuple):
    """A parameter by the name of its fitted attribute, without the underscore at the end."""

    name: str
    # "real", "positive", "probability" or "covariance", as confidence intervals need. None: values
    # are not learnt, or other parts say the same, so that there are no standard errors.
    kind: str | None
    # A letter for each axis, "k" for components or states, "d" for columns of the data, or a
    # function of the values. None: values are no array.
    axes: str | Callable[[Any], str] | None
    # Values of the family and its parameters, or of the model.
    get: Callable[..., Any]
    # Parameters of the family, these and values, or the model of itself and values; ValueError.
    put: Callable[..., Any] | None = None
    # Whether models raise what they learn of the values to the floor of the family.
    has_floor: bool = False


def means_part(kind: str | None = None, name: str = "means") -> Part:
    """Return the means of a family that has them."""
    return Part(name, kind, "kd", lambda family, parameters: family.means(parameters), _put_means)


def _put_means(family, parameters, means):
    means = finite_start("means_", means, means.shape)
    require(family, Means).check_means(means)
    return family.with_means(parameters, means)


def _put_parameters(model, parameters):
    family, n_components = model.family, model.n_components
    X, density = drawn(family, parameters, n_components)
    if model.parameters is not None:
        n_features = drawn(family, model.parameters, 1)[0].shape[1]
        if X.shape[1] != n_features:
            raise ValueError(
                f"parameters_ has {X.shape[1]} columns, but {n_features} are expected."
            )
    if density.shape[1] != n_components or not np.isfinite(np.diagonal(density)).all():
        raise ValueError(f"parameters_ must be those of {n_components} components of {family!r}.")
    if getattr(family, "tied", False):
        alike = family.with_shared(parameters, parameters)
        if checksum(alike) != checksum(parameters):
            raise ValueError("parameters_ must repeat the parts that all components share.")
    return replace(model, parameters=parameters)


def drawn(family, parameters, n_components):
    """Return a row of each of the first components, and the log densities of these."""
    try:
        with np.errstate(all="ignore"):
            X = family.sample(parameters, np.arange(n_components), np.random.default_rng(0))
            if X.ndim != 2:
                raise ValueError(f"their rows have shape {X.shape[1:]}.")
            return X, family.log_density(parameters, X)
    except ours(TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(
            f"parameters_ must be those of {n_components} components of {family!r}: {error}"
        ) from error


PARAMETERS = Part("parameters", None, None, attrgetter("parameters"), _put_parameters)

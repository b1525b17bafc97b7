"""Distributions of the rows that follow a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sklearn_onlineem._checks import finite
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.families import Family
from sklearn_onlineem.families.capabilities import (
    ColumnDistributions,
    Marginals,
    Means,
    mixture_quantiles,
    require,
)


def checked_levels(name: str, levels: ArrayLike) -> Floats:
    """Return probabilities in (0, 1); ValueError if some are not, or there are none."""
    found = finite(name, levels, np.shape(levels))
    if found.ndim != 1 or not len(found) or not ((found > 0.0) & (found < 1.0)).all():
        raise ValueError(f"{name} must be a list of probabilities between 0 and 1, got {levels!r}.")
    return found


class NormalForecast(NamedTuple):
    """Normal rows, with means (..., n_features) and covariances (..., n_features, n_features)."""

    mean: Floats
    covariance: Floats

    def quantiles(self, levels: Floats) -> Floats:
        """Return quantiles of each column, of shape (n_levels, ..., n_features)."""
        variances = np.diagonal(self.covariance, axis1=-2, axis2=-1)
        return self.mean + np.multiply.outer(ndtri(levels), np.sqrt(np.maximum(variances, 0.0)))


def moments_of_mixture(
    weights: Floats, means: Floats, covariances: Floats
) -> tuple[Floats, Floats]:
    """Return means and covariances of mixtures, of weights (..., K) that add up to 1."""
    mean = np.einsum("...k,...kd->...d", weights, means)
    out = room("n_steps", (*mean.shape, mean.shape[-1]))
    out[...] = 0.0
    for k in range(weights.shape[-1]):
        p, between = weights[..., k, None, None], means[..., k, :] - mean
        # Covariances may be infinite, of states that have no probability, too.
        squares = covariances[..., k, :, :] + between[..., None] * between[..., None, :]
        out += np.multiply(p, squares, out=np.zeros_like(squares), where=p > 0.0)
    return mean, out


@dataclass(frozen=True)
class MixtureForecast:
    r"""Rows of a mixture of the states of a chain, with the probabilities that these have.

    .. math::
        \operatorname{E} v = m = \sum_k p_k m_k, \qquad
        \operatorname{Cov} v = \sum_k p_k (S_k + (m_k - m) (m_k - m)')

    The `probabilities` are (..., K). ValueError where the family of the emissions lacks the
    capability that a method needs.
    """

    family: Family
    parameters: object
    probabilities: Floats

    @property
    def mean(self) -> Floats:
        """Expectations (..., n_features); of nominal columns, the most probable symbol."""
        family, flat = self.family, self.probabilities.reshape(-1, self.probabilities.shape[-1])
        if any(hasattr(factor, "n_inputs") for factor in getattr(family, "families", (family,))):
            raise ValueError(f"{type(family).__name__} needs the inputs of the rows to forecast.")
        if isinstance(family, Marginals):
            first = np.zeros(1, dtype=np.intp)
            n_features = family.sample(self.parameters, first, np.random.default_rng(0)).shape[1]
            nothing = np.full((len(flat), n_features), np.nan)
            means = family.completed(self.parameters, nothing, flat)
        else:
            if not isinstance(family, Means):
                raise ValueError(f"{type(family).__name__} has no means, which forecasts need.")
            means = flat @ family.means(self.parameters)
        return means.reshape(*self.probabilities.shape[:-1], -1)

    @property
    def covariance(self) -> Floats:
        """Covariances, of shape (..., n_features, n_features)."""
        require(self.family, ColumnDistributions)
        means, covariances = (
            f(self.parameters) for f in (self.family.means, self.family.covariances)
        )
        return moments_of_mixture(self.probabilities, means, covariances)[1]

    def quantiles(self, levels: Floats) -> Floats:
        """Return quantiles of each column, of shape (n_levels, ..., n_features).

        Of whole numbers they are the least ones whose distribution function reaches the level.
        """
        require(self.family, ColumnDistributions)
        n_features = self.family.means(self.parameters).shape[1]
        of_columns = [self.family.distribution(self.parameters, j) for j in range(n_features)]
        found = [mixture_quantiles(column, self.probabilities, levels) for column in of_columns]
        return np.stack(found, axis=-1)

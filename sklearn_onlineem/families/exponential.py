"""Products of exponential distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.families._checks import LEAST, MOST, check_non_negative, check_setting
from sklearn_onlineem.families._durations import Durations


@dataclass(frozen=True)
class Exponential(Durations):
    r"""Independent waiting times, :math:`p(x \mid r) = \prod_j r_j e^{-r_j x_j}`.

    :math:`\phi(x) = x`, :math:`\theta = -r`, :math:`G(\theta) = -\sum_j \log(-\theta_j)`.
    Parameters are the means 1/r, an ndarray of shape (K, n_features).

    Parameters
    ----------
    min_mean : float, default=1e-12
        Floor of the means, relative to the largest component's mean of the same feature; from
        1e-100 to 1e100.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Exponential
    >>> Exponential().log_density(np.array([[0.5]]), np.array([[0.0], [1.0]]))
    array([[ 0.69314718],
           [-1.30685282]])
    """

    min_mean: float = 1e-12

    shape = 1.0
    support_is_convex = True

    def __post_init__(self):
        check_setting("min_mean", self.min_mean, LEAST, MOST)

    def check(self, X: Floats) -> None:
        check_non_negative(X)

    def regularise(self, mean: Floats) -> Floats:
        return floored_mean(mean, self.min_mean)

    def sample(self, parameters: Floats, components: Integers, rng: np.random.Generator) -> Floats:
        return rng.exponential(parameters[components])


def floored_mean(mean, floor):
    """Return means at least `floor` times the largest of their column, above 0 where all are 0."""
    return np.maximum(mean, np.maximum(floor * mean.max(axis=0), 1e-290))

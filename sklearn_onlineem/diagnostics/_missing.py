"""Missing information, by differences of expected scores."""

from dataclasses import replace
from functools import partial

import numpy as np

from sklearn_onlineem._python import cached_property
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families.tangents import inverse
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

# Derivatives of observations along all coordinates that are held at a time.
_MOST_VALUES = 1 << 22
# Relative steps of differences: errors of central ones are some 1e-8 by curvature, and 1e-12 by
# rounding; those of differences to one side are some 1e-6 and 1e-10.
_STEP, _STEP_TO_ONE_SIDE = 1e-4, 1e-6


class Missing:
    r"""Missing information: that of complete data less that of the data.

    .. math:: I_{z|x} v = \frac{d}{dh} \frac1n \sum_n E_{\theta + h v}[s(x_n, z) \mid x_n]

    with the scores s of complete data about the model. The E-step of a model along v takes their
    expectations (Oakes, JRSS-B 1999). `is_quick` allows errors of some 1e-6.
    """

    def __init__(self, coordinates, data, is_quick=False):
        self.coordinates, self._is_quick = coordinates, is_quick
        self._is_mixture = isinstance(coordinates.model, MixtureModel)
        # Differences need all digits.
        is_single = isinstance(data, Rows) and data.dtype != np.float64
        self.data = replace(data, X=data.X.astype(np.float64)) if is_single else data

    def product(self, v):
        """Return the missing information times a direction, (K, width)."""
        if not self._is_quick:
            return self.slope(v, self._score)
        if not (size := self.coordinates.size(v)):
            return np.zeros_like(v)
        step = _STEP_TO_ONE_SIDE / size
        return (self._score(self.coordinates.moved(step * v)) - self._present) / step

    @cached_property
    def _present(self):
        return self._score(self.coordinates.model)

    def _score(self, model):
        return self.coordinates.score(model.e_step(self.data)[0])

    def slope(self, v, function):
        """Return the derivative of a function of the model along v."""
        step = _STEP / (self.coordinates.size(v) or 1.0)
        ahead, behind = (function(self.coordinates.moved(sign * step * v)) for sign in (1.0, -1.0))
        return (ahead - behind) / (2.0 * step)

    def _by_coordinate(self, function):
        """Return derivatives of a function along all coordinates, (P, ...); 0 along fixed ones."""
        free = np.flatnonzero(self.coordinates.scale)
        units = np.eye(self.coordinates.scale.size)[free].reshape(-1, *self.coordinates.shape)
        out = np.zeros((self.coordinates.scale.size, function(self.coordinates.model).size))
        for i, unit in zip(free, units, strict=True):
            out[i] = self.slope(unit, function).ravel()
        return out

    def dense(self):
        """Return the missing information, (P, P)."""
        missing = self._by_coordinate(self._score)
        return 0.5 * (missing + missing.T)

    def squares(self):
        """Return the mean of squares of the observations' scores, (P, P)."""
        total = 0.0
        for part, weight in self._blocks():
            if self._is_mixture:
                scores = self._scores_of_rows(part)
            else:
                scores = self._by_coordinate(lambda model, part=part: model.log_likelihood(part))
            total = total + weight * scores @ scores.T
        return total

    def _scores_of_rows(self, rows):
        """Return the scores of rows of a mixture, (P, n_rows): all components move at once."""
        posterior, shape = _posterior(self.coordinates.model, rows), self.coordinates.shape
        roots = np.sqrt(self.coordinates.model.weights)
        scores = np.empty((len(rows), *shape))
        scores[:, :, 0] = posterior * inverse(roots) - roots
        for column in range(1, shape[1]):
            v = np.zeros(shape)
            v[:, column] = self.coordinates.scale[:, column] > 0.0
            scores[:, :, column] = posterior * self.slope(v, partial(_log_joint, rows=rows))
        return scores.reshape(len(rows), -1).T

    def _blocks(self):
        """Yield some observations after the other, and their shares of the total weight."""
        step = max(1, _MOST_VALUES // self.coordinates.scale.size)
        for start in range(0, len(self.data), step):
            part = self.data[start : start + step]
            weight = getattr(part, "sample_weight", None)
            yield part, (1.0 if weight is None else weight) / self.data.total_weight

    def overlaps(self, v):
        r"""Return the share of each pair of components in v times `product(v)`, (K, K), or None.

        .. math:: \frac1n \sum_n r_{nj} r_{nk} (a_{nj} - a_{nk})^2, \quad
            a_{nk} = \frac{d}{dh} \log p_{\theta + h v}(x_n, k)

        None for others than mixtures.
        """
        if not self._is_mixture:
            return None
        out = np.zeros((len(v), len(v)))
        for part, weight in self._blocks():
            posterior = _posterior(self.coordinates.model, part)
            a = self.slope(v, partial(_log_joint, rows=part))
            # (a_j - a_k)^2 from deviations from the mean of the row.
            a -= np.einsum("nk,nk->n", posterior, a)[:, None]
            first, shares = posterior * a, np.broadcast_to(weight, len(a))[:, None]
            square = (first * a * shares).T @ posterior
            out += square + square.T - 2.0 * (first * shares).T @ first
        np.fill_diagonal(out, 0.0)
        return np.maximum(out, 0.0)


def _log_joint(model, rows):
    """Return log p(x_n, k) of rows of a mixture, (n_rows, K); 0 for components without weight."""
    return np.where(model.weights > 0.0, model.log_joint(rows), 0.0)


def _posterior(model, rows):
    """Return p(k | x_n), (n_rows, K), given labels where there are some."""
    posterior = model.posterior(rows)
    if rows.labels is not None:
        known = rows.labels >= 0
        posterior[known] = np.eye(model.n_components)[rows.labels[known]]
    return posterior

"""Missing information: exact for mixtures, by central differences of the score for chains."""

import numpy as np
from scipy import sparse
from scipy.special import softmax

from sklearn_onlineem._python import cached_property
from sklearn_onlineem.families.tangents import inverse
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

_ROWS = 1024
# Relative step of differences: errors are some 1e-8 by curvature, and 1e-12 by rounding.
_STEP = 1e-4


def missing_of(coordinates, data, single=False):
    """Return the missing information; `single` allows products in single precision."""
    is_mixture, tangents = isinstance(coordinates.model, MixtureModel), coordinates.directions
    if not is_mixture or not tangents["parameters"].has_features or data.has_gaps:
        return ChainMissing(coordinates, data)
    single = single and tangents["parameters"].takes_single
    return MixtureMissing(coordinates, data, np.float32 if single else np.float64)


class MixtureMissing:
    r"""Missing information of a mixture: the mean over rows of the covariance of complete scores.

    .. math:: I_{z|x} v = \frac1n \sum_{nk} r_{nk} (a_{nk} - \bar a_n) s_{nk}, \quad
        a_{nk} = s_{nk} \cdot v, \; \bar a_n = \sum_k r_{nk} a_{nk}

    One E-step with signed weights is one product (Louis, JRSS-B 1982).
    """

    def __init__(self, coordinates, data, dtype=np.float64):
        self.coordinates, self.data, self._dtype = coordinates, data, dtype
        model = coordinates.model
        self._frames = list(coordinates.directions["parameters"].frames())
        self._posterior = np.empty((len(data), model.n_components), dtype)
        for rows, block in self._row_blocks():
            log_joint = model.family.log_density(model.parameters, _double(block.X))
            self._posterior[rows] = softmax(log_joint + model.log_weights, axis=1)
        if data.labels is not None:
            known = data.labels >= 0
            self._posterior[known] = np.eye(model.n_components)[data.labels[known]]

    def _row_blocks(self):
        for start in range(0, len(self.data), _ROWS):
            rows = slice(start, start + _ROWS)
            yield rows, self.data[rows]

    def _blocks(self):
        """Yield rows in each frame, their responsibilities, and shares of the total weight."""
        total = self.data.total_weight
        for rows, block in self._row_blocks():
            weight = np.ones(1) if block.sample_weight is None else block.sample_weight
            share = (weight[:, None] / total).astype(self._dtype)
            X, posterior = _double(block.X), self._posterior[rows]
            moved = [move(X).astype(self._dtype, copy=False) for _, move, _ in self._frames]
            yield moved, posterior, share

    @cached_property
    def _inverse_roots(self):
        """Score of a row of each component on its weight."""
        return inverse(np.sqrt(self.coordinates.model.weights))

    def _along(self, v):
        """Return natural directions in each frame, and the constant score of each component."""
        of_weights, directions = self._inverse_roots * v[:, 0], []
        for components, _, frame in self._frames:
            natural = frame.natural(v[components, 1:])
            expected = (natural * frame.mean).sum(axis=1)
            directions.append((natural, of_weights[components] - expected))
        return directions

    def _deviations(self, moved, posterior, directions):
        """Return a_nk less their mean."""
        a = np.empty_like(posterior)
        for (components, _, frame), X, direction in zip(
            self._frames, moved, directions, strict=True
        ):
            a[:, components] = frame.forms(X, *direction, self.data.n_threads)
        a -= np.einsum("nk,nk->n", posterior, a)[:, None]
        return a

    def product(self, v):
        """Return the missing information times a direction, (K, width)."""
        directions, out = self._along(v), np.zeros_like(v)
        sums = [[np.zeros(len(n)), np.zeros_like(n)] for n, _ in directions]
        for moved, posterior, weight in self._blocks():
            signed = self._deviations(moved, posterior, directions)
            signed *= posterior
            signed *= weight
            for (components, _, frame), X, total in zip(self._frames, moved, sums, strict=True):
                of_block = frame.sums(X, signed[:, components], self.data.n_threads)
                for part, addend in zip(total, of_block, strict=True):
                    part += addend
        for (components, _, frame), (counts, total) in zip(self._frames, sums, strict=True):
            out[components, 0] = self._inverse_roots[components] * counts
            out[components, 1:] = frame.whitened(total - counts[:, None] * frame.mean)
        return out

    def overlaps(self, v):
        """Return the share of each pair in v times `product(v)`, which is their sum over pairs."""
        directions, out = self._along(v), np.zeros((len(v), len(v)))
        for moved, posterior, weight in self._blocks():
            # (a_j - a_k)^2 from deviations from the mean of the row.
            a = self._deviations(moved, posterior, directions)
            first = posterior * a
            square = (first * a * weight).T @ posterior
            out += square + square.T - 2.0 * (first * weight).T @ first
        np.fill_diagonal(out, 0.0)
        return np.maximum(out, 0.0)

    def _scores(self):
        """Yield complete scores (K, n_rows, width), these times responsibilities, and shares."""
        whitening = [_matrices(frame) for _, _, frame in self._frames]
        K, width = self.coordinates.shape
        for moved, posterior, weight in self._blocks():
            complete = np.empty((K, len(posterior), width))
            complete[:, :, 0] = self._inverse_roots[:, None]
            for (components, _, frame), X, W in zip(self._frames, moved, whitening, strict=True):
                phi = frame.features(X)
                phi = phi.toarray() if sparse.issparse(phi) else phi
                complete[components, :, 1:] = (phi - frame.mean[:, None]) @ W
            yield complete, posterior.T[:, :, None] * complete, weight

    def dense(self):
        """Return the missing information, (P, P), row by row."""
        K, width = self.coordinates.shape
        missing, own = np.zeros((K * width, K * width)), np.zeros((K, width, width))
        for complete, expected, weight in self._scores():
            own += (weight * expected).mT @ complete
            scores = _by_row(expected)
            missing -= (weight * scores).T @ scores
        blocks = missing.reshape(K, width, K, width)
        for k in range(K):
            blocks[k, :, k] += own[k]
        return missing

    def squares(self):
        """Return the mean of squares of the rows' scores, (P, P)."""
        K, width = self.coordinates.shape
        squares = np.zeros((K * width, K * width))
        for _, expected, weight in self._scores():
            scores = _by_row(expected)
            scores[:, ::width] -= np.sqrt(self.coordinates.model.weights)
            squares += (weight * scores).T @ scores
        return squares


def _by_row(scores):
    """Return the scores of a row side by side, of shape (n_rows, P)."""
    return scores.transpose(1, 0, 2).reshape(scores.shape[1], -1)


def _double(X):
    return X.astype(np.float64, copy=False)


def _matrices(frame):
    """Return matrices from centred features to scores, (K, n_features, n_own)."""
    K, n_features = frame.mean.shape
    units = np.zeros((n_features, K, n_features))
    units[np.arange(n_features), :, np.arange(n_features)] = 1.0
    return np.stack([frame.whitened(unit) for unit in units], axis=1)


class ChainMissing:
    """Missing information of chains, hidden proportions and rows with gaps, by differences.

    They are those of expected scores.
    """

    overlaps = None

    def __init__(self, coordinates, data):
        self.coordinates, self.data = coordinates, data

    def product(self, v):
        size = self.coordinates.size(v)
        if size == 0.0:
            return np.zeros_like(v)
        step = _STEP / size
        ahead, behind = (self._score(sign * step * v, self.data) for sign in (1.0, -1.0))
        return (ahead - behind) / (2.0 * step)

    def _score(self, v, data):
        return self.coordinates.score(self.coordinates.moved(v).e_step(data)[0])

    def dense(self):
        K, width = self.coordinates.shape
        units = np.eye(K * width).reshape(-1, K, width)
        used = self.coordinates.scale.ravel() > 0.0
        missing = np.zeros((K * width, K * width))
        for i in np.flatnonzero(used):
            missing[i] = self.product(units[i]).ravel()
        return 0.5 * (missing + missing.T)

    def squares(self):
        none = np.zeros(self.coordinates.shape)
        scores = [self._score(none, self.data[i : i + 1]).ravel() for i in range(len(self.data))]
        scores, weight = np.array(scores), getattr(self.data, "sample_weight", None)
        weighted = scores if weight is None else weight[:, None] * scores
        return weighted.T @ scores / self.data.total_weight

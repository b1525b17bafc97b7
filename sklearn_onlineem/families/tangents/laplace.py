"""Directions of Laplace components, by scores that have no derivatives at the medians."""

import numpy as np

from sklearn_onlineem.families.tangents.base import Tangents


class LaplaceTangents(Tangents):
    r"""Tangents of locations m and scales b, which are orthogonal.

    .. math:: s_m = \operatorname{sign}(x - m), \quad s_b = |x - m| / b - 1

    Both have variance 1 under the component. No density has a second derivative at its median; its
    expectation under the component is the information of complete data, 1 / b^2 (Huber, "The
    behavior of maximum likelihood estimates under nonstandard conditions", 1967). The sandwich
    takes the data's squares of scores, and from the component only the density at its median.
    """

    is_smooth = False

    def __init__(self, family, parameters):
        super().__init__(family, parameters)
        self._n_features = parameters.location.shape[1]

    @property
    def parts(self):
        d = self._n_features
        return {"locations": slice(0, d), "scales": slice(d, 2 * d)}

    @property
    def mean(self):
        return np.zeros((len(self.parameters.location), 2 * self._n_features))

    @property
    def is_free(self):
        floor = 0.0 if self.family.floor is None else self.family.floor
        above = self.parameters.scale > 2.0 * floor
        return np.concatenate([np.ones_like(above), above], axis=1)

    def frames(self):
        pairs = zip(self.parameters.location, self.parameters.scale, strict=True)
        for k, (location, scale) in enumerate(pairs):
            yield (
                slice(k, k + 1),
                lambda X, m=location, b=scale: np.hstack([np.sign(X - m), np.abs(X - m) / b - 1.0]),
                _ScoreTangents(self.family, type(self.parameters)(location[None], scale[None])),
            )

    def score(self, statistics):
        shares, X = statistics.points.weights, statistics.points.values
        scores = np.array([
            shares[:, k] @ np.nan_to_num(move(X), nan=0.0)
            for k, (_, move, _) in enumerate(self.frames())
        ])  # fmt: skip
        if len(statistics.past.weights):
            # Expectations under components of a prior.
            old = statistics.past.values
            gap = (old.location - self.parameters.location) / old.scale
            left = np.exp(-np.abs(gap))
            distance = old.scale * (np.abs(gap) + left) / self.parameters.scale
            past = np.concatenate([np.sign(gap) * (1.0 - left), distance - 1.0], axis=2)
            weights = statistics.past.weights
            scores += (np.concatenate([weights, weights], axis=2) * past).sum(axis=0)
        return scores

    def natural(self, v):
        return v

    whitened = natural

    def moved(self, v):
        locations, scales = np.split(v, 2, axis=1)
        location, scale = self.parameters
        return type(self.parameters)(location + scale * locations, scale * np.exp(scales))


class _ScoreTangents(LaplaceTangents):
    """Tangents of one component, of rows that are its scores already."""

    def features(self, X):
        return X

"""`partial_fit` of a small batch, once the start of the stream is settled, and of larger ones."""

import numpy as np

from sklearn_onlineem import CategoricalHMM, GaussianHMM, GaussianMixture, KalmanFilter


class Update:
    """Rows of a mixture."""

    params = (["full", "tied", "diag", "spherical"], [1, 10, 100, 1000], [0.0, 0.1])
    param_names = ("covariance_type", "n_rows", "missing")

    def setup(self, covariance_type, n_rows, missing):
        rng = np.random.default_rng(0)
        centres = 3.0 * rng.normal(size=(10, 16))

        def draw(n):
            X = centres[rng.integers(10, size=n)] + rng.normal(size=(n, 16))
            X[rng.random(X.shape) < missing] = np.nan
            return X

        self.batch = draw(n_rows)
        self.mixture = GaussianMixture(
            10, covariance_type=covariance_type, n_jobs=1, random_state=0
        ).partial_fit(draw(1000))
        while self.mixture.n_rows_kept_:
            self.mixture.partial_fit(draw(1000))

    def time_partial_fit(self, covariance_type, n_rows, missing):
        self.mixture.partial_fit(self.batch)


class Piece:
    """Ten rows of a sequence, complete or the next of an endless one."""

    params = ([GaussianHMM, CategoricalHMM, KalmanFilter], [False, True])
    param_names = ("model", "continues")

    def setup(self, model, continues):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(5_000, 3))
        if model is CategoricalHMM:
            X = rng.integers(5, size=(5_000, 1))
        self.model, self.piece = model(3, n_jobs=1, random_state=0), X[:10]
        for piece in np.split(X, 10):
            self.model.partial_fit(piece, continues=continues)

    def time_partial_fit(self, model, continues):
        self.model.partial_fit(self.piece, continues=continues)

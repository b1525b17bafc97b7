"""Mixtures of regressions for the laws of mixtures, whose data are rows alone."""

import numpy as np

from cases.estimator_cases import EstimatorCase, output_clusters
from sklearn_onlineem import RegressionMixture


def parts(X):
    """Inputs, which are about half of the columns, and targets."""
    return np.hsplit(X, [X.shape[1] // 2])


class RegressionOfRows(RegressionMixture):
    """Takes rows of inputs and targets as one array, so that laws of mixtures apply."""

    def fit(self, X):
        return super().fit(*parts(X))

    def partial_fit(self, X):
        return super().partial_fit(*parts(X))

    def predict(self, X):
        return np.stack(super().predict(parts(X)[0], return_std=True))

    def predict_proba(self, X):
        return self.responsibilities(*parts(X))

    def score(self, X):
        return self.score_samples(X).mean()

    def score_samples(self, X):
        return self.log_density(*parts(X))

    def bic(self, X):
        return super().bic(*parts(X))

    def aic(self, X):
        return super().aic(*parts(X))

    def sample(self, n_samples=1):
        return super().sample(np.linspace(-1.0, 1.0, 2 * n_samples).reshape(-1, 2))


REGRESSIONS = [
    EstimatorCase(RegressionOfRows, output_clusters, {"covariance_type": noise}, noise)
    for noise in ("full", "diag", "spherical")
]

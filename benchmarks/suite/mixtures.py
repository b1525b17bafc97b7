"""EM passes and stream updates of the mixtures."""

import numpy as np
from scipy import sparse

from sklearn_onlineem import GaussianMixture, MultinomialMixture, PoissonMixture


class GaussianPass:
    """One pass of batch EM, and one online."""

    params = (["full", "tied", "diag", "spherical"], ["batch", "online"], ["float32", "float64"])
    param_names = ("covariance_type", "solver", "dtype")

    def setup(self, covariance_type, solver, dtype):
        self.X = np.random.default_rng(0).normal(size=(50_000, 16)).astype(dtype)
        self.mixture = GaussianMixture(
            10, covariance_type=covariance_type, solver=solver, init="random_from_data",
            max_iter=1, tol=0, n_jobs=1, random_state=0,
        )  # fmt: skip

    def time_fit(self, covariance_type, solver, dtype):
        self.mixture.fit(self.X)

    def peakmem_fit(self, covariance_type, solver, dtype):
        self.mixture.fit(self.X)


class CountsPass:
    """One pass of batch EM over counts, dense and CSR, or one sweep of Gibbs sampling."""

    params = ([PoissonMixture, MultinomialMixture], ["dense", "CSR"], ["batch", "gibbs"])
    param_names = ("mixture", "layout", "solver")

    def setup(self, mixture, layout, solver):
        X = np.random.default_rng(0).poisson(0.5, size=(20_000, 100)).astype(float)
        self.X = sparse.csr_array(X) if layout == "CSR" else X
        self.mixture = mixture(
            10, solver=solver, init="random_from_data", max_iter=1, tol=0, n_jobs=1, random_state=0,
            prior={"rate": 1.0} if mixture is PoissonMixture else {"concentration": 2.0},
        )  # fmt: skip

    def time_fit(self, mixture, layout, solver):
        self.mixture.fit(self.X)


class Update:
    """`partial_fit` of a small batch."""

    params = [1, 10, 100, 1000]
    param_names = ("n_rows",)

    def setup(self, n_rows):
        rng = np.random.default_rng(0)
        self.batch = rng.normal(size=(n_rows, 16))
        self.mixture = GaussianMixture(10, random_state=0, n_jobs=1)
        self.mixture.partial_fit(rng.normal(size=(1000, 16)))

    def time_partial_fit(self, n_rows):
        self.mixture.partial_fit(self.batch)

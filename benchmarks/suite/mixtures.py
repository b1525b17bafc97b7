"""EM passes of mixtures of Gaussians."""

import numpy as np

from sklearn_onlineem import GaussianMixture


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


class ManyComponents:
    """A default fit of many components, with its start."""

    def setup(self):
        rng = np.random.default_rng(0)
        centres = 3.0 * rng.normal(size=(200, 8))
        self.X = centres[rng.integers(200, size=20_000)] + rng.normal(size=(20_000, 8))
        self.mixture = GaussianMixture(200, covariance_type="diag", n_jobs=1, random_state=0)
        self.mixture.set_params(max_iter=2, tol=0)

    def time_fit(self):
        self.mixture.fit(self.X)

    def peakmem_fit(self):
        self.mixture.fit(self.X)

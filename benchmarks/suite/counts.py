"""EM passes over counts, dense and CSR, sweeps of Gibbs sampling, and topics."""

import numpy as np
from scipy import sparse

from sklearn_onlineem import (
    CompoundDirichlet,
    LatentDirichletAllocation,
    MultinomialMixture,
    PoissonMixture,
)


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


class WideCounts:
    """`partial_fit` of ten documents of 50,000 words, of which each has some hundred."""

    params = [MultinomialMixture, LatentDirichletAllocation]
    param_names = ("model",)

    def setup(self, model):
        rng = np.random.default_rng(0)
        self.first, self.batch = (
            sparse.random_array(
                (n, 50_000), density=0.002, format="csr", rng=rng,
                data_sampler=lambda size: rng.geometric(0.5, size=size).astype(float),
            )
            for n in (500, 10)
        )  # fmt: skip
        self.model = model(50, n_jobs=1, random_state=0).partial_fit(self.first)

    def time_partial_fit(self, model):
        self.model.partial_fit(self.batch)


class Newton:
    """A compound Dirichlet to the maximum."""

    params = [10, 1000]
    param_names = ("n_words",)

    def setup(self, n_words):
        rng = np.random.default_rng(0)
        proportions = rng.dirichlet(rng.uniform(0.05, 0.5, n_words), 2_000)
        self.X = sparse.csr_array(rng.multinomial(100, proportions).astype(float))

    def time_fit(self, n_words):
        CompoundDirichlet(solver="newton", tol=0.0, n_jobs=1).fit(self.X)

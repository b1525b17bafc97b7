"""The contests of `speed`: data, parameters, and one EM pass by ours and by a rival."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from benchmarks._rows import rival
from benchmarks.floors import Operations
from benchmarks.rivals import numpy_gaussian, scipy_sparse_multinomial, sklearn_gaussian
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.families import Diagonal, Gaussian, Gaussians, Multinomial, Poisson, Spherical
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

daal4py_gaussian = rival("daal4py_gaussian")
faiss_kmeans = rival("faiss_kmeans")
pomegranate_poisson = rival("pomegranate_poisson")  # torch is large
numba_multinomial = rival("numba_multinomial")


@dataclass(frozen=True)
class Contest:
    """One EM pass, ours and a rival's, on the same data from the same parameters.

    Parameters
    ----------
    kind : str
        Of components.
    library : str
        Name of the rival.
    required : float
        How many times faster ours should be.
    sizes : tuple of int
        Numbers of rows, features and components, and further arguments of `make`.
    make : callable
        Given sizes, returns X and parameters.
    ours, rival : callable
        Given X, parameters and the number of threads, return a function that makes one pass and
        returns the mean log-likelihood. `rival` may be None.
    multiply_adds : callable
        Given sizes, returns the least number of multiply-adds for a row and a component.
    baseline : callable or None
        As `rival`, in NumPy or numba, without a number of threads.
    rel_tol : float or None
        By which the mean log-likelihoods may differ; None if the rival maximises something else.
    """

    kind: str
    library: str
    required: float
    sizes: tuple
    make: Callable
    ours: Callable
    rival: Callable | None
    multiply_adds: Callable
    baseline: Callable | None = None
    rel_tol: float | None = 1e-6

    @property
    def name(self):
        return f"{self.kind} {' x '.join(f'{n:,}' for n in self.sizes[:3])}"

    def draw(self, share=1.0):
        """X and parameters, of a share of the rows."""
        n_rows, *others = self.sizes
        fewest = min(n_rows, max(500, 40 * others[0]))
        return self.make(max(fewest, int(share * n_rows)), *others)

    def operations(self, X):
        """The least that a pass over X has to do."""
        n_components = self.sizes[2]
        work = X.shape[0] * n_components
        n_bytes = X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes
        return Operations(work * self.multiply_adds(*self.sizes[1:]), work, n_bytes)


# ----------------------------------------------------------------------------------------- data


def full_gaussians(n_rows, n_features, n_components):
    X, weights, means, rng = _gaussian_rows(n_rows, n_features, n_components)
    factors = rng.normal(scale=0.5, size=(n_components, n_features, n_features))
    covariances = np.eye(n_features) + factors @ factors.transpose(0, 2, 1) / n_features
    return X, (weights, means, covariances)


def diagonal_gaussians(n_rows, n_features, n_components):
    X, weights, means, rng = _gaussian_rows(n_rows, n_features, n_components)
    return X, (weights, means, rng.uniform(0.5, 2.0, size=means.shape))


def _gaussian_rows(n_rows, n_features, n_components):
    """Rows around overlapping centres, and parameters near theirs."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(n_components, n_features))
    X = means[rng.integers(n_components, size=n_rows)] + rng.normal(size=(n_rows, n_features))
    return X, rng.dirichlet(np.full(n_components, 10.0)), means + 0.1, rng


def spherical_gaussians(n_rows, n_features, n_components):
    X, weights, means, rng = _gaussian_rows(n_rows, n_features, n_components)
    return X, (weights, means, rng.uniform(0.5, 2.0, size=(n_components, 1)))


def single_spherical_gaussians(*sizes):
    X, parameters = spherical_gaussians(*sizes)
    return X.astype(np.float32), parameters


def counts(n_rows, n_features, n_components):
    rng = np.random.default_rng(0)
    rates = rng.gamma(2.0, 2.0, size=(n_components, n_features))
    X = rng.poisson(rates[rng.integers(n_components, size=n_rows)]).astype(np.float64)
    return X, (rng.dirichlet(np.full(n_components, 10.0)), 1.1 * rates)


def documents(n_rows, n_features, n_components, n_non_zeros):
    """Bags of words as CSR, with the same number of different words in each."""
    rng = np.random.default_rng(0)
    first = rng.integers(n_features, size=(n_rows, 1))
    words = np.sort((first + np.arange(n_non_zeros) * 71) % n_features, axis=1)
    occurrences = rng.geometric(0.5, size=words.size).astype(np.float64)
    ends = np.arange(0, words.size + 1, n_non_zeros, dtype=np.int32)
    parts = (occurrences, words.ravel().astype(np.int32), ends)
    probabilities = rng.dirichlet(np.full(n_features, 0.5), size=n_components) + 1e-9
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    weights = rng.dirichlet(np.full(n_components, 10.0))
    return sparse.csr_array(parts, (n_rows, n_features)), (weights, probabilities)


# --------------------------------------------------------------------------------------- passes


def one_pass(family, weights, parameters, rows):
    return batch_step(MixtureModel(family, weights, parameters), rows)[1]


def gaussian_pass(family, X, parameters, n_threads):
    """Covariances are factorised in each pass, as they are in a fit."""
    weights, means, covariances = parameters
    rows = Rows(X, n_threads=n_threads)
    return lambda: one_pass(family, weights, Gaussians(means, covariances), rows)


def poisson_pass(X, parameters, n_threads):
    """Factorials are computed in each pass, as the rival does."""
    return lambda: one_pass(Poisson(), *parameters, Rows(X, n_threads=n_threads))


def multinomial_pass(X, parameters, n_threads):
    """The coefficients are computed once for all passes, and subtracted: the rival has none."""
    family, rows = Multinomial(), Rows(X, n_threads=n_threads)
    constant = family.log_base_measure(X).mean()
    return lambda: one_pass(family, *parameters, rows) - constant


def sklearn_pass(covariance_type, X, parameters, n_threads):
    return sklearn_gaussian.em_pass(X, *parameters, covariance_type)


def onedal_pass(covariance_type, X, parameters, n_threads):
    return daal4py_gaussian.em_pass(X, *parameters, covariance_type, n_threads)


def faiss_pass(X, parameters, n_threads):
    """Rows belong to the nearest mean."""
    return faiss_kmeans.lloyd_pass(X, parameters[1], n_threads)


def scipy_pass(X, parameters, n_threads):
    return scipy_sparse_multinomial.em_pass(X, *parameters)


def pomegranate_pass(X, parameters, n_threads):
    return pomegranate_poisson.em_pass(X, *parameters, n_threads)


# The name in scikit-learn, the family, the data, and the least number of multiply-adds for a row
# and a component: of full covariances, a triangle for the density and one for the scatter.
COVARIANCES = {
    "full": ("full", Gaussian(), full_gaussians, lambda d, k: d * (d + 1)),
    "diagonal": ("diag", Gaussian(Diagonal()), diagonal_gaussians, lambda d, k: 4 * d),
    "spherical": ("spherical", Gaussian(Spherical()), spherical_gaussians, lambda d, k: 2 * d),
}


def gaussians(covariance, library, required, *sizes):
    """With a baseline beside scikit-learn."""
    covariance_type, family, make, multiply_adds = COVARIANCES[covariance]
    theirs = {"scikit-learn": sklearn_pass, "oneDAL": daal4py_gaussian and onedal_pass}[library]
    numpy = partial(numpy_gaussian.em_pass, covariance_type=covariance_type)
    return Contest(
        f"{covariance} Gaussians", library, required, sizes, make, partial(gaussian_pass, family),
        theirs and partial(theirs, covariance_type), multiply_adds,
        numpy if library == "scikit-learn" and covariance != "spherical" else None,
    )  # fmt: skip


CONTESTS = (
    gaussians("full", "scikit-learn", 8.0, 200_000, 16, 32),
    gaussians("full", "scikit-learn", 3.8, 100_000, 64, 10),
    gaussians("full", "scikit-learn", 2.2, 20_000, 256, 10),
    gaussians("full", "oneDAL", 2.0, 200_000, 16, 32),
    gaussians("full", "oneDAL", 2.0, 100_000, 64, 10),
    gaussians("full", "oneDAL", 2.0, 20_000, 256, 10),
    gaussians("diagonal", "scikit-learn", 5.0, 1_000_000, 16, 32),
    gaussians("diagonal", "oneDAL", 2.0, 1_000_000, 16, 32),
    gaussians("spherical", "scikit-learn", 5.0, 1_000_000, 16, 32),
    Contest(
        "spherical Gaussians, single precision", "faiss (k-means)", 0.8, (1_000_000, 16, 32),
        single_spherical_gaussians, partial(gaussian_pass, Gaussian(Spherical())),
        faiss_kmeans and faiss_pass, COVARIANCES["spherical"][-1], rel_tol=None,
    ),
    Contest(
        "Poissons", "pomegranate", 80.0, (500_000, 8, 16), counts,
        poisson_pass, pomegranate_poisson and pomegranate_pass, lambda d, k: 2 * d,
    ),
    Contest(
        "CSR counts, multinomials", "scipy", 2.0, (100_000, 5_000, 20, 60), documents,
        multinomial_pass, scipy_pass, lambda d, k, n_non_zeros: 2 * n_non_zeros,
        numba_multinomial and numba_multinomial.em_pass,
    ),
)  # fmt: skip

"""The centred Gaussian kernels against their formulas in NumPy, and against long doubles."""

import numpy as np
import pytest
from cases.kernel_formulas import normalise_numpy, task
from numpy.testing import assert_allclose
from scipy.linalg import rq
from scipy.special import softmax

from sklearn_onlineem._kernels._gaussian import mixture_pass
from sklearn_onlineem._kernels._responsibilities import normalise

KINDS = ["full", "shared", "diagonal"]
TOLERANCE = {np.float64: {"rtol": 1e-10, "atol": 1e-10}, np.float32: {"rtol": 2e-4, "atol": 2e-3}}

by_kind = pytest.mark.parametrize("kind", KINDS)
by_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


class Problem:
    """Rows, and a random mixture of K Gaussians."""

    def __init__(self, kind, n, d, K, dtype=np.float64):
        rng = np.random.default_rng(0)
        self.kind, self.X = kind, rng.normal(size=(n, d)).astype(dtype)
        self.means, self.offset = rng.normal(size=(K, d)), rng.normal(size=K)
        if kind == "diagonal":
            self.factors = rng.uniform(0.5, 1.0, size=(K, d))
        else:
            noise = rng.normal(size=(1 if kind == "shared" else K, d, d)) / d
            self.factors = np.triu(noise) + np.eye(d)

    def outputs(self):
        K, d = self.means.shape
        return np.empty(K), np.empty((K, d)), np.empty_like(self.factors)

    def e_step(self, n_threads=1):
        log_likelihoods = np.empty(len(self.X))
        wanted = task(log_likelihoods=log_likelihoods)
        sums = self.outputs()
        total = mixture_pass(
            self.X, self.means, self.factors, self.offset, wanted, *sums, n_threads
        )
        return total, *sums, log_likelihoods

    def log_density(self, n_threads=1):
        out = np.empty((len(self.X), len(self.means)), self.X.dtype)
        mixture_pass(
            self.X, self.means, self.factors, self.offset, task(out=out), None, None, None,
            n_threads,
        )  # fmt: skip
        return out

    def statistics(self, responsibilities, n_threads=1):
        out = self.outputs()
        given = task(given=responsibilities)
        mixture_pass(self.X, self.means, None, None, given, *out, n_threads)
        return out

    def log_density_formula(self):
        residuals = self.X[:, None, :] - self.means
        if self.kind == "diagonal":
            whitened = residuals * self.factors
        else:
            whitened = np.einsum("nki,kij->nkj", residuals, self.triangles())
        return self.offset - 0.5 * (whitened**2).sum(axis=2)

    def triangles(self):
        K, d = self.means.shape
        return np.broadcast_to(self.factors, (K, d, d))

    def statistics_formula(self, responsibilities):
        residuals = self.X[:, None, :] - self.means
        sums = {"full": "nk,nki,nkj->kij", "shared": "nk,nki,nkj->ij", "diagonal": "nk,nki,nki->ki"}
        second = np.einsum(sums[self.kind], responsibilities, residuals, residuals, optimize=True)
        first = np.einsum("nk,nki->ki", responsibilities, residuals)
        return responsibilities.sum(axis=0), first, second.reshape(self.factors.shape)

    def e_step_formula(self):
        responsibilities, log_likelihoods, total = normalise_numpy(self.log_density_formula())
        return total, *self.statistics_formula(responsibilities), log_likelihoods


@by_kind
@by_dtype
@pytest.mark.parametrize(
    ("n", "d", "K"),
    [
        (1, 1, 1),
        (1, 16, 10),
        (7, 1, 3),
        (700, 5, 1),
        (1500, 16, 4),
        (90, 38, 2),
        (65, 64, 2),
        (65, 65, 2),
        (300, 100, 3),
    ],
)
def test_agrees_with_the_formulas(kind, dtype, n, d, K):
    problem = Problem(kind, n, d, K, dtype)
    tolerance = TOLERANCE[dtype]
    for actual, expected in zip(problem.e_step(), problem.e_step_formula(), strict=True):
        assert_allclose(actual, expected, **tolerance)
    assert_allclose(problem.log_density(), problem.log_density_formula(), **tolerance)
    responsibilities = np.random.default_rng(1).uniform(size=(n, K)).astype(dtype)
    expected = problem.statistics_formula(responsibilities.astype(np.float64))
    for actual, reference in zip(problem.statistics(responsibilities), expected, strict=True):
        assert_allclose(actual, reference, **tolerance)


@by_kind
@pytest.mark.parametrize("place", [0.0, 1e8])
@pytest.mark.parametrize("separation", [1.0, 1e6])
def test_log_densities_keep_their_digits(kind, place, separation):
    """1e-8 of long doubles at condition number 1e10, far from the origin and far apart."""
    rng = np.random.default_rng(2)
    n, d, K = 200, 16, 5
    problem = Problem(kind, n, d, K)
    scales = np.geomspace(1e-5, 1.0, d)
    if kind == "diagonal":
        problem.factors = np.tile(1 / scales, (K, 1))
        triangles = np.array([np.diag(row) for row in problem.factors])
    else:
        rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
        problem.factors[:] = rq(rotation / scales)[0]
        triangles = problem.triangles()
    problem.means = place + separation * rng.normal(size=(K, d))
    problem.X = problem.means[rng.integers(K, size=n)] + rng.normal(size=(n, d))
    residuals = problem.X[:, None, :].astype(np.longdouble) - problem.means
    whitened = (residuals[:, :, :, None] * triangles.astype(np.longdouble)).sum(axis=2)
    expected = problem.offset - (whitened**2).sum(axis=2) / 2
    assert_allclose(problem.log_density(), expected.astype(np.float64), rtol=1e-8)


@by_kind
def test_float32_differences_are_taken_in_double(kind):
    """Rows are exact in float32, means are not: their rounding must not enter."""
    problem = Problem(kind, 400, 8, 3, np.float32)
    problem.X = np.round(problem.X * 64) / 64 + np.float32(1e4)
    problem.means = problem.means + 1e4
    assert_allclose(problem.log_density(), problem.log_density_formula(), rtol=2e-5, atol=2e-5)


def test_rows_without_share_leave_no_trace():
    problem = Problem("full", 300, 4, 2)
    responsibilities = np.random.default_rng(3).uniform(size=(300, 2))
    responsibilities[::2, 0] = 0.0
    responsibilities[:, 1] = 0.0
    problem.X[::2] = 1e300
    counts, first, second = problem.statistics(responsibilities)
    problem.X, responsibilities = problem.X[1::2].copy(), responsibilities[1::2].copy()
    for actual, expected in zip(
        (counts, first, second), problem.statistics_formula(responsibilities), strict=True
    ):
        assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@by_dtype
@pytest.mark.parametrize("place", [0.0, 1e8])
@pytest.mark.parametrize("separation", [1.0, 100.0, 1e4, 1e8])
def test_shared_moments_keep_their_digits(dtype, place, separation):
    """Pooled about a centre, whitened, or neither: the distance of the components decides."""
    rng = np.random.default_rng(4)
    n, d, K = 700, 5, 4
    problem = Problem("shared", n, d, K)
    centres = separation * rng.normal(size=(K, d))
    rows = (place + centres[rng.integers(K, size=n)] + rng.normal(size=(n, d))).astype(dtype)
    problem.X, problem.means = rows, place + centres + 0.1 * rng.normal(size=(K, d))
    _, *found, _ = problem.e_step()
    responsibilities = problem.log_density()
    normalise(responsibilities, task())
    residuals = problem.X[:, None, :].astype(np.longdouble) - problem.means
    first = np.einsum("nk,nki->ki", responsibilities, residuals)
    second = np.einsum("nk,nki,nkj->ij", responsibilities, residuals, residuals)[None]
    tolerance = {np.float64: 1e-10, np.float32: 2e-4}[dtype]
    most = tolerance * second.max()
    for actual, expected in zip(found, (responsibilities.sum(axis=0), first, second), strict=True):
        assert_allclose(actual, expected.astype(float), rtol=0.0, atol=most)
    squares = ((residuals @ problem.factors[0].astype(np.longdouble)) ** 2).sum(axis=2)
    log_joint = (problem.offset - 0.5 * squares).astype(float)
    assert_allclose(responsibilities, softmax(log_joint, axis=1), rtol=0.0, atol=tolerance)

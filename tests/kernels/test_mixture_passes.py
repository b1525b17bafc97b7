"""The kernels that pass over rows of mixtures against their formulas, and against long doubles."""

import numpy as np
import pytest
from cases.kernel_formulas import DTYPES, NONE, normalise_numpy, options_for, task, tolerance
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import rq
from scipy.special import gammaln, softmax

from sklearn_onlineem._kernels import _counts, _gaussian, _natural
from sklearn_onlineem._kernels._counts import log_factorial_sums
from sklearn_onlineem._kernels._natural import LINEAR, PRODUCTS, SQUARE_SUM, SQUARES
from sklearn_onlineem._kernels._responsibilities import normalise
from sklearn_onlineem.data.sparse import csr_parts

FEATURES = {
    LINEAR: lambda x: x,
    SQUARES: lambda x: np.hstack([x, x**2]),
    SQUARE_SUM: lambda x: np.hstack([x, (x**2).sum(axis=1, keepdims=True)]),
    PRODUCTS: lambda x: np.hstack([x, *(x[:, i : i + 1] * x[:, i:] for i in range(x.shape[1]))]),
}
KINDS = ["full", "shared", "diagonal"]
by_dtype = pytest.mark.parametrize("dtype", DTYPES)
by_kind = pytest.mark.parametrize("kind", KINDS)


class Pass:
    """Rows X (n, d), K components, and what a kernel sums up of these, which has some shapes."""

    digits = None

    def __init__(self, n, d, K, dtype=np.float64):
        self.rng = np.random.default_rng([n, d, K])
        self.draw(n, d, K)
        self.X = self.X.astype(dtype)
        self.offset, self.base = self.rng.standard_normal(K), self.rng.standard_normal(n)

    def run(self, wanted, is_known=True, n_threads=1):
        """Counts, other sums, and the total."""
        sums = [np.full(shape, np.nan) for shape in ((len(self.offset),), *self.shapes)]
        known = (self.parameters, self.offset) if is_known else (None, None)
        return *sums, self.kernel(*self.data, *known, wanted, *sums, n_threads)

    def e_step(self, *options, **threads):
        """And log-likelihoods of rows."""
        rows = np.empty(len(self.X))
        wanted = task(*options, log_likelihoods=rows, base=self.base)
        return *self.run(wanted, **threads), rows

    def e_step_formula(self, *options):
        shares, rows, total = normalise_numpy(self.log_densities() + self.base[:, None], *options)
        return shares.sum(axis=0), *self.sums(shares), total, rows

    def kernels_log_densities(self, base=None):
        out = np.empty((len(self.X), len(self.offset)), self.X.dtype)
        none = [None] * (1 + len(self.shapes))
        self.kernel(*self.data, self.parameters, self.offset, task(base=base, out=out), *none, 1)
        return out

    def assert_close(self, found, expected):
        for result, reference in zip(found, expected, strict=True):
            assert_allclose(result, reference, **self.tolerance(self.X.dtype, len(self.X)))

    def assert_e_step(self, *options):
        self.assert_close(self.e_step(*options), self.e_step_formula(*options))


class Natural(Pass):
    """Exponential families by features of rows."""

    kernel, tolerance = staticmethod(_natural.mixture_pass), staticmethod(tolerance)

    def __init__(self, features, *arguments):
        self.features = features
        super().__init__(*arguments)

    def draw(self, n, d, K):
        self.X, self.centre = self.rng.standard_normal((n, d)) + 3, 3 + self.rng.random(d)
        p = self.phi().shape[1]
        self.parameters = self.rng.standard_normal((K, p)) / np.sqrt(p)
        self.shapes = [(K, p)]

    def phi(self):
        return FEATURES[self.features](self.X.astype(float) - self.centre)

    @property
    def data(self):
        return self.X, self.digits, self.centre, self.features

    def log_densities(self):
        return self.phi() @ self.parameters.T + self.offset

    def sums(self, shares):
        return (shares.T @ self.phi(),)


class Counts(Pass):
    """Rows of sparse counts."""

    kernel, tolerance = staticmethod(_counts.mixture_pass), staticmethod(tolerance)

    def draw(self, n, d, K):
        self.X = self.rng.poisson(1.0, (n, d)) * (self.rng.random((n, d)) < 0.3)
        self.X[n // 2] = 0
        self.parameters = np.log(self.rng.dirichlet(np.ones(d), K).T.copy() + 1e-3)
        self.shapes = [(d, K)]

    @property
    def data(self):
        return csr_parts(sparse.csr_array(self.X))

    def log_densities(self):
        return self.X.astype(float) @ self.parameters + self.offset

    def sums(self, shares):
        return (self.X.astype(float).T @ shares,)


class Centred(Pass):
    """Gaussians by residuals about their means, with triangles, one for all, or diagonals."""

    kernel = staticmethod(_gaussian.mixture_pass)

    def __init__(self, kind, *arguments):
        self.kind = kind
        super().__init__(*arguments)

    @staticmethod
    def tolerance(dtype, n):
        is_double = dtype == np.float64
        return {"rtol": 1e-10, "atol": 1e-10} if is_double else {"rtol": 2e-4, "atol": 2e-3}

    def draw(self, n, d, K):
        self.X, self.means = self.rng.normal(size=(n, d)), self.rng.normal(size=(K, d))
        if self.kind == "diagonal":
            self.parameters = self.rng.uniform(0.5, 1.0, size=(K, d))
        else:
            noise = self.rng.normal(size=(1 if self.kind == "shared" else K, d, d)) / d
            self.parameters = np.triu(noise) + np.eye(d)
        self.shapes = [(K, d), self.parameters.shape]

    @property
    def data(self):
        return self.X, self.means

    @property
    def triangles(self):
        if self.kind == "diagonal":
            return self.parameters[:, :, None] * np.eye(self.means.shape[1])
        return np.broadcast_to(self.parameters, (*self.means.shape, self.means.shape[1]))

    def log_densities(self):
        residuals = self.X[:, None, :] - self.means
        whitened = np.einsum("nki,kij->nkj", residuals, self.triangles)
        return self.offset - 0.5 * (whitened**2).sum(axis=2)

    def sums(self, shares):
        residuals = self.X[:, None, :] - self.means
        sums = {"full": "nk,nki,nkj->kij", "shared": "nk,nki,nkj->ij", "diagonal": "nk,nki,nki->ki"}
        second = np.einsum(sums[self.kind], shares, residuals, residuals, optimize=True)
        first = np.einsum("nk,nki->ki", shares, residuals)
        return first, second.reshape(self.parameters.shape)


NATURAL = [(1, 1, 1), (1, 16, 10), (7, 3, 1), (300, 5, 3), (1, 3, 40), (3000, 4, 2)]
# K is no multiple of a tile, of a strip, or of a vector; the rows have several slabs, or one.
SPARSE = [(1, 1, 1), (1, 50, 10), (7, 3, 1), (300, 40, 9), (2, 5, 40), (3000, 20, 3),
          (10_000, 6, 5), (10_000, 3, 33), (300, 40, 50), (40, 900, 71)]  # fmt: skip
DENSE = [(1, 1, 1), (1, 16, 10), (7, 1, 3), (700, 5, 1), (1500, 16, 4), (90, 38, 2), (65, 64, 2),
         (65, 65, 2), (300, 100, 3)]  # fmt: skip
PASSES = [
    *((Natural, features, *shape) for features in FEATURES for shape in NATURAL),
    *((Counts, *shape) for shape in SPARSE),
    *((Centred, kind, *shape) for kind in KINDS for shape in DENSE),
]
all_passes = pytest.mark.parametrize(
    ("make", "arguments"), [(make, arguments) for make, *arguments in PASSES]
)


def options_of(rows):
    """Weights, labels and uniforms.

    A uniform on the border of a rounded share goes either way, so float32 is left to the tests of
    responsibilities.
    """
    weights, labels, uniforms = options_for(len(rows.X), len(rows.offset))
    return weights, labels, NONE if rows.X.dtype == np.float32 else uniforms


@all_passes
@by_dtype
@pytest.mark.parametrize("has_options", [False, True])
def test_e_steps(make, arguments, dtype, has_options):
    rows = make(*arguments, dtype)
    rows.assert_e_step(*(options_of(rows) if has_options else ()))


@all_passes
@by_dtype
def test_log_densities_and_statistics(make, arguments, dtype):
    rows, expected = make(*arguments, dtype), make(*arguments, dtype).log_densities()
    tolerances = rows.tolerance(dtype, 1)
    assert_allclose(rows.kernels_log_densities(), expected, **tolerances)
    found = rows.kernels_log_densities(rows.base)
    assert_allclose(found, expected + rows.base[:, None], **tolerances)
    shares = rows.rng.random(expected.shape).astype(dtype)
    *found, _ = rows.run(task(given=shares), is_known=False)
    shares = shares.astype(float)
    rows.assert_close(found, (shares.sum(axis=0), *rows.sums(shares)))


# -------------------------------------------------------------------------------------- features


@by_dtype
@pytest.mark.parametrize(("n", "d", "K"), NATURAL)
@pytest.mark.parametrize("n_digits", [1, 7, 80])
def test_digits_are_features_like_others(n, d, K, n_digits, dtype):
    rows = Natural(LINEAR, n, d + n_digits, K, dtype)
    digits = np.random.default_rng(0).integers(0, 256, (n_digits, n), dtype=np.uint8)
    digits[:-1] %= 2
    rows.parameters[:, -1] /= 256.0
    rows.X[:, d:], rows.centre[d:] = digits.T, 0.0
    options = options_for(n, K)
    expected = rows.e_step(*options)
    rows.X, rows.centre = np.ascontiguousarray(rows.X[:, :d]), rows.centre[:d].copy()
    rows.digits = digits
    for n_threads in (1, 2):
        for result, reference in zip(
            rows.e_step(*options, n_threads=n_threads), expected, strict=True
        ):
            assert_array_equal(result, reference)
    rows.features = SQUARES
    with pytest.raises(ValueError, match="digits stand beside linear"):
        rows.e_step(*options)


@pytest.mark.parametrize("K", range(1, 21))
def test_products_of_any_number_of_columns(K):
    for d in range(1, 41):
        # A whole block, and whatever is left of a vector.
        rows = Natural(PRODUCTS, 265 + d, d, K, DTYPES[(K + d // 2) % 2])
        rows.assert_e_step(*(options_of(rows) if (K + d) % 2 else ()))


@by_dtype
@pytest.mark.parametrize("d", [1, 2, 7, 31, 64, 65])  # the last is BLAS's
@pytest.mark.parametrize("K", [1, 5, 12, 13, 25])
def test_a_few_linear_features(K, d, dtype):
    for n in (1, 31, 600):
        Natural(LINEAR, n, d, K, dtype).assert_e_step()


def test_a_component_without_weight_spoils_no_others():
    rows = Natural(PRODUCTS, 21, 3, 4)
    rows.offset[1] = -np.inf
    rows.assert_e_step()


def test_float32_rows_far_from_zero_lose_nothing_to_the_centre():
    near, far = (Natural(PRODUCTS, 500, 3, 4, np.float32) for _ in range(2))
    far.X += np.float32(2.0**12)
    near.X, far.centre = far.X - np.float32(2.0**12), far.centre + 2.0**12
    for result, reference in zip(far.e_step(), near.e_step(), strict=True):
        assert_allclose(result, reference, rtol=1e-4, atol=1e-3)


def test_sums_of_float32_go_on_in_double():
    rows = Natural(LINEAR, 2**18, 1, 1, np.float32)
    rows.X[:], rows.centre[:], rows.parameters[:] = 0.1, 0.0, 0.0
    counts, totals, *_ = rows.e_step()
    assert_allclose(counts, 2**18, rtol=0)
    assert_allclose(totals[0], 2**18 * float(rows.X[0, 0]), rtol=1e-5)


# ---------------------------------------------------------------------------------------- counts


@by_dtype
def test_unsorted_and_repeated_indices(dtype):
    rng, (n, d, K) = np.random.default_rng(0), (400, 9, 20)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 15, n))])
    indices = rng.integers(0, d, indptr[-1]).astype(np.int32)
    data = rng.integers(1, 4, indptr[-1]).astype(dtype)

    class Given(Counts):
        data = property(lambda self: parts)

    rows, parts = Given(n, d, K, dtype), (data, indices, indptr)
    rows.X = sparse.csr_array((data.astype(float), indices, indptr), (n, d)).toarray()
    found, expected = rows.e_step(), rows.e_step_formula()
    for result, reference in zip(found[:2], expected[:2], strict=True):
        assert_allclose(result, reference, **tolerance(dtype, n))


# Equal terms are rounded the same way again and again.
@pytest.mark.parametrize("share", [0.05, 1 / 3, 0.7])
@pytest.mark.parametrize("largest", [1, 10**6])
def test_single_precision_keeps_its_digits_in_long_sums(share, largest):
    rows, rng = Counts(100_000, 4, 3, np.float32), np.random.default_rng(0)
    rows.X = rng.integers(1, largest, rows.X.shape, endpoint=True).astype(np.float32)
    shares = np.full((len(rows.X), 3), share, np.float32)
    counts, totals_T, _ = rows.run(task(given=shares), is_known=False)
    assert_allclose(counts, shares.sum(axis=0, dtype=float), rtol=5e-5)
    assert_allclose(totals_T, *rows.sums(shares.astype(float)), rtol=5e-5)


# ------------------------------------------------------------------------------------- residuals


@by_kind
@pytest.mark.parametrize("place", [0.0, 1e8])
@pytest.mark.parametrize("separation", [1.0, 1e6])
def test_log_densities_keep_their_digits(kind, place, separation):
    """1e-8 of long doubles at condition number 1e10, far from the origin and far apart."""
    rng, (n, d, K) = np.random.default_rng(2), (200, 16, 5)
    rows, scales = Centred(kind, n, d, K), np.geomspace(1e-5, 1.0, d)
    if kind == "diagonal":
        rows.parameters = np.tile(1 / scales, (K, 1))
    else:
        rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
        rows.parameters[:] = rq(rotation / scales)[0]
    rows.means = place + separation * rng.normal(size=(K, d))
    rows.X = rows.means[rng.integers(K, size=n)] + rng.normal(size=(n, d))
    residuals = rows.X[:, None, :].astype(np.longdouble) - rows.means
    whitened = (residuals[:, :, :, None] * rows.triangles.astype(np.longdouble)).sum(axis=2)
    expected = rows.offset - (whitened**2).sum(axis=2) / 2
    assert_allclose(rows.kernels_log_densities(), expected.astype(np.float64), rtol=1e-8)


@by_kind
def test_float32_differences_are_taken_in_double(kind):
    """Rows are exact in float32, means are not: their rounding must not enter."""
    rows = Centred(kind, 400, 8, 3, np.float32)
    rows.X = np.round(rows.X * 64) / 64 + np.float32(1e4)
    rows.means = rows.means + 1e4
    assert_allclose(rows.kernels_log_densities(), rows.log_densities(), rtol=2e-5, atol=2e-5)


def test_rows_without_share_leave_no_trace():
    rows, shares = Centred("full", 300, 4, 2), np.random.default_rng(3).uniform(size=(300, 2))
    shares[::2, 0] = shares[:, 1] = 0.0
    rows.X[::2] = 1e300
    *found, _ = rows.run(task(given=shares), is_known=False)
    rows.X, shares = rows.X[1::2].copy(), shares[1::2].copy()
    for result, reference in zip(found, (shares.sum(axis=0), *rows.sums(shares)), strict=True):
        assert_allclose(result, reference, rtol=1e-12, atol=1e-12)


@by_dtype
@pytest.mark.parametrize("place", [0.0, 1e8])
@pytest.mark.parametrize("separation", [1.0, 100.0, 1e4, 1e8])
def test_shared_moments_keep_their_digits(dtype, place, separation):
    """Pooled about a centre, whitened, or neither: the distance of the components decides."""
    rng, (n, d, K) = np.random.default_rng(4), (700, 5, 4)
    rows, centres = Centred("shared", n, d, K), separation * rng.normal(size=(K, d))
    rows.X = (place + centres[rng.integers(K, size=n)] + rng.normal(size=(n, d))).astype(dtype)
    rows.means = place + centres + 0.1 * rng.normal(size=(K, d))
    rows.base[:] = 0.0
    *found, _, _ = rows.e_step()
    shares = rows.kernels_log_densities()
    normalise(shares, task())
    residuals = rows.X[:, None, :].astype(np.longdouble) - rows.means
    first = np.einsum("nk,nki->ki", shares, residuals)
    second = np.einsum("nk,nki,nkj->ij", shares, residuals, residuals)[None]
    precision = {np.float64: 1e-10, np.float32: 2e-4}[dtype]
    for result, reference in zip(found, (shares.sum(axis=0), first, second), strict=True):
        assert_allclose(result, reference.astype(float), rtol=0.0, atol=precision * second.max())
    squares = ((residuals @ rows.parameters[0].astype(np.longdouble)) ** 2).sum(axis=2)
    log_joint = (rows.offset - 0.5 * squares).astype(float)
    assert_allclose(shares, softmax(log_joint, axis=1), rtol=0.0, atol=precision)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_log_factorials(dtype, n_threads):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (40, 7)).astype(dtype)
    X[0] = [0, 1, 1023, 1024, 0.5, 1e15, 2**31]
    X[1] = 0
    csr = sparse.csr_array(X)
    csr = csr.data, csr.indptr.astype(np.int64)
    sums = gammaln(X.astype(float) + 1).sum(axis=1)
    coefficients = gammaln(X.sum(axis=1, dtype=float) + 1) - sums
    # Only a difference of sums near 1e16 is left of X[0].
    scale = np.abs(sums) + np.abs(coefficients)
    out = np.empty(len(X))
    for minus_that_of_the_sum, expected in ((False, sums), (True, coefficients)):
        for counts, indptr in ((X.ravel(), np.arange(0, X.size + 1, 7)), csr):
            log_factorial_sums(counts, indptr, minus_that_of_the_sum, out, n_threads)
            assert_allclose(out / (1 + scale), expected / (1 + scale), atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_factorials_of_uneven_rows(dtype):
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, (300, 5_000)) * (rng.random((300, 5_000)) < 0.002)
    X[7] = rng.poisson(3.0, 5_000)
    X[100, 9], X[200, :3] = 2_000, 1023
    X = X.astype(dtype)
    X[250, 1] = 0.25
    expected = gammaln(X.astype(float) + 1).sum(axis=1)
    csr = sparse.csr_array(X)
    out = np.empty(len(X))
    log_factorial_sums(X.ravel(), np.arange(0, X.size + 1, 5_000), False, out, 2)
    assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
    log_factorial_sums(csr.data, csr.indptr.astype(np.int64), False, out, 2)
    assert_allclose(out, expected, rtol=1e-12, atol=1e-12)

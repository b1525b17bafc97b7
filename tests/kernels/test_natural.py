"""The kernels of exponential families in natural form against their formulas in NumPy."""

import numpy as np
import pytest
from cases.kernel_formulas import DTYPES, NONE, normalise_numpy, options_for, task, tolerance
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._kernels._natural import LINEAR, PRODUCTS, SQUARE_SUM, SQUARES, mixture_pass

FEATURES = {
    LINEAR: lambda x: x,
    SQUARES: lambda x: np.hstack([x, x**2]),
    SQUARE_SUM: lambda x: np.hstack([x, (x**2).sum(axis=1, keepdims=True)]),
    PRODUCTS: lambda x: np.hstack([x, *(x[:, i : i + 1] * x[:, i:] for i in range(x.shape[1]))]),
}
SHAPES = [(1, 1, 1), (1, 16, 10), (7, 3, 1), (300, 5, 3), (1, 3, 40), (3000, 4, 2)]


def features_numpy(X, centre, features):
    return FEATURES[features](X.astype(float) - centre)


def problem(n, d, K, features, dtype=np.float64, seed=0):
    rng = np.random.default_rng([n, d, K, seed])
    X = (rng.standard_normal((n, d)) + 3).astype(dtype)
    centre = 3 + rng.random(d)
    p = features_numpy(X[:1], centre, features).shape[1]
    natural = rng.standard_normal((K, p)) / np.sqrt(p)
    return X, centre, natural, rng.standard_normal(K), rng.standard_normal(n)


def run(X, centre, features, natural, offset, base, *options, n_threads=1, digits=None):
    n, (K, p) = len(X), natural.shape
    counts, totals = np.full(K, np.nan), np.full((K, p), np.nan)
    log_likelihoods = np.empty(n)
    total = mixture_pass(
        X, digits, centre, features, natural, offset,
        task(*options, log_likelihoods=log_likelihoods, base=base), counts, totals, n_threads,
    )  # fmt: skip
    return counts, totals, log_likelihoods, total


def run_numpy(X, centre, features, natural, offset, base, *options):
    phi = features_numpy(X, centre, features)
    joint = phi @ natural.T + offset
    responsibilities, log_likelihoods, total = normalise_numpy(joint + base[:, None], *options)
    totals = responsibilities.T @ phi
    return responsibilities.sum(axis=0), totals, log_likelihoods, total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("n, d, K", SHAPES)
@pytest.mark.parametrize("with_options", [False, True])
def test_e_step(n, d, K, features, dtype, with_options):
    X, centre, natural, offset, base = problem(n, d, K, features, dtype)
    weights, labels, uniforms = options_for(n, K)
    # A uniform on the border of a rounded share goes either way, so float32 is left to the
    # kernel's own tests.
    if dtype == np.float32:
        uniforms = NONE
    options = (weights, labels, uniforms) if with_options else ()
    found = run(X, centre, features, natural, offset, base, *options)
    expected = run_numpy(X, centre, features, natural, offset, base, *options)
    for result, reference in zip(found, expected, strict=True):
        assert_allclose(result, reference, **tolerance(dtype, n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d", "K"), SHAPES)
@pytest.mark.parametrize("n_digits", [1, 7, 80])
def test_digits_are_features_like_others(n, d, K, n_digits, dtype):
    X, centre, natural, offset, base = problem(n, d + n_digits, K, LINEAR, dtype)
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 256, (n_digits, n), dtype=np.uint8)
    digits[:-1] %= 2
    natural[:, -1] /= 256.0
    X[:, d:], centre[d:] = digits.T, 0.0
    options = options_for(n, K)
    arguments = LINEAR, natural, offset, base, *options
    expected = run(X, centre, *arguments)
    reals, about = np.ascontiguousarray(X[:, :d]), centre[:d].copy()
    found = run(reals, about, *arguments, digits=digits)
    for result, reference in zip(found, expected, strict=True):
        assert_array_equal(result, reference)
    threads = run(reals, about, *arguments, digits=digits, n_threads=2)
    for result, reference in zip(found, threads, strict=True):
        assert_array_equal(result, reference)
    with pytest.raises(ValueError, match="digits stand beside linear"):
        run(reals, about, SQUARES, *arguments[1:], digits=digits)


@pytest.mark.parametrize("K", range(1, 21))
def test_products_of_any_number_of_columns(K):
    for d in range(1, 41):
        n = 265 + d  # a whole block, and whatever is left of a vector
        dtype = DTYPES[(K + d // 2) % 2]
        X, centre, natural, offset, base = problem(n, d, K, PRODUCTS, dtype)
        weights, labels, uniforms = options_for(n, K)
        options = (weights, labels, NONE if dtype == np.float32 else uniforms)
        arguments = X, centre, PRODUCTS, natural, offset, base, *(options if (K + d) % 2 else ())
        found = run(*arguments)
        for result, reference in zip(found, run_numpy(*arguments), strict=True):
            assert_allclose(result, reference, **tolerance(dtype, n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 7, 31, 64, 65])  # the last is BLAS's
@pytest.mark.parametrize("K", [1, 5, 12, 13, 25])
def test_a_few_linear_features(K, d, dtype):
    for n in (1, 31, 600):
        arguments = problem(n, d, K, LINEAR, dtype)
        arguments = (*arguments[:2], LINEAR, *arguments[2:])
        for result, reference in zip(run(*arguments), run_numpy(*arguments), strict=True):
            assert_allclose(result, reference, **tolerance(dtype, n))


def test_a_component_without_weight_spoils_no_others():
    X, centre, natural, offset, base = problem(21, 3, 4, PRODUCTS)
    offset[1] = -np.inf
    found = run(X, centre, PRODUCTS, natural, offset, base)
    expected = run_numpy(X, centre, PRODUCTS, natural, offset, base)
    for result, reference in zip(found, expected, strict=True):
        assert_allclose(result, reference, **tolerance(X.dtype, len(X)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("n, d, K", SHAPES)
@pytest.mark.parametrize("with_base", [False, True])
def test_log_density(n, d, K, features, dtype, with_base):
    X, centre, natural, offset, base = problem(n, d, K, features, dtype)
    out = np.empty((n, K), dtype)
    wanted = task(base=base if with_base else None, out=out)
    mixture_pass(X, None, centre, features, natural, offset, wanted, None, None, 1)
    expected = features_numpy(X, centre, features) @ natural.T + offset
    assert_allclose(out, expected + with_base * base[:, None], **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("n, d, K", SHAPES)
def test_statistics(n, d, K, features, dtype):
    X, centre, natural, _, _ = problem(n, d, K, features, dtype)
    responsibilities = np.random.default_rng(n).random((n, K)).astype(dtype)
    counts, totals = np.empty(K), np.empty(natural.shape)
    given = task(given=responsibilities)
    mixture_pass(X, None, centre, features, None, None, given, counts, totals, 1)
    phi = features_numpy(X, centre, features)
    assert_allclose(counts, responsibilities.sum(axis=0, dtype=float), **tolerance(dtype, n))
    assert_allclose(totals, responsibilities.T.astype(float) @ phi, **tolerance(dtype, n))


def test_float32_rows_far_from_zero_lose_nothing_to_the_centre():
    X, centre, natural, offset, base = problem(500, 3, 4, PRODUCTS, np.float32)
    far = X + np.float32(2.0**12)
    near = (far - np.float32(2.0**12)).astype(np.float32)
    found = run(far, centre + 2.0**12, PRODUCTS, natural, offset, base)
    expected = run(near, centre, PRODUCTS, natural, offset, base)
    for result, reference in zip(found, expected, strict=True):
        assert_allclose(result, reference, rtol=1e-4, atol=1e-3)


def test_sums_of_float32_go_on_in_double():
    X = np.full((2**18, 1), 0.1, np.float32)
    counts, totals, *_ = run(X, np.zeros(1), LINEAR, np.zeros((1, 1)), np.zeros(1), NONE)
    assert_allclose(counts, 2**18, rtol=0)
    assert_allclose(totals[0], 2**18 * float(X[0, 0]), rtol=1e-5)

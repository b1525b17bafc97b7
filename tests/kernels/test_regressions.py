"""Regressions on Gaussian noise: their kernels against the formulas in NumPy."""

import itertools

import numpy as np
import pytest
from cases.random_rows import positive_definite
from numpy.testing import assert_allclose
from scipy import linalg

from sklearn_onlineem._kernels import _regressions
from sklearn_onlineem.families import Diagonal, Full, Spherical
from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
from sklearn_onlineem.statistics import Moments

SIZES = [(0, 1), (0, 3), (1, 1), (3, 2), (5, 10), (20, 3)]
LEARNT = [
    set(names)
    for n in range(4)
    for names in itertools.combinations(("matrix", "offset", "covariance"), n)
]


def draw(rng, K, q, p):
    covariances = positive_definite(rng, K, p)
    return rng.standard_normal((K, p, q)), rng.standard_normal((K, p)), covariances


def draw_moments(rng, K, n, n_rows=80):
    """Moments of rows of each component, with weights that are not those of the scatters."""
    rows = rng.standard_normal((K, n_rows, n)) @ rng.standard_normal((n, n)) + 3.0
    mean = rows.mean(axis=1)
    deviations = rows - mean[:, None]
    weight = rng.uniform(1.0, 5.0, K)
    return weight, weight + 2.0, mean, deviations.mT @ deviations


def learnt_numpy(weight, degrees, mean, scatter, B, c, S, floor, learnt):
    """Matrix, offset and covariance of one regression, by the book."""
    q = B.shape[1]
    (mx, my), xx, yx = np.split(mean, [q]), scatter[:q, :q], scatter[q:, :q]
    if "matrix" in learnt and q:
        if "offset" not in learnt:
            xx, yx = xx + weight * np.outer(mx, mx), yx + weight * np.outer(my - c, mx)
        scale = np.sqrt(np.diag(xx))
        inverse = np.divide(1.0, scale, out=np.zeros(q), where=scale > 0.0)
        scaled = linalg.pinvh(xx * np.outer(inverse, inverse)) * np.outer(inverse, inverse)
        B = B + (yx - B @ xx) @ scaled
    if "offset" in learnt and weight > 0.0:
        c = my - B @ mx
    if "covariance" in learnt and degrees > 0.0:
        contrast, shift = np.hstack([-B, np.eye(len(B))]), my - B @ mx - c
        squares = contrast @ scatter @ contrast.T + weight * np.outer(shift, shift)
        S = squares / degrees + np.diag(floor)
    return B, c, S


def maximised(moments, known, floor, learnt):
    found = tuple(array.copy() for array in known)
    flags = [name in learnt for name in ("matrix", "offset", "covariance")]
    _regressions.maximise(moments, floor, *flags, found)
    return found


@pytest.mark.parametrize("q, p", SIZES)
@pytest.mark.parametrize("learnt", LEARNT, ids=sorted)
def test_the_m_step_is_that_of_the_formula(q, p, learnt, rng):
    moments, known = draw_moments(rng, 3, q + p), draw(rng, 3, q, p)
    floor = rng.uniform(0.1, 0.2, p)
    found = maximised(moments, known, floor, learnt)
    for k in range(3):
        expected = learnt_numpy(*(m[k] for m in moments), *(a[k] for a in known), floor, learnt)
        for array, wanted in zip(found, expected, strict=True):
            assert_allclose(array[k], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("units", [1.0, 1e-8])
@pytest.mark.parametrize("learnt", [{"matrix", "offset", "covariance"}, {"matrix"}], ids=len)
def test_directions_without_evidence_keep_their_coefficients(learnt, units, rng):
    """Two rows, and one input that never changes; units of the inputs do not matter."""
    q, p = 5, 2
    moments, known = draw_moments(rng, 1, q + p, n_rows=2), draw(rng, 1, q, p)
    scatter, floor = moments[3], np.zeros(p)
    scatter[:, 3], scatter[:, :, 3], moments[2][:, 3] = 0.0, 0.0, 0.0
    scale = np.append(np.full(q, units), np.ones(p))
    scatter *= np.outer(scale, scale)
    moments[2][:] *= scale
    known[0][:] /= units
    found = maximised(moments, known, floor, learnt)
    expected = learnt_numpy(*(m[0] for m in moments), *(a[0] for a in known), floor, learnt)
    for array, wanted in zip(found, expected, strict=True):
        assert_allclose(array[0], wanted, rtol=1e-8, atol=1e-8)
    assert_allclose(found[0][0, :, 3], known[0][0, :, 3], rtol=1e-14)
    assert np.linalg.eigvalsh(found[2][0]).min() > -1e-14


def test_nothing_is_learnt_from_nothing(rng):
    moments, known = draw_moments(rng, 2, 5), draw(rng, 2, 3, 2)
    for array in (*moments[:2], moments[3]):
        array[1] = 0.0
    found = maximised(moments, known, np.zeros(2), {"matrix", "offset", "covariance"})
    for array, before in zip(found, known, strict=True):
        assert_allclose(array[1], before[1], rtol=0)
        assert (array[0] != before[0]).any()


def empty(K):
    return np.empty((K, 0)), np.empty((K, 0, 0))


def test_singular_covariances_are_left_to_the_family(rng):
    """Along what both have no noise in there is no divergence; else it is infinite."""
    matrix, offset = np.zeros((3, 2, 0)), np.zeros((3, 2))
    flat, full = np.diag([1.0, 0.0]), np.eye(2)
    these = AffineGaussian(matrix, offset, np.array([flat, full, full]))
    others = AffineGaussian(matrix, offset, np.array([2.0 * flat, flat, full]))
    found, inputs = np.empty(3), (np.ones(3), *empty(3))
    _regressions.kl_divergences(these._arrays, others._arrays, inputs, found)
    assert np.isnan(found[:2]).all()
    divergences = LinearGaussian().kl_divergence(these, others)
    assert_allclose(divergences, [0.5 * (np.log(2.0) - 0.5), np.inf, 0.0], atol=1e-15)


@pytest.mark.parametrize("q, p", [(1, 1), (3, 2), (5, 10)])
@pytest.mark.parametrize("n", [1, 255, 600])
def test_the_largest_square_is_that_of_the_formula(n, q, p, rng):
    B, c, S = draw(rng, 1, q, p)
    weight, _, mean, xx = draw_moments(rng, 1, q)
    Y = 3.0 * rng.standard_normal((n, p))
    Y[rng.random(Y.shape) < 0.1] = np.nan
    deviations = np.nan_to_num(Y - B[0] @ mean[0] - c[0])
    covariance = S[0] + B[0] @ (xx[0] / weight[0]) @ B[0].T
    expected = np.einsum("ni,ni->n", deviations, np.linalg.solve(covariance, deviations.T).T)
    found = _regressions.largest_square(Y, (B, c, S), (weight, mean, xx))
    assert_allclose(found, expected.max(), rtol=1e-9)


def test_there_is_no_distance_by_a_covariance_that_is_not_positive_definite(rng):
    B, c, _ = draw(rng, 1, 2, 2)
    moments = np.ones(1), np.zeros((1, 2)), np.zeros((1, 2, 2))
    known = B, c, np.zeros((1, 2, 2))
    found = _regressions.largest_square(np.ones((3, 2)), known, moments)
    assert np.isnan(found)


def moved(known, about, v):
    arrays = tuple(array.copy() for array in known)
    return arrays, _regressions.move(arrays, *about, v)


@pytest.mark.parametrize("shape", [Full(), Diagonal(), Spherical()], ids=repr)
@pytest.mark.parametrize("q, p", SIZES)
@pytest.mark.parametrize("learnt", LEARNT[1:], ids=sorted)
def test_scores_are_derivatives_along_coordinates_of_the_formula(q, p, learnt, shape, rng):
    known = draw(rng, 1, q, p)
    inverse_root = np.linalg.inv(np.linalg.cholesky(positive_definite(rng, 1, q)[0]))
    # About 0, a matrix moves alone.
    origin = ("offset" in learnt) * rng.standard_normal(q)
    numbers = {"matrix": p * q, "offset": p, "covariance": shape.n_parameters(p)}
    has_matrix, v = q and "matrix" in learnt, rng.standard_normal(sum(numbers[n] for n in learnt))
    about = origin, inverse_root if has_matrix else np.empty(0), 0.3, 0.7, "offset" in learnt

    (B, c, S), rest = (array[0] for array in known), v
    L, change, W = np.linalg.cholesky(S), np.zeros((p, q)), np.zeros((p, p))
    if has_matrix:
        change, rest = L @ rest[: p * q].reshape(q, p).T @ inverse_root, rest[p * q :]
    shift = -change @ origin
    if "offset" in learnt:
        shift, rest = shift + 0.3 * L @ rest[:p], rest[p:]
    if isinstance(shape, Full) and len(rest):
        W[np.tril_indices(p)] = 0.7 * rest * np.sqrt(0.5)
        W[np.diag_indices(p)] *= np.sqrt(0.5)
    elif len(rest):
        W += 0.5 * 0.7 * np.diag(rest if len(rest) == p else np.full(p, rest[0] / np.sqrt(p)))
    found, size = moved(known, about, v)
    wanted = B + change, c + shift, L @ linalg.expm(W + W.T) @ L.T
    for name, *pair in zip(("matrix", "offset", "covariance"), found, wanted, strict=True):
        assert_allclose(pair[0][0], pair[1], rtol=1e-8, atol=1e-8, err_msg=name)
    of_mean = 0.3 * np.abs(v[: len(v) - len(rest)]).max(initial=0.0)
    assert_allclose(size, max(of_mean, np.abs(W + W.T).max()), rtol=1e-12)

    floor, moments = rng.uniform(0.1, 0.2, p), Moments(*draw_moments(rng, 1, q + p))
    score, step, family = np.empty(len(v)), 1e-5, LinearGaussian(floor=floor)
    _regressions.unit_score((*vars(moments).values(),), floor, known, *about, score)
    ends = (AffineGaussian(*moved(known, about, sign * step * v)[0]) for sign in (1.0, -1.0))
    up, down = (family.expected_log_density(end, moments) for end in ends)
    assert_allclose(score @ v, (up - down) / (2.0 * step), rtol=1e-5)

"""Regressions of which some entries are fixed: M-step and coordinates, against numbers."""

from dataclasses import replace

import numpy as np
import pytest
from cases.coordinates import minimiser
from cases.random_rows import positive_definite
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem.families import Diagonal, Full, Spherical
from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
from sklearn_onlineem.models.fixed import FixedEntries
from sklearn_onlineem.models.kalman.regression import Regression, coordinates_of_regression

P, Q = 4, 2
BLOCKS = np.kron([[0, 1], [1, 0]], np.ones((2, 2))).astype(bool)
FIRST = np.zeros((P, P), dtype=bool)
FIRST[:2, :2] = True
EVEN = ~np.eye(P, dtype=bool)
EVEN[0, 0] = True
MATRIX, OFFSET = np.arange(P * Q).reshape(P, Q) % 3 == 0, np.arange(P) == 1
NONE = {"matrix": np.zeros((P, Q), bool), "offset": np.zeros(P, bool)}
# Outputs 0 and 1 are turned by an angle that is learnt.
TURNS = np.zeros((2, P, Q))
TURNS[0, :2], TURNS[1, :2] = np.eye(2), [[0.0, 1.0], [-1.0, 0.0]]
# Shapes of the noise, with masks, True where fixed.
CASES = {
    "coefficients, correlated noise": (Full(), {"matrix": MATRIX, "offset": OFFSET}),
    "coefficients, independent noise": (Diagonal(), {"matrix": MATRIX, "offset": OFFSET}),
    "coefficients, one variance": (Spherical(), {"matrix": MATRIX}),
    "offsets": (Full(), {"offset": OFFSET}),
    "independent blocks": (Full(), {"covariance": BLOCKS}),
    "noise of first outputs": (Full(), {"covariance": FIRST}),
    "both": (Full(), {"matrix": MATRIX, "offset": OFFSET, "covariance": FIRST}),
    "some variances": (Diagonal(), {"matrix": MATRIX, "covariance": EVEN}),
    "turned": (Diagonal(), {"matrix": MATRIX & (np.arange(P) > 1)[:, None], "tied": TURNS}),
    "turned, one direction": (Diagonal(), {"offset": OFFSET | ~OFFSET, "tied": TURNS[:1]}),
    "turned, correlated noise": (Full(), {"offset": OFFSET, "tied": TURNS}),
    "no noise": (
        Full(),
        {"matrix": np.arange(P)[:, None] == 0, "offset": np.arange(P) == 0, "zeros": [0]},
    ),
}
all_cases = pytest.mark.parametrize("name", CASES)


def draw(rng, name, floor=None):
    """A regression with fixed entries, and moments of rows of one that is not far from it."""
    shape, masks = CASES[name]
    S = shape.nearest(positive_definite(rng, 1, P)[0])
    S[masks.get("covariance", np.zeros((P, P), bool)) & BLOCKS] = 0.0
    for i in masks.get("zeros", ()):
        S[i] = S[:, i] = 0.0
    shapes = {"matrix": (P, Q), "offset": (P,), "covariance": (P, P)}
    tied = masks.get("tied")
    fixed = FixedEntries(
        *(np.broadcast_to(masks.get(n, False), of) for n, of in shapes.items()), tied
    )
    family = LinearGaussian(shape, None if floor is None else np.full(P, floor))
    B, c = rng.standard_normal((P, Q)), rng.standard_normal(P)
    if tied is not None:
        B[tied.any(axis=0)] = np.tensordot(rng.standard_normal(len(tied)), tied, 1)[
            tied.any(axis=0)
        ]
        S[1, 1] = S[0, 0] if shape == Diagonal() else S[1, 1]
    x = rng.standard_normal((40, Q)) @ rng.standard_normal((Q, Q)) + 3.0
    y = x @ (B + 0.1 * rng.standard_normal(B.shape)).T + c + rng.standard_normal((40, P))
    X = np.hstack([x, y])
    known = Regression(family, AffineGaussian.single(B, c, S), fixed=fixed)
    return known, LinearGaussian().expected_statistics(X, np.full((40, 1), 1.0 / 40.0))


def free_entries(regression):
    """Where the free entries are, as (array, index) with those across the diagonal."""
    fixed, S = regression.fixed, regression.covariance
    free, ties = ~fixed.matrix, [] if fixed.tied is None else fixed.tied
    places = [("tied", j) for j in range(len(ties))]
    if len(ties):
        free &= ~ties.any(axis=0)
    places += [("matrix", i) for i in zip(*np.nonzero(free), strict=True)]
    places += [("offset", (i,)) for i in np.flatnonzero(~fixed.offset)]
    free = ~fixed.of("covariance", S)
    if regression.family.shape == Spherical():
        return [*places, ("covariance", "diagonal")]
    if regression.family.shape == Diagonal():
        free &= np.eye(P, dtype=bool)
        if len(ties):
            free[1, 1] = False
    pairs = zip(*np.nonzero(np.tril(free)), strict=True)
    return places + [("covariance", pair) for pair in pairs]


def with_values(regression, places, vector):
    arrays = {n: getattr(regression, n).copy() for n in ("matrix", "offset", "covariance")}
    fixed = regression.fixed
    if fixed.tied is not None:
        arrays["matrix"][fixed.tied.any(axis=0)] = 0.0
    for (name, index), x in zip(places, vector, strict=True):
        if name == "tied":
            arrays["matrix"] += x * fixed.tied[index]
            continue
        if index == "diagonal":
            arrays[name] = x * np.eye(P)
            continue
        arrays[name][index] = x
        if name == "covariance":
            arrays[name][index[::-1]] = x
    if fixed.tied is not None and regression.family.shape == Diagonal():
        arrays["covariance"][1, 1] = arrays["covariance"][0, 0]
    return replace(regression, parameters=AffineGaussian.single(**arrays))


def values_of(regression, places):
    ties = regression.fixed.tied
    return np.array([
        np.vdot(ties[index], regression.matrix) / np.vdot(ties[index], ties[index])
        if name == "tied"
        else getattr(regression, name)[(0, 0) if index == "diagonal" else index]
        for name, index in places
    ])  # fmt: skip


def own_statistics(regression, moments):
    """Those of the regression, of inputs with these moments."""
    mean, scatter = moments.mean[:, :Q].copy(), moments.scatter[:, :Q, :Q].copy()
    return regression.own_statistics(replace(moments, mean=mean, scatter=scatter))


@all_cases
@pytest.mark.parametrize("floor", [None, 0.1])
def test_m_steps_maximise_over_free_entries(name, floor, rng):
    known, moments = draw(rng, name, floor)
    found = known.m_step(moments)
    for what in ("matrix", "offset", "covariance"):
        mask = known.fixed.of(what, known.covariance)
        assert_array_equal(getattr(found, what)[mask], getattr(known, what)[mask])
    places = free_entries(known)

    def objective(vector):
        trial = with_values(known, places, vector)
        noisy = np.diag(trial.covariance) > 0.0
        if np.linalg.eigvalsh(trial.covariance[np.ix_(noisy, noisy)])[0] <= 1e-3:
            return 1e3
        return -trial.expected_log_density(moments)

    start = found if "no noise" in name else known
    best = minimiser(objective, values_of(start, places))
    assert_allclose(values_of(found, places), best, rtol=1e-5, atol=1e-5)
    assert objective(values_of(found, places)) <= objective(best) + 1e-11
    # From its own moments, a known regression is learnt as it is.
    again = found.m_step(own_statistics(found, moments))
    for what in ("matrix", "offset", "covariance"):
        assert_allclose(getattr(again, what), getattr(found, what), rtol=1e-9, atol=1e-9)


def test_what_no_mask_fixes_is_learnt_as_without_masks(rng):
    known, moments = draw(rng, "offsets")
    nothing = FixedEntries(**NONE, covariance=np.zeros((P, P), bool))
    found = replace(known, fixed=nothing).m_step(moments)
    expected = replace(known, fixed=None).m_step(moments)
    for what in ("matrix", "offset", "covariance"):
        assert_allclose(getattr(found, what), getattr(expected, what), rtol=1e-10)


@all_cases
def test_coordinates_are_of_the_free_entries_and_of_unit_information(name, rng):
    known, moments = draw(rng, name, 0.01)
    # At the maximum, where the score is 0.
    found = known.m_step(moments)
    place = coordinates_of_regression("emissions", found, moments)
    n = place.n_columns
    assert n == found.n_parameters() == len(free_entries(found))
    assert_allclose(place.score(moments), 0.0, atol=1e-9)
    v, own = rng.standard_normal((1, n)), own_statistics(found, moments)
    ahead, here, behind = (place.moved(s * v).expected_log_density(own) for s in (1e-3, 0.0, -1e-3))
    assert_allclose((2.0 * here - ahead - behind) / 1e-6, (v * v).sum(), rtol=1e-4)
    # The score of other moments is the derivative of what they expect.
    other = draw(rng, name)[1]
    ahead, behind = (place.moved(s * v).expected_log_density(other) for s in (1e-5, -1e-5))
    assert_allclose((place.score(other) * v).sum(), (ahead - behind) / 2e-5, rtol=1e-6)
    moved = place.moved(v)
    for what in ("matrix", "offset", "covariance"):
        mask = found.fixed.of(what, found.covariance)
        assert_allclose(getattr(moved, what)[mask], getattr(found, what)[mask], rtol=1e-12)


def test_covariances_without_a_step_in_closed_form_are_refused(rng):
    S = positive_definite(rng, 1, P)[0]
    chain = np.abs(np.subtract.outer(range(P), range(P))) > 1
    for mask, noise in ((chain, np.where(chain, 0.0, S)), (BLOCKS, S)):
        with pytest.raises(ValueError, match="fixes some entries of"):
            FixedEntries(**NONE, covariance=mask).blocks(noise)

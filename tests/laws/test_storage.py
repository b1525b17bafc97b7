"""CSR and dense rows of equal values are the same data: the same starts, and equal models."""

import numpy as np
import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS, SPARSE_ESTIMATORS
from cases.streams import AT_ONCE
from scipy import sparse

from sklearn_onlineem import CompoundDirichlet, Mixture
from sklearn_onlineem.estimators._start import STARTS
from sklearn_onlineem.estimators.base import set_start

# Tests stop fits on purpose before they converge, and some data have few distinct rows.

sparse_estimators = pytest.mark.parametrize("case", SPARSE_ESTIMATORS, ids=repr)
all_starts = pytest.mark.parametrize("init", sorted(set(STARTS) - {"kmeans"}))
both_types = pytest.mark.parametrize("dtype", ["float32", "float64"])
# Equal starts, from which kernels of dense and CSR rows add up in other orders. Steps of EM far
# from the end, and accelerated ones the more, multiply that rounding by thousands.
TOLERANCE = {"float64": 1e-8, "float32": 1e-3}


def few_values(rng, n, d=3):
    """Small counts with gaps: few distinct rows, so that many distances are equal."""
    return rng.poisson(0.7, (n, d)).astype(float) + np.eye(d)[rng.integers(d, size=n)]


def data_of(case, seed, n):
    """Clusters that the estimator can tell apart, and whole numbers of which it cannot."""
    rng = np.random.default_rng(seed)
    return [case.data(rng, n)[0], few_values(rng, n, case.n_few)]


def pairs(case, dtype, n_kinds=2):
    """Dense and CSR rows of the same values, and a seed for estimators."""
    for seed, n in enumerate((12, 60, 700)):
        for X in data_of(case, seed, n)[:n_kinds]:
            X = X.astype(dtype)
            yield seed, X, sparse.csr_array(X)


def with_zeros(thin, rng):
    """The same values, of which some zeros are stored, too."""
    dense = thin.toarray()
    stored = (dense != 0) | (rng.random(dense.shape) < 0.3)
    rows, columns = np.nonzero(stored)
    pointers = np.concatenate([[0], stored.sum(axis=1).cumsum()])
    return sparse.csr_array((dense[rows, columns], columns, pointers), shape=dense.shape)


@pytest.mark.parametrize("case", [*ESTIMATORS, *GIBBS], ids=repr)
def test_estimators_take_the_rows_that_their_families_take(case):
    # A mixture of any family does not know before its parameters are read.
    if case.make is not Mixture:
        assert case()._family().takes_sparse == case.sparse


@sparse_estimators
@all_starts
@both_types
def test_starts_are_the_same_bits(case, init, dtype):
    for seed, dense, thin in pairs(case, dtype):
        zeros = with_zeros(thin, np.random.default_rng(seed))
        forms = (dense, np.asfortranarray(dense), thin, zeros, sparse.csc_array(thin))
        first, *others = (set_start(case(init=init, random_state=seed), X).model_ for X in forms)
        for other in others:
            assert_identical(other, first)


@sparse_estimators
@both_types
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_fits_are_the_same(case, dtype, solver):
    # Flat directions amplify rounding errors, along which Newton's steps are long.
    arguments = {"solver": solver, "max_iter": 20, "batch_size": 50, "tol": 0.0}
    for seed, dense, thin in pairs(case, dtype):
        models = [case(random_state=seed, **arguments).fit(X).model_ for X in (dense, thin)]
        assert_close(models[1], models[0], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@sparse_estimators
@both_types
@pytest.mark.parametrize("solver", ["auto", AT_ONCE])
def test_streams_are_the_same(case, dtype, solver):
    # A settled start ends within a tenth of a standard error of the maximum. Where there are no
    # clusters, that is further than rounding moves the end.
    n_kinds = 1 if solver == "auto" else 2
    for seed, dense, thin in pairs(case, dtype, n_kinds):
        streams = [case(random_state=seed, solver=solver) for _ in range(2)]
        for batch in np.array_split(np.arange(len(dense)), 3):
            for stream, X in zip(streams, (dense, thin), strict=True):
                stream.partial_fit(X[batch])
        models = [stream.model_ for stream in streams]
        assert_close(models[1], models[0], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@sparse_estimators
def test_labelled_and_weighted_rows_start_the_same(case, rng):
    X = few_values(rng, 200, case.n_few)
    labels, weight = rng.integers(-1, 3, 200), rng.integers(0, 4, 200).astype(float)
    mixtures = [case(semi_supervised=True, max_iter=5) for _ in range(2)]
    for mixture, rows in zip(mixtures, (X, sparse.csr_array(X)), strict=True):
        mixture.fit(rows, labels, weight).partial_fit(rows[:50], labels[:50], weight[:50])
    assert_close(mixtures[1].model_, mixtures[0].model_, rtol=1e-8, atol=1e-8)


@both_types
@pytest.mark.parametrize("solver", ["online", "batch", "newton"])
def test_a_single_component_starts_and_learns_the_same(dtype, solver, rng):
    X = few_values(rng, 300).astype(dtype)
    forms = (X, sparse.csr_array(X))
    starts = [set_start(CompoundDirichlet(), rows).model_ for rows in forms]
    assert_identical(*starts)
    models = [CompoundDirichlet(solver=solver, random_state=0).fit(rows).model_ for rows in forms]
    assert_close(*models, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])

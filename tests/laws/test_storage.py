"""CSR and dense rows of equal values are the same data, from which fits start the same."""

import numpy as np
import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS, SPARSE_ESTIMATORS
from scipy import sparse

from sklearn_onlineem import Mixture
from sklearn_onlineem.estimators._start import STARTS
from sklearn_onlineem.estimators.base import set_start

sparse_estimators = pytest.mark.parametrize("case", SPARSE_ESTIMATORS, ids=repr)
all_starts = pytest.mark.parametrize("init", sorted(set(STARTS) - {"kmeans"}))
both_types = pytest.mark.parametrize("dtype", ["float32", "float64"])


def few_values(rng, n, d=3):
    """Small counts with gaps: few distinct rows, so that many distances are equal."""
    return rng.poisson(0.7, (n, d)).astype(float) + np.eye(d)[rng.integers(d, size=n)]


def pairs(case, dtype):
    """Dense and CSR rows of the same values, with clusters or none, and a seed for estimators."""
    for seed, n in enumerate((12, 60, 700)):
        rng = np.random.default_rng(seed)
        for X in (case.data(rng, n)[0], few_values(rng, n, case.n_few)):
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

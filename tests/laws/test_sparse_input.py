"""Sparse matrices of any format and state: read as the dense ones they stand for, or refused.

Corrupt ones are refused before scipy, which trusts their pointers, is asked for anything; and no
matrix of a user is written to, not even its flags.
"""

import copy
import inspect
from functools import partial

import numpy as np
import pytest
from cases.comparing import arrays, assert_identical
from cases.estimator_cases import SPARSE_ESTIMATORS
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import (
    CompoundDirichlet,
    KalmanFilter,
    LatentDirichletAllocation,
    MarkovChainMixture,
    PerSequence,
    PoissonMixture,
)
from sklearn_onlineem.data.sparse import canonical_csr
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Constant

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

FORMATS = ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"]
KINDS = {"array": sparse.coo_array, "matrix": sparse.coo_matrix}

all_estimators = pytest.mark.parametrize("case", SPARSE_ESTIMATORS, ids=repr)
by_format = pytest.mark.parametrize("form", FORMATS)
by_kind = pytest.mark.parametrize("kind", KINDS)
by_index = pytest.mark.parametrize("index", [np.int32, np.int64])


def counts(n=24, d=4):
    return np.random.default_rng(0).poisson(1.5, (n, d)).astype(float)


def point_outside(X):
    X.indptr[1] = 10**6


def fall(X):
    X.indptr[1:3] = 5, 2


def start_late(X):
    X.indptr[0] = 1


def end_early(X):
    X.indptr[-1] -= 1


def end_late(X):
    X.indptr[-1] += 1


def lack_a_pointer(X):
    X.indptr = X.indptr[:-1]


def have_a_negative_index(X):
    X.indices[0] = -1


def have_a_large_index(X):
    X.indices[-1] = 10**6


def have_few_indices(X):
    X.indices = X.indices[:-1]


def have_few_values(X):
    X.data = X.data[:-1]


def have_indices_that_are_floats(X):
    X.indices = X.indices.astype(float)


def have_pointers_in_a_table(X):
    X.indptr = X.indptr[None]


def have_unsigned_indices_out_of_range(X):
    X.indices = X.indices.astype(np.uint64)
    X.indices[0] = 2**64 - 1


CORRUPTIONS = [
    point_outside, fall, start_late, end_early, end_late, lack_a_pointer, have_a_negative_index,
    have_a_large_index, have_few_indices, have_few_values, have_indices_that_are_floats,
    have_pointers_in_a_table, have_unsigned_indices_out_of_range,
]  # fmt: skip


def snapshot(X):
    """The arrays of a sparse matrix themselves, copies of them, and its flags."""
    held = dict(vars(X)) if X.format != "dok" else {"dict": X._dict}
    return held, copy.deepcopy(held)


def assert_untouched(X, before):
    held, copied = before
    now = snapshot(X)[0]
    assert now.keys() == held.keys()
    for name, value in now.items():
        assert value is held[name], name
        np.testing.assert_equal(value, copied[name], name)


def corrupted(X, corrupt, form="csr", kind="array", index=np.int32):
    X = KINDS[kind](X).asformat(form)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    corrupt(X)
    return X


@by_index
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__)
def test_corrupt_pointers_and_indices_are_refused(corrupt, form, index):
    X = corrupted(counts(), corrupt, form, "array", index)
    before = snapshot(X)
    with pytest.raises(ValueError, match="X is a corrupt|arrays of integers"):
        canonical_csr(X)
    assert_untouched(X, before)


@by_kind
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("value", [-1, 10**6])
def test_coordinates_out_of_range_are_refused(kind, place, value):
    X = KINDS[kind](counts())
    coords = [axis.copy() for axis in X.coords]
    coords[place][0] = value
    X.coords = tuple(coords)
    with pytest.raises(ValueError, match="X is a corrupt coo"):
        canonical_csr(X)


def test_lists_and_diagonals_of_other_lengths_are_refused():
    lists = sparse.lil_array(counts())
    lists.rows[0] = lists.rows[0] + [1]
    outside = sparse.lil_array(counts())
    outside.rows[0][0] = 10**6
    diagonals = sparse.dia_array(counts())
    diagonals.offsets = diagonals.offsets[:-1]
    blocks = sparse.bsr_array(counts(), blocksize=(2, 2))
    blocks.data = np.ones((len(blocks.data), 2, 3))
    short = sparse.coo_array(counts())
    short.data = short.data[:-1]
    for X in (lists, outside, diagonals, blocks, short):
        with pytest.raises(ValueError, match="corrupt"):
            canonical_csr(X)


@pytest.mark.parametrize("case", SPARSE_ESTIMATORS, ids=repr)
@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__)
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_estimators_refuse_corrupt_matrices_by_name(case, corrupt, form, rng):
    good, _ = case.data(rng, 60)
    bad, fitted = corrupted(good, corrupt, form), case().partial_fit(good)
    before, name = arrays(fitted.model_), type(fitted).__name__
    for method in (case().fit, case().partial_fit, fitted.partial_fit, fitted.predict,
                   fitted.predict_proba, fitted.score_samples, fitted.score):  # fmt: skip
        with pytest.raises(ValueError, match=name):
            method(bad)
    assert_identical(arrays(fitted.model_), before)


@pytest.mark.parametrize(
    "estimator",
    [CompoundDirichlet(), LatentDirichletAllocation(2), LatentDirichletAllocation(2, e_step="map")],
    ids=repr,
)
def test_transformers_of_counts_refuse_corrupt_matrices_by_name(estimator):
    fitted, bad = estimator.fit(counts()), corrupted(counts(), point_outside)
    takers = [
        getattr(fitted, name)
        for name, method in inspect.getmembers(type(fitted), inspect.isfunction)
        if not name.startswith("_") and "X" in inspect.signature(method).parameters
        if hasattr(fitted, name)
    ]
    assert len(takers) > 5
    for method in takers:
        with pytest.raises(ValueError, match=type(fitted).__name__):
            method(bad)


@by_format
@by_kind
@pytest.mark.parametrize("e_step", ["gibbs", "map"])
def test_topics_are_read_from_every_format_which_is_left_alone(e_step, form, kind):
    dense = counts()
    X = KINDS[kind](dense).asformat(form)
    before = snapshot(X)
    by_dense, by_sparse = (
        LatentDirichletAllocation(2, e_step=e_step, max_iter=2, random_state=0)
        .fit(data)
        .partial_fit(data)
        for data in (dense, X)
    )
    assert_identical(arrays(by_dense.model_), arrays(by_sparse.model_))
    for name in ("transform", "score_samples", "perplexity", "topic_coherence"):
        assert_array_equal(getattr(by_dense, name)(dense), getattr(by_sparse, name)(X))
    assert_untouched(X, before)


@all_estimators
def test_what_kernels_index_by_is_no_memory_of_the_users(case):
    """Another thread may write to it, here a callback in the midst of a fit."""
    X = sparse.csr_array(counts(), dtype=np.float32)
    settings = {"max_iter": 3, "tol": 0.0, "solver": "batch", "random_state": 0}
    expected = case(**settings).fit(X).model_

    def spoil(step):
        X.indices[:] = X.indptr[1:-1] = 0

    fitted = case(**settings, callbacks=[spoil])
    assert_identical(arrays(fitted.fit(X).model_), arrays(expected))
    assert not X.indices.any()
    # Kernels that draw topics make room for as many tokens as there are.
    if isinstance(fitted, LatentDirichletAllocation):
        documents = fitted._input().read(sparse.csr_array(X.toarray()))
        assert not np.shares_memory(documents.counts, documents.X.data)


def sequence_learners():
    """Estimators of sequences, by name, and rows of these."""
    rng = np.random.default_rng(0)
    for case in [*SEQUENCE_ESTIMATORS, *KALMAN_FILTERS]:
        yield repr(case), partial(case, max_iter=2), np.concatenate(case.data(rng, 8)[0])[:24]
    symbols = np.arange(24.0).reshape(24, 1) % 3
    yield "MarkovChainMixture", partial(MarkovChainMixture, 2, max_iter=2), symbols
    yield "PerSequence", partial(PerSequence, StandardScaler(with_mean=False)), counts()
    learner = partial(DistributedEM, KalmanFilter(2, max_iter=2))
    yield "DistributedEM", learner, counts()


@pytest.mark.parametrize("where", ["one", "lengths", "groups", "list"])
@pytest.mark.parametrize(
    "corrupt", [point_outside, have_a_large_index], ids=lambda corrupt: corrupt.__name__
)
@pytest.mark.parametrize(
    "make, good", [pytest.param(*case, id=name) for name, *case in sequence_learners()]
)
def test_corrupt_rows_of_sequences_are_refused_by_name(make, good, corrupt, where):
    """Before they are cut into sequences, or gathered by groups that alternate."""
    fitted, bad = make().fit(good, **known(make().fit, lengths=[10, 14])), corrupted(good, corrupt)
    X = [bad, bad] if where == "list" else bad
    says = {"lengths": [10, 14]} if where == "lengths" else {}
    says = {"groups": np.arange(24) % 2} if where == "groups" else says
    before = snapshot(bad)
    takers = list(takers_of_rows(fitted))
    assert len(takers) > 5
    # An estimator that was fitted in shards passes calls on to the one that it holds.
    names = "|".join(type(e).__name__ for e in (fitted, getattr(fitted, "estimator_", fitted)))
    for method in takers:
        with pytest.raises((TypeError, ValueError), match=names):
            method(X, **known(method, **says))
    assert_untouched(bad, before)


def test_groups_that_are_objects_do_not_gather_corrupt_rows(rng):
    """What ``make fuzz SEED=424243 CASE=22612`` was when it wrote out of bounds."""
    (case,) = (case for case in SEQUENCE_ESTIMATORS if case.name == "HMM(gaussian, absorbing)")
    hmm = case(2, max_iter=2).partial_fit(case.data(rng, 4)[0])
    bad = corrupted(np.ones((18, 4)), point_outside)
    groups = np.array([1, 1, *([2**31, 1] * 8)], dtype=object)
    hmm.set_params(family=Constant(eta0=0.5))
    with pytest.raises(TypeError, match="HMM"):
        hmm.aic(bad, groups=groups)


def takers_of_rows(fitted):
    """Methods of an estimator, fitted and not, whose first argument is X."""
    for name in dir(type(fitted)):
        method = None if name.startswith("_") else getattr(fitted, name, None)
        if inspect.ismethod(method) and [*inspect.signature(method).parameters][:1] == ["X"]:
            yield method
            if "fit" in name:
                yield getattr(clone(fitted), name)


def known(method, **arguments):
    """Those of the arguments that a method has by name."""
    names = inspect.signature(method).parameters
    return {name: value for name, value in arguments.items() if name in names}


@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__)
def test_corrupt_topics_and_weights_of_documents_are_refused_by_name(corrupt):
    topics = LatentDirichletAllocation(4, e_step="map", solver="batch", semi_supervised=True)
    for name in ("y", "sample_weight"):
        for method in (topics.fit, topics.partial_fit):
            with pytest.raises((TypeError, ValueError), match="LatentDirichletAllocation"):
                method(counts(), **{name: corrupted(counts(), corrupt)})


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_shards_are_not_cut_from_corrupt_matrices(form):
    X = corrupted(counts(), point_outside, form)
    with pytest.raises(ValueError, match="DistributedEM"):
        DistributedEM(PoissonMixture(2)).fit(X)


@by_format
@by_kind
@all_estimators
def test_every_format_is_read_as_dense_data_and_left_alone(case, form, kind, rng):
    dense, y = case.data(rng, 60)
    X = KINDS[kind](dense).asformat(form)
    before, init = snapshot(X), np.array([dense[y == k].mean(axis=0) for k in range(3)])
    found, wanted = case(init=init).fit(X), case(init=init).fit(dense)
    assert_allclose(found.score_samples(X), wanted.score_samples(dense), rtol=1e-8)
    posterior = wanted.predict_proba(dense)
    assert_allclose(found.predict_proba(X), posterior, rtol=1e-7, atol=1e-10)
    found, wanted = (case().partial_fit(dense).partial_fit(A).partial_fit(A) for A in (X, dense))
    posterior = wanted.predict_proba(dense)
    assert_allclose(found.predict_proba(X), posterior, rtol=1e-7, atol=1e-10)
    assert_untouched(X, before)


def rough(index, kind):
    """Rows in disorder, with duplicates, that add up beyond the range of their type."""
    indices = np.array([2, 0, 2, 1, 1, 1], dtype=index)
    parts = np.array([100, 3, 100, 90, 90, 90], np.int8), indices, np.array([0, 3, 3, 6], index)
    X = (sparse.csr_array if kind == "array" else sparse.csr_matrix)(parts, shape=(3, 4))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


@by_index
@by_kind
def test_duplicates_are_added_up_in_a_copy(index, kind):
    X = rough(index, kind)
    before = snapshot(X)
    read = canonical_csr(X)
    assert_array_equal(read.toarray(), [[3, 0, 200, 0], [0, 0, 0, 0], [0, 270, 0, 0]])
    assert read.has_canonical_format and isinstance(read, type(X))
    assert_untouched(X, before)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_flags_are_not_trusted(form):
    X = rough(np.int32, "array")
    X.has_canonical_format = X.has_sorted_indices = True
    if form == "csc":
        X = X.T
    assert canonical_csr(X).sum() == 473


def test_duplicates_of_coordinates_do_not_wrap_around():
    entries = np.array([100, 100, 100], np.int8), (np.array([1, 1, 0]), np.array([2, 2, 0]))
    assert canonical_csr(sparse.coo_array(entries, shape=(2, 3)))[1, 2] == 200


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.uint64, ">i4"])
def test_indices_of_any_integers_are_read(dtype):
    X = sparse.csr_array(counts())
    X.indices, X.indptr = X.indices.astype(dtype), X.indptr.astype(dtype)
    assert_array_equal(canonical_csr(X).toarray(), counts())


def test_what_is_canonical_is_not_copied():
    X = sparse.csr_array(counts())
    assert np.shares_memory(canonical_csr(X).data, X.data)


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4)])
def test_other_dimensions_are_refused(shape):
    # Before 1.15, scipy itself has no arrays of three.
    with pytest.raises(ValueError, match="2 dimensions|1- or 2-tuple"):
        canonical_csr(sparse.coo_array(np.ones(shape)))

"""Events of documents and Newton's steps on their likelihood against their formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import gammaln, polygamma, psi

from sklearn_onlineem._kernels import _compound_dirichlet as kernels

K = 3


class Documents:
    """Counts of d words, with empty documents, large counts and fractions."""

    def __init__(self, d, dtype=np.float64):
        rng = np.random.default_rng(d)
        self.X = rng.poisson(1.5, (20, d)).astype(dtype)
        self.X[3], self.X[5, 0], self.X[7, -1] = 0, 0.5, 1e6
        csr = sparse.csr_matrix(self.X)
        self.csr = csr.data, csr.indices, csr.indptr.astype(np.int64), False
        pointers = np.arange(0, self.X.size + 1, d)
        self.dense = self.X.ravel(), np.arange(d, dtype=np.int32), pointers, True
        self.alpha = np.exp(rng.normal(0, 2, (K, d)))
        self.alpha = np.column_stack([self.alpha, self.alpha.sum(axis=1)])
        self.shares = rng.dirichlet(np.ones(K), len(self.X))
        # Words of a document, and its length.
        self.counts = np.column_stack([self.X, self.X.sum(axis=1)]).astype(float)

    def encoded(self, arrays):
        """A matrix of documents and events, and what these are of."""
        n, d = self.X.shape
        largest, size = np.zeros(d + 1, np.int64), len(arrays[0]) + n
        kernels.largest_counts(*arrays, largest)
        first = np.concatenate([[0], np.cumsum(largest)])
        events, words = np.empty(size, np.int32), np.empty(size, np.int64)
        pointers = np.empty(n + 1, np.int64)
        counts, number = np.empty(size), np.zeros(first[-1], np.int64)
        n_events = kernels.encode(*arrays, first, number, events, pointers, words, counts)
        events = events[: pointers[-1]]
        has = sparse.csr_matrix((np.ones(len(events)), events, pointers), (n, n_events))
        return has, words[:n_events].copy(), counts[:n_events].copy()

    def log_terms_numpy(self, words, counts):
        a, c = self.alpha[:, words], counts
        terms = gammaln(a + c) - gammaln(a) - gammaln(c + 1)
        return (np.where(words == self.X.shape[1], -1, 1) * terms).T


by_documents = pytest.mark.parametrize("d", [1, 2, 7, 40])


@by_documents
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_events_are_words_and_lengths_with_their_counts(d, dtype):
    documents = Documents(d, dtype)
    for arrays in (documents.csr, documents.dense):
        has, words, counts = documents.encoded(arrays)
        back = np.zeros_like(documents.counts)
        for i in range(len(back)):
            here = has.indices[has.indptr[i] : has.indptr[i + 1]]
            back[i, words[here]] = counts[here]
        assert_array_equal(back, documents.counts)
        small = counts <= 64
        pairs = np.column_stack([words, counts])[small & (counts == np.floor(counts))]
        assert len(np.unique(pairs, axis=0)) == len(pairs)


@by_documents
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("most, longest", [(1, 1), (4, 30), (64, 5000)])
def test_events_are_counted(d, weighted, dtype, most, longest):
    documents = Documents(d, dtype)
    weights = np.linspace(0.5, 2.0, len(documents.X)) if weighted else np.empty(0)
    of_rows = weights if weighted else np.ones(len(documents.X))
    has, words, counts = documents.encoded(documents.csr)
    expected = {}
    for word, count, total in zip(words, counts, has.T @ of_rows, strict=True):
        expected[word, count] = expected.get((word, count), 0.0) + total
    for arrays in (documents.csr, documents.dense):
        table, lengths = np.zeros((1 + most, d)), np.zeros(longest)
        room = len(arrays[0]) + len(documents.X)
        others = np.empty(room, np.int64), np.empty(room), np.empty(room)
        n = kernels.count_events(*arrays, weights, table, lengths, *others)
        found = {(j, c): table[c, j] for c, j in zip(*table.nonzero(), strict=True) if c > 0}
        found |= {(d, c + 1.0): lengths[c] for c in lengths.nonzero()[0]}
        for word, count, total in zip(*(part[:n] for part in others), strict=True):
            assert count % 1.0 or count > (longest if word == d else most)
            found[word, count] = found.get((word, count), 0.0) + total
        assert found.keys() == expected.keys()
        assert_allclose([found[key] for key in expected], list(expected.values()), rtol=1e-12)


@by_documents
@pytest.mark.parametrize("n_threads", [1, 3])
def test_terms_and_expectations(d, n_threads):
    documents = Documents(d)
    has, words, counts = documents.encoded(documents.csr)
    terms, out = np.empty((len(words), K)), np.empty((K, d))
    kernels.log_terms(words, counts, documents.alpha, terms, n_threads)
    assert_allclose(terms, documents.log_terms_numpy(words, counts), rtol=1e-8, atol=1e-8)
    shares, weight = has.T @ documents.shares, documents.shares.sum(axis=0)
    kernels.expected_logs(words, counts, shares, weight, documents.alpha, out, n_threads)
    logs = psi(documents.alpha + documents.counts[:, None])
    logs = logs[:, :, :-1] - logs[:, :, -1:]
    assert_allclose(out, (documents.shares[:, :, None] * logs).sum(axis=0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("d", [2, 7, 40])
def test_near_the_maximum_a_step_of_the_likelihood_is_newtons(d):
    rng = np.random.default_rng(d)
    X = rng.multinomial(50, rng.dirichlet(np.ones(d), 500)).astype(float)
    X[0, 0], X[1, 1] = 1e3, 0.5
    i, words = np.nonzero(np.column_stack([X, X.sum(axis=1)]))
    counts = np.where(words < d, X[i, np.minimum(words, d - 1)], X.sum(axis=1)[i])
    alpha = rng.uniform(0.95, 1.05, d)
    whole, sign = np.append(alpha, alpha.sum()), np.where(words < d, 1.0, -1.0)
    a = whole[words]
    value = (sign * (gammaln(a + counts) - gammaln(a) - gammaln(counts + 1))).sum()
    slope, curvature = (
        np.bincount(words, sign * (polygamma(order, a + counts) - polygamma(order, a)))
        for order in (0, 1)
    )
    hessian = np.diag(curvature[:-1]) + curvature[-1]
    expected = alpha - np.linalg.solve(hessian, slope[:-1] + slope[-1])
    found, weights = np.empty(d + 1), np.ones(len(words))
    events = np.empty(0), np.zeros(1, np.int64), words.copy(), counts, weights
    before, is_settled = kernels.ascend(*events, alpha, 1e-10, 1e6, found)
    assert not is_settled
    assert_allclose(before, value, rtol=1e-10)
    assert_allclose(found, np.append(expected, expected.sum()), rtol=1e-8)
    for _ in range(6):
        last, is_settled = kernels.ascend(*events, found[:-1].copy(), 1e-10, 1e6, found)
    assert is_settled and last > before

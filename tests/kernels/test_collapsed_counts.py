"""Sweeps of collapsed Gibbs sampling against predictive densities, computed anew for each row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import betaln, gammaln, logsumexp

from sklearn_onlineem._kernels import _collapsed_counts as kernels

N, D, K = 30, 6, 4


def log_rising(a, x):
    return gammaln(a + x) - gammaln(a)


def multinomial(x, a, b, weight, case):
    by_group = (-1, case.group)
    lengths, sums = (y.reshape(by_group).sum(axis=1) for y in (x, a))
    return log_rising(a, x).sum() - log_rising(sums, lengths).sum()


def poisson(x, a, b, weight, case):
    return (log_rising(a, x) - a * np.log1p(1 / weight) - x * np.log1p(weight)).sum()


def categorical(x, a, b, weight, case):
    by_column = a.reshape(case.group, -1)
    return np.log(a[x > 0]).sum() - np.log(by_column.sum(axis=1)).sum()


def bernoulli(x, a, b, weight, case):
    return (betaln(a + x, b + 1 - x) - betaln(a, b)).sum()


def durations(x, a, b, weight, case):
    s = case.step
    terms = log_rising(weight, s) - s * np.log(a) - (weight + s) * np.log1p(x / a)
    return terms.sum()


class Case:
    """Rows of a form, where they are, and the prior; for CATEGORICAL `group` is the columns."""

    def __init__(self, form, log_predictive, group=D, step=1.0):
        self.form, self.log_predictive, self.group, self.step = form, log_predictive, group, step

    def __repr__(self):
        return f"{self.log_predictive.__name__}, {self.group}"

    def drawn(self, rng):
        self.a = rng.uniform(0.2, 3, (K, D))
        self.b, self.weight = np.empty((K, 0)), rng.uniform(0.5, 3, K)
        self.X = rng.poisson(rng.gamma(1, 2, D), (N, D)).astype(float)
        if self.form == kernels.DURATIONS:
            self.X = rng.gamma(2, 3, (N, D))
        elif self.form == kernels.BERNOULLI:
            self.X, self.b = np.minimum(self.X, 1), self.weight[:, None] + 4 - self.a
            self.weight = self.weight + 4
        elif self.form == kernels.CATEGORICAL:
            size = D // self.group
            self.X = np.eye(size)[rng.integers(0, size, (N, self.group))].reshape(N, D)
            self.b = self.a.reshape(K, self.group, size).sum(axis=2)
        self.concentration, self.uniforms = rng.uniform(0.5, 2, K), rng.random(N)
        self.labels = rng.integers(0, K, N).astype(np.intc)
        return self

    def sweep(self, data, indices, indptr, is_dense):
        labels = self.labels.copy()
        group = self.group if self.form == kernels.MULTINOMIAL else D
        found = kernels.collapsed_sweep(
            data, indices, indptr, is_dense, self.form, group, np.ascontiguousarray(self.a.T),
            np.ascontiguousarray(self.b.T), self.weight, self.step, self.concentration,
            self.uniforms, labels, True, np.empty(0, np.intp), np.empty((N, 0)),
        )  # fmt: skip
        return labels, found

    def sweep_numpy(self):
        labels, total = self.labels.copy(), 0.0
        for i, x in enumerate(self.X):
            joint = np.empty(K)
            for k in range(K):
                rows = self.X[(labels == k) & (np.arange(N) != i)]
                a, b = self.a[k] + rows.sum(axis=0), self.b[k]
                if self.form == kernels.BERNOULLI:
                    b = b + (1 - rows).sum(axis=0)
                weight = self.weight[k] + self.step * len(rows)
                joint[k] = np.log(self.concentration[k] + len(rows))
                joint[k] += self.log_predictive(x, a, b, weight, self)
            sums = np.cumsum(np.exp(joint - joint.max()))
            labels[i] = np.searchsorted(sums, self.uniforms[i] * sums[-1], "right")
            total += logsumexp(joint)
        return labels, total / N - np.log(N - 1 + self.concentration.sum())


CASES = [
    Case(kernels.MULTINOMIAL, multinomial),
    Case(kernels.MULTINOMIAL, multinomial, group=3),
    Case(kernels.POISSON, poisson),
    Case(kernels.CATEGORICAL, categorical, group=2),
    Case(kernels.BERNOULLI, bernoulli),
    Case(kernels.DURATIONS, durations, step=1.5),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_labels_and_the_predictive_density(case, index, rng):
    case = case.drawn(rng)
    labels, log_predictive = case.sweep_numpy()
    csr = sparse.csr_matrix(case.X)
    pointers = np.arange(0, N * D + 1, D, dtype=index)
    for arrays in (
        (csr.data, csr.indices.astype(index), csr.indptr.astype(index), False),
        (case.X.ravel(), np.arange(D, dtype=index), pointers, True),
    ):
        found, log_found = case.sweep(*arrays)
        assert_array_equal(found, labels)
        assert_allclose(log_found, log_predictive, rtol=1e-10)

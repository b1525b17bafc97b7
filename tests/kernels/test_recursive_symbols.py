"""Chains of symbols learnt row by row, against the recursion in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_onlineem._kernels._recursive_symbols import learn

FLOOR = 1e-3


class Learner:
    """Rows in two sequences, some not observed, and what learning starts from."""

    def __init__(self, K, n_columns, n_categories, n=40):
        rng = np.random.default_rng([K, n_columns])
        C = n_columns * n_categories
        self.n_categories, self.K = n_categories, K
        self.codes = rng.integers(0, n_categories, (n, n_columns))
        self.codes += n_categories * np.arange(n_columns)
        self.codes[rng.random(self.codes.shape) < 0.2] = -1
        self.known = np.where(rng.random(n) < 0.2, rng.integers(0, K, n), -1)
        self.begins = np.isin(np.arange(n), [0, n // 2]).astype(np.int64)
        self.step_sizes = 1 / np.arange(1, n + 1) ** 0.6
        self.prior = rng.uniform(0, 0.1, K + K * K + K * C)
        self.start, self.transmat = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K)
        self.emissions = rng.dirichlet(np.ones(n_categories), (K, n_columns)).reshape(K, C)
        self.filtered, self.memory = rng.dirichlet(np.ones(K)), rng.random((K, len(self.prior)))
        self.log_likelihoods = np.full(n, np.nan)

    @property
    def changed(self):
        return (
            self.start, self.transmat, self.emissions, self.filtered, self.memory,
            self.log_likelihoods,
        )  # fmt: skip

    def learn(self, first_step, learnt):
        data = self.codes, self.known, self.begins, self.step_sizes, self.prior
        return learn(*data, self.n_categories, first_step, FLOOR, learnt, *self.changed)

    def learn_numpy(self, first_step, learnt):
        for t in range(len(self.codes)):
            self._observe(t)
            if t >= first_step:
                self._maximise(learnt)

    def _observe(self, t):
        gamma, states = self.step_sizes[t], np.arange(self.K)
        starts, moves, symbols = self._split(np.zeros_like(self.memory))
        if self.begins[t]:
            backward = np.tile(self.filtered[:, None], self.K)
            predicted = self.start
            starts[states, states] = 1
        else:
            backward = self.filtered[:, None] * self.transmat
            predicted = backward.sum(axis=0)
            backward = backward / predicted
            moves[states, :, states] = backward.T
        seen = self.codes[t][self.codes[t] >= 0]
        for code in seen:
            symbols[states, states, code] += 1
        added = np.concatenate([x.reshape(self.K, -1) for x in (starts, moves, symbols)], axis=1)
        self.memory = (1 - gamma) * backward.T @ self.memory + gamma * added
        joint = predicted * self.emissions[:, seen].prod(axis=1)
        if self.known[t] >= 0:
            joint = joint * (states == self.known[t])
        self.log_likelihoods[t] = np.log(joint.sum())
        self.filtered = joint / joint.sum()

    def _split(self, statistics):
        """Starts, moves and symbols; views where rows are contiguous."""
        K, rows = self.K, statistics.shape[:-1]
        parts = np.split(statistics, [K, K + K * K], axis=-1)
        return parts[0].copy(), parts[1].reshape(*rows, K, K), parts[2].reshape(*rows, K, -1)

    def _maximise(self, learnt):
        starts, moves, symbols = self._split(self.filtered @ self.memory + self.prior)
        if "s" in learnt:
            self.start = starts / starts.sum()
        if "t" in learnt:
            self.transmat = moves / moves.sum(axis=1, keepdims=True)
        if "e" in learnt:
            by_column = symbols.reshape(self.K, -1, self.n_categories)
            floored = np.maximum(by_column / by_column.sum(axis=2, keepdims=True), FLOOR)
            floored /= floored.sum(axis=2, keepdims=True)
            self.emissions = floored.reshape(self.K, -1)


@pytest.mark.parametrize("K", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize(("first_step", "learnt"), [(0, "ste"), (5, "ste"), (5, "t"), (100, "ste")])
def test_agrees_with_the_recursion(K, n_columns, first_step, learnt):
    found, expected = (Learner(K, n_columns, n_categories=4) for _ in range(2))
    assert found.learn(first_step, learnt) == -1
    expected.learn_numpy(first_step, learnt)
    for a, b in zip(found.changed, expected.changed, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_ends_at_a_row_that_no_state_can_make():
    learner = Learner(3, 1, n_categories=4)
    learner.codes[7], learner.known[7] = 2, -1
    learner.emissions[:, 2] = 0.0
    assert learner.learn(100, "ste") == np.flatnonzero(learner.codes[:, 0] == 2)[0]

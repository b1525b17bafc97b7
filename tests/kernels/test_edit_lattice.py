"""Lattices of pairs of strings against sums over all edit scripts."""

import numpy as np
import pytest
from cases.transducers import scripts
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._kernels import _edit_lattice as kernels

B = 3
by_tied = pytest.mark.parametrize("tied", [False, True])
by_wide = pytest.mark.parametrize("wide", [False, True])


class Pairs:
    """Pairs of up to four symbols, and weights of all operations."""

    def __init__(self, tied, n=40):
        rng = np.random.default_rng(tied)
        self.tied = tied
        lengths = np.sort(rng.integers(0, 5, (n, 2)), axis=0)
        self.strings = [[rng.integers(0, B, m) for m in sides] for sides in lengths.T]
        self.pairs = np.column_stack([np.arange(n), np.arange(n)])
        self.weights = rng.gamma(1, size=(1, 2) if tied else (B, B))
        self.singles = [-rng.gamma(1, size=1 if tied else B) for _ in range(2)]

    @property
    def arrays(self):
        flat = []
        for side in self.strings:
            flat += [np.concatenate(side).astype(np.intc), np.cumsum([0, *map(len, side)])]
        return *flat, self.pairs

    def place(self, a, b):
        """Where an operation is counted."""
        if self.tied:
            return 3 if a is None else 2 if b is None else int(a != b)
        return B * B + B + b if a is None else B * B + a if b is None else a * B + b

    def log_weight(self, a, b):
        deletions, insertions = self.singles
        total = 0.0
        if a is not None:
            total += deletions[0 if self.tied else a]
        if b is not None:
            total += insertions[0 if self.tied else b]
        if a is not None and b is not None:
            total += np.log(self.weights[0, int(a != b)] if self.tied else self.weights[a, b])
        return total

    def enumerated(self):
        """Of each pair, log weights of its scripts, and how often these have each operation."""
        for source, target in zip(*self.strings, strict=True):
            all_scripts = list(scripts(tuple(source), tuple(target)))
            counts = np.zeros((len(all_scripts), 4 if self.tied else B * B + 2 * B))
            for row, script in zip(counts, all_scripts, strict=True):
                np.add.at(row, [self.place(a, b) for a, b in script], 1)
            yield np.array([sum(self.log_weight(*x) for x in s) for s in all_scripts]), counts

    def operations(self, wide, n_threads, uniforms=None, places=None):
        n = len(self.pairs)
        log_likelihoods = np.empty(n)
        kinds = np.empty((n if self.tied else 0, 4))
        sums = np.empty(0 if self.tied else B * B + 2 * B)
        kernels.lattice_pass(
            *self.arrays, self.weights, *self.singles, False, wide, log_likelihoods, kinds, sums,
            uniforms, places, n_threads,
        )  # fmt: skip
        return log_likelihoods, kinds if self.tied else sums


@by_tied
@by_wide
def test_drawn_operations_are_those_of_a_script(tied, wide, rng):
    pairs = Pairs(tied)
    lengths = [[len(x) for x in side] for side in pairs.strings]
    steps = np.sum(lengths, axis=0)
    places = np.concatenate([[0], np.cumsum(steps)[:-1]])
    draws = []
    for _ in range(400):
        _, found = pairs.operations(wide, 1, rng.random(steps.sum() + 1), places)
        draws.append(found.sum(axis=0))
        if tied:
            assert_array_equal(found[:, :3].sum(axis=1), lengths[0])
            assert_array_equal(found[:, [0, 1, 3]].sum(axis=1), lengths[1])
        else:
            both = found[: B * B].reshape(B, B)
            for side, alone in enumerate(found[B * B :].reshape(2, B)):
                symbols = np.concatenate(pairs.strings[side])
                assert_array_equal(
                    both.sum(axis=1 - side) + alone, np.bincount(symbols, minlength=B)
                )
    _, expected = pairs.operations(wide, 1)
    standard_errors = np.std(draws, axis=0) / len(draws) ** 0.5
    errors = np.mean(draws, axis=0) - expected.sum(axis=0)
    assert (np.abs(errors) <= 4.5 * standard_errors + 1e-12).all()


@by_tied
def test_moves_of_the_best_path(tied):
    """Deletions and insertions weigh 1 here, so that the best path has the best substitutions."""
    pairs = Pairs(tied)
    pairs.singles = [np.zeros_like(x) for x in pairs.singles]
    for (source, target), (logs, _) in zip(
        zip(*pairs.strings, strict=True), pairs.enumerated(), strict=True
    ):
        if not len(source) or not len(target):
            continue
        moves = np.empty((len(source), len(target)), np.int8)
        strings = (x.astype(np.intc) for x in (source, target))
        kernels.best_path(*strings, np.log(pairs.weights), moves)
        i, j, total = len(source), len(target), 0.0
        while i and j:
            move = moves[i - 1, j - 1]
            i, j = i - (move != 2), j - (move != 1)
            if move == 0:
                total += pairs.log_weight(source[i], target[j])
        assert_allclose(total, logs.max(), atol=1e-12)

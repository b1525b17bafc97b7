"""Parametrisations of the probabilities of edit operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._kernels._edit_lattice import best_path
from sklearn_onlineem._typing import Floats, Generator, Integers

# Less probable operations count as this probable: enough for pairs that need them to be compared,
# and ratios of probabilities stay far from the ends of what a double holds.
_FLOOR = 1e-50

KINDS = ("match", "mismatch", "delete", "insert", "end")


class LatticeWeights(NamedTuple):
    """Weights of operations, as the kernels of lattices take them."""

    # p(a -> b) / (p(a -> nothing) p(nothing -> b)): of any match and mismatch, or of each pair.
    substitutions: Floats
    log_deletions: Floats
    log_insertions: Floats


@dataclass(frozen=True)
class Operations(ABC):
    """A parametrisation: how a vector of probabilities gives those of all edit operations.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet, 2 at least.
    """

    n_symbols: int

    @property
    @abstractmethod
    def n_probabilities(self) -> int:
        """Length of the vector; the last element is the end of a script."""

    @abstractmethod
    def spread(self, kinds: ArrayLike) -> Floats:
        """Return the vector with even probabilities within each kind of operation.

        Parameters
        ----------
        kinds : array-like of shape (5,)
            Probabilities of match, mismatch, delete, insert and end.
        """

    @abstractmethod
    def by_kind(self, vector: Floats) -> Floats:
        """Return sums over match, mismatch, delete, insert and end, an ndarray of shape (5,).

        Parameters
        ----------
        vector : ndarray of shape (n_probabilities,)
            Probabilities of operations and, last, of the end.
        """

    @abstractmethod
    def tables(self, vector: Floats) -> tuple[Floats, Floats, Floats]:
        """Return p(a -> b), p(a -> nothing), p(nothing -> b) in the shapes of lattice weights.

        Parameters
        ----------
        vector : ndarray of shape (n_probabilities,)
            Probabilities of operations and, last, of the end.
        """

    @abstractmethod
    def results(self, n_pairs: int) -> tuple[Floats, Floats]:
        """Return arrays for the kernel to fill in; one is empty, as the parametrisation needs it.

        They are for matches, mismatches, deletions and insertions of each pair, (n_pairs, 4), and
        for all operations of all pairs, (n_probabilities - 1,).

        Parameters
        ----------
        n_pairs : int
            How many pairs of strings there are.
        """

    @abstractmethod
    def symbols_of(self, drawn: Integers, rng: Generator) -> tuple[Integers, Integers]:
        """Return the symbols that operations consume and make; -1 for none.

        Parameters
        ----------
        drawn : ndarray of int
            Operations, as indices of the vector.
        rng : numpy.random.Generator
            Source of random numbers.
        """

    def known(self, symbols: Integers) -> Integers:
        """Return codes that the lattice can look up.

        Parameters
        ----------
        symbols : ndarray of int
            Codes from 0 up.
        """
        return symbols

    def weights(self, vector: Floats, log: bool = False) -> LatticeWeights:
        """Return `LatticeWeights`.

        Parameters
        ----------
        vector : ndarray of shape (n_probabilities,)
            Probabilities of operations and, last, of the end.
        log : bool, default=False
            Whether weights of substitutions are logarithms.
        """
        tables = self.tables(np.maximum(vector, _FLOOR))
        substitutions, deletions, insertions = map(np.log, tables)
        ratios = substitutions - np.add.outer(deletions, insertions)
        return LatticeWeights(ratios if log else np.exp(ratios), deletions, insertions)

    def target_weights(self, vector: Floats) -> tuple[Floats, Floats]:
        """Return log p(an operation makes b), of each b or any, and log p(it is no deletion).

        Parameters
        ----------
        vector : ndarray of shape (n_probabilities,)
            Probabilities of operations and, last, of the end.
        """
        substitutions, deletions, insertions = self.tables(np.maximum(vector, _FLOOR))
        if len(deletions) > 1:
            from_any, to_nothing = substitutions.sum(axis=0), deletions.sum()
        else:
            n = self.n_symbols
            from_any, to_nothing = substitutions @ [1.0, n - 1.0], n * deletions[0]
        return np.log(from_any + insertions), np.log1p(-to_nothing)


@dataclass(frozen=True)
class TiedOperations(Operations):
    r"""Four kinds of operations, with even probabilities within each, and the end.

    For an alphabet A, those of one match, mismatch, deletion and insertion are
    :math:`\delta_{match} / |A|`, :math:`\delta_{mismatch} / (|A| (|A| - 1))`,
    :math:`\delta_{delete} / |A|` and :math:`\delta_{insert} / |A|`.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet, 2 at least.
    """

    @property
    def n_probabilities(self) -> int:
        return len(KINDS)

    def spread(self, kinds: ArrayLike) -> Floats:
        return np.asarray(kinds, dtype=np.float64)

    def by_kind(self, vector: Floats) -> Floats:
        return vector

    def tables(self, vector: Floats) -> tuple[Floats, Floats, Floats]:
        match, mismatch, delete, insert, _ = vector / self.n_symbols
        substitutions = np.array([[match, mismatch / (self.n_symbols - 1)]])
        return substitutions, np.array([delete]), np.array([insert])

    def results(self, n_pairs: int) -> tuple[Floats, Floats]:
        return np.empty((n_pairs, 4)), np.empty(0)

    def symbols_of(self, drawn: Integers, rng: Generator) -> tuple[Integers, Integers]:
        match, mismatch, delete, insert = (drawn == kind for kind in range(4))
        source = rng.integers(self.n_symbols, size=len(drawn))
        others = (source + rng.integers(1, self.n_symbols, size=len(drawn))) % self.n_symbols
        target = np.where(mismatch, others, source)
        return np.where(insert, -1, source), np.where(delete, -1, target)


@dataclass(frozen=True)
class FullOperations(Operations):
    """A probability for each pair of symbols, each deletion and each insertion, and the end.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet, 2 at least; the last symbol replaces all unknown ones.
    """

    @property
    def n_probabilities(self) -> int:
        return self.n_symbols**2 + 2 * self.n_symbols + 1

    def spread(self, kinds: ArrayLike) -> Floats:
        B = self.n_symbols
        match, mismatch, delete, insert, end = kinds
        substitutions = np.full((B, B), mismatch / (B * (B - 1)))
        np.fill_diagonal(substitutions, match / B)
        alone = np.repeat([delete / B, insert / B], B)
        return np.concatenate([substitutions.ravel(), alone, [end]])

    def by_kind(self, vector: Floats) -> Floats:
        substitutions, deletions, insertions = self.tables(vector)
        match = np.trace(substitutions)
        mismatch = substitutions.sum() - match
        return np.array([match, mismatch, deletions.sum(), insertions.sum(), vector[-1]])

    def tables(self, vector: Floats) -> tuple[Floats, Floats, Floats]:
        B = self.n_symbols
        substitutions = vector[: B * B].reshape(B, B)
        return substitutions, vector[B * B : B * B + B], vector[B * B + B : -1]

    def results(self, n_pairs: int) -> tuple[Floats, Floats]:
        return np.empty((0, 4)), np.empty(self.n_probabilities - 1)

    def symbols_of(self, drawn: Integers, rng: Generator) -> tuple[Integers, Integers]:
        B = self.n_symbols
        alone = drawn - B * B
        source = np.where(alone < 0, drawn // B, np.where(alone < B, alone, -1))
        target = np.where(alone < 0, drawn % B, np.where(alone < B, -1, alone - B))
        return source, target

    def known(self, symbols: Integers) -> Integers:
        return np.minimum(symbols, np.intc(self.n_symbols - 1))


_DELETION, _INSERTION = 1, 2


def best_moves(source, target, log_weights):
    """Return the best path of two strings, as pairs of positions; None where there is no symbol."""
    moves = np.empty((len(source), len(target)), dtype=np.int8)
    if moves.size:
        best_path(source, target, log_weights, moves)
    i, j, path = len(source), len(target), []
    while i > 0 or j > 0:
        move = moves[i - 1, j - 1] if i > 0 and j > 0 else _DELETION if i > 0 else _INSERTION
        i, j = i - (move != _INSERTION), j - (move != _DELETION)
        path.append((None if move == _INSERTION else i, None if move == _DELETION else j))
    return path[::-1]

"""Strings of coded symbols, and pairs of them: the form in which transducers take their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem._typing import Integers
from sklearn_onlineem.data._batch import Batch, Index, array_of, check_offsets, check_threads

__all__ = ["StringPairs", "Strings", "length_order"]


@dataclass(frozen=True)
class Strings:
    """Strings of symbols, one after the other.

    Parameters
    ----------
    symbols : ndarray of shape (n_symbols_in_all,)
        intc; codes from 0 up.
    offsets : ndarray of shape (n_strings + 1,)
        int64; where each string begins, and the number of symbols. A string may be empty.

    Raises
    ------
    ValueError
        If a code is below 0, or offsets do not cut the symbols into strings.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.strings import Strings
    >>> strings = Strings(np.array([0, 1, 1, 2], dtype=np.intc), np.array([0, 1, 1, 4]))
    >>> len(strings), strings.lengths, strings[[2]].symbols
    (3, array([1, 0, 3]), array([1, 1, 2], dtype=int32))
    """

    symbols: Integers
    offsets: Integers

    def __post_init__(self):
        array_of("symbols of Strings", self.symbols, (np.dtype(np.intc),))
        if self.symbols.min(initial=0) < 0:
            raise ValueError("symbols of Strings must be codes from 0 up.")
        check_offsets(self.offsets, len(self.symbols), "symbols", least=0)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Integers:
        """Numbers of symbols."""
        return np.diff(self.offsets)

    def __getitem__(self, index: Index) -> Strings:
        """Strings of a slice or of an index array."""
        chosen = np.arange(len(self))[index]
        lengths = self.lengths[chosen]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        starts = self.offsets[:-1][chosen] - offsets[:-1]
        symbols = self.symbols[np.arange(offsets[-1]) + np.repeat(starts, lengths)]
        return Strings(symbols, offsets)

    @classmethod
    def concatenate(cls, parts: Sequence[Strings]) -> Self:
        """Return the strings of several values, one after the other.

        Parameters
        ----------
        parts : list of Strings
            At least one.

        Returns
        -------
        strings : Strings
        """
        lengths = np.concatenate([part.lengths for part in parts])
        symbols = np.concatenate([part.symbols for part in parts])
        return cls(symbols, np.concatenate(([0], np.cumsum(lengths))))


@dataclass(frozen=True)
class StringPairs(Batch):
    """Pairs of strings; one observation is one pair.

    Parameters
    ----------
    sources, targets : Strings
        As many of both.
    n_threads : int, default=1
        How many threads the kernels may use.
    n_symbols : int, default=None
        How many codes there are, where that is known.

    Raises
    ------
    ValueError
        If there are not as many sources as targets.
    """

    sources: Strings
    targets: Strings
    n_threads: int = 1
    n_symbols: int | None = None

    def __post_init__(self):
        if len(self.sources) != len(self.targets):
            counts = f"{len(self.sources)} sources and {len(self.targets)} targets"
            raise ValueError(f"StringPairs must have as many of both, got {counts}.")
        check_threads(self.n_threads)

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: Index) -> StringPairs:
        return replace(self, sources=self.sources[index], targets=self.targets[index])

    @classmethod
    def concatenate(cls, batches: Sequence[StringPairs]) -> StringPairs:
        return replace(
            batches[0],
            sources=Strings.concatenate([batch.sources for batch in batches]),
            targets=Strings.concatenate([batch.targets for batch in batches]),
        )

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """float64: symbols have no precision of their own."""
        return np.dtype(np.float64)

    @property
    def n_features(self) -> int:
        return 0

    @property
    def n_rows(self) -> int:
        return len(self)


def length_order(n, m, long, n_cells, n_batched):
    """Order pairs so that neighbours have like lengths, and cut them into chunks.

    Parameters
    ----------
    n, m : ndarray of shape (n_pairs,)
        Lengths of the sources and the targets.
    long : int
        Targets from this length on are long.
    n_cells : float
        What a chunk has about, a pair at least. Python looks for Ctrl-C between chunks.
    n_batched : int
        Pairs of short targets that kernels take in one batch: chunks are multiples of it.

    Yields
    ------
    chunk : ndarray
        Indices of pairs.
    is_short : bool
        Whether the targets are not long.
    """
    order = np.lexsort((m, n))
    is_long = m[order] >= long
    for chosen, is_short in ((order[~is_long], True), (order[is_long], False)):
        cells = np.cumsum((n[chosen] + 1.0) * (m[chosen] + 1.0))
        cuts = np.flatnonzero(np.diff(cells // n_cells)) + 1
        if is_short:
            cuts = np.unique(-(-cuts // n_batched) * n_batched)
        for chunk in np.split(chosen, cuts):
            if len(chunk):
                yield chunk, is_short

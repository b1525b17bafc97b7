"""Strings of coded symbols, and pairs of them: the data of edit distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from sklearn_onlineem._checks import array_of, check_offsets, check_threads, check_weights
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data.batch import Batch, Index, of_equal_weight
from sklearn_onlineem.data.rows import concatenated


@dataclass(frozen=True)
class Strings:
    """Strings of symbols, one after the other.

    A ValueError is raised for arrays that are not as described.

    Parameters
    ----------
    symbols : ndarray of shape (n_symbols_in_all,)
        intc; codes from 0 up.
    offsets : ndarray of shape (n_strings + 1,)
        int64; the first symbol of each string, and the number of symbols. A string may be empty.
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
        chosen = np.arange(len(self))[index]
        lengths = self.lengths[chosen]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        starts = self.offsets[:-1][chosen] - offsets[:-1]
        symbols = self.symbols[np.arange(offsets[-1]) + np.repeat(starts, lengths)]
        return Strings(symbols, offsets)

    @classmethod
    def concatenate(cls, parts: Sequence[Strings]) -> Self:
        """Return the strings of several values, in order.

        Parameters
        ----------
        parts : list of Strings
            At least one.
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
        As many of both; else ValueError is raised.
    n_threads : int, default=1
        Number of threads.
    n_symbols : int, default=None
        Number of codes, if it is known.
    sample_weight : ndarray of shape (n_pairs,), default=None
        float64, non-negative, not all 0; None means 1 for each pair.
    """

    sources: Strings
    targets: Strings
    n_threads: int = 1
    n_symbols: int | None = None
    sample_weight: Floats | None = None

    def __post_init__(self):
        if len(self.sources) != len(self.targets):
            counts = f"{len(self.sources)} sources and {len(self.targets)} targets"
            raise ValueError(f"StringPairs must have as many sources as targets, got {counts}.")
        if self.sample_weight is not None:
            check_weights("StringPairs", self.sample_weight, len(self))
        check_threads(self.n_threads)

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: Index) -> StringPairs:
        weight = None if self.sample_weight is None else self.sample_weight[index]
        sources, targets = self.sources[index], self.targets[index]
        return replace(self, sources=sources, targets=targets, sample_weight=weight)

    @classmethod
    def concatenate(cls, batches: Sequence[StringPairs]) -> StringPairs:
        return replace(
            batches[0],
            sources=Strings.concatenate([batch.sources for batch in batches]),
            targets=Strings.concatenate([batch.targets for batch in batches]),
            sample_weight=concatenated([batch.sample_weight for batch in batches], batches, 1.0),
        )

    @cached_property
    def total_weight(self) -> float:
        weight = self.sample_weight
        return float(len(self) if weight is None else weight.sum())

    def weighted(self, weight: Floats | None) -> StringPairs:
        """Return the pairs with other weights.

        Parameters
        ----------
        weight : ndarray of shape (n_pairs,) or None
            float64, not below 0; None for no weights.
        """
        return replace(self, sample_weight=weight)

    @cached_property
    def by_weight(self) -> tuple[tuple[float, Integers, StringPairs], ...]:
        """Each weight, and its pairs: their numbers, and these, without weights."""
        data, parts = self.weighted(None), of_equal_weight(self.sample_weight)
        return tuple((weight, part, data[part]) for weight, part in parts)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(np.float64)

    @property
    def n_features(self) -> int:
        return 0

    @property
    def n_rows(self) -> int:
        return len(self)


def length_order(n, m, long, n_cells, n_batched):
    """Yield chunks of pairs of similar lengths, and whether their targets are shorter than `long`.

    A chunk has about `n_cells` cells, so that Python can handle Ctrl-C between chunks; chunks of
    short targets are multiples of `n_batched`, which kernels take in one batch.
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

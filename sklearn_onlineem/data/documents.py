"""Documents as counts of words: the data of topic models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from sklearn_onlineem._checks import array_of
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data.batch import Index
from sklearn_onlineem.data.rows import BatchOfRows, Rows, concatenated, without_step

# Tokens of a document whose topics are drawn: float32 is exact for whole numbers up to this.
MOST_TOKENS = (1 << 24) - 1
# Topics of up to so many occurrences of a word in a document are drawn one by one; more are drawn
# as counts, which bounds the work by the number of words.
MOST_SINGLE = 1 << 12
# In longer documents `LocalGibbs` draws all topics as counts, word by word. Given the proportions,
# which are nearly known, they are independent, and that is faster.
MOST_TOKENS_SINGLY = 5000
# Largest count: sums of counts must fit float32, too.
MOST_WORDS = 1e30
_MOST_NUMBERS = 1 << 62


@dataclass(frozen=True)
class Documents(BatchOfRows):
    """Documents, each a row of counts of words.

    A ValueError is raised for arrays that are not as described.

    Parameters
    ----------
    rows : Rows
        Counts as CSR, not negative, and their weights. Labels are ignored.
    numbers : ndarray of shape (n_documents,), default=None
        int64; the number of each document, which seeds its random numbers, so that they do not
        depend on batches. None: 0, 1, ...
    allowed : ndarray of shape (n_documents, n_components), default=None
        uint8; 1 for the topics that a document may have, at least one. None: all.
    """

    rows: Rows
    numbers: Integers | None = None
    allowed: Integers | None = None

    def __post_init__(self):
        if not isinstance(self.rows, Rows) or not sparse.issparse(self.rows.X):
            raise ValueError("rows of Documents must be Rows whose X is CSR.")
        counts = self.rows.X.data
        if not (counts.min(initial=0.0) >= 0.0 and counts.max(initial=0.0) <= MOST_WORDS):
            raise ValueError(f"Counts of words must be from 0 to {MOST_WORDS}.")
        if self.numbers is None:
            object.__setattr__(self, "numbers", np.arange(len(self)))
        numbers, allowed, n = self.numbers, self.allowed, len(self)
        array_of("numbers of Documents", numbers, (np.dtype(np.int64),))
        if len(numbers) != n:
            raise ValueError(f"numbers of Documents must have length {n}, got {len(numbers)}.")
        if allowed is not None:
            array_of("allowed of Documents", allowed, (np.dtype(np.uint8),), ndim=2)
            if len(allowed) != n or not allowed.any(axis=1).all():
                raise ValueError(f"allowed of Documents must be {n} rows with a topic in each.")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sample_weight(self) -> Floats | None:
        return self.rows.sample_weight

    @property
    def total_weight(self) -> float:
        return self.rows.total_weight

    @cached_property
    def words(self) -> Integers:
        """The word of each count, int32."""
        return self.X.indices.astype(np.int32, copy=False)

    @cached_property
    def counts(self) -> Floats:
        """Counts, document by document, float32: a copy, as kernels make room for what they are."""
        return self.X.data.astype(np.float32)

    @cached_property
    def offsets(self) -> Integers:
        """Index of the first count of each document, int64, and their number."""
        return self.X.indptr.astype(np.int64, copy=False)

    @cached_property
    def lengths(self) -> Floats:
        """Numbers of tokens of the documents."""
        return np.asarray(self.X.sum(axis=1, dtype=np.float64)).ravel()

    @cached_property
    def is_whole(self) -> bool:
        """Whether all counts are whole numbers, and documents at most `MOST_TOKENS` long."""
        return are_counts(self.X.data) and self.lengths.max(initial=0.0) <= MOST_TOKENS

    def unnumbered(self) -> Documents:
        """Return the documents all numbered 0, so that draws depend on each document alone."""
        return Documents.unchecked(self.rows, np.zeros(len(self), dtype=np.int64), self.allowed)

    def numbered_from(self, first: int) -> Documents:
        if not isinstance(first, int | np.integer) or not 0 <= first <= _MOST_NUMBERS:
            raise ValueError(f"first must be a whole number from 0 to 2**62, got {first!r:.80}.")
        return Documents.unchecked(self.rows, self.numbers + int(first), self.allowed)

    @property
    def mean_length(self) -> float:
        """Mean number of tokens, by the weights of the documents."""
        return float(np.average(self.lengths, weights=self.sample_weight))

    def __getitem__(self, index: Index) -> Documents:
        index = without_step(index, len(self))
        allowed = None if self.allowed is None else self.allowed[index]
        return Documents.unchecked(self.rows[index], self.numbers[index], allowed)

    @classmethod
    def concatenate(cls, batches: Sequence[Documents]) -> Self:
        return cls.unchecked(
            Rows.concatenate([batch.rows for batch in batches]),
            np.concatenate([batch.numbers for batch in batches]),
            concatenated([batch.allowed for batch in batches], batches, np.uint8(1)),
        )

    def followed_by(self, batches: Sequence[Documents]) -> Self:
        # Numbers that do not depend on how a stream is cut.
        all_documents = self.concatenate([self, *batches])
        numbers = np.arange(len(all_documents), dtype=np.int64)
        return self.unchecked(all_documents.rows, numbers, all_documents.allowed)


def are_counts(values):
    """Return whether all values are whole numbers."""
    return bool((values == np.rint(values)).all())

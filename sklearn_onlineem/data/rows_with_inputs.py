"""Rows of inputs and outputs: the data of mixtures of regressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sklearn_onlineem.data.batch import Index
from sklearn_onlineem.data.rows import Rows


@dataclass(frozen=True)
class RowsWithInputs(Rows):
    """Independent observations (x, y), one a row; x is known.

    A ValueError is raised for arrays that are not as described.

    Parameters
    ----------
    X, sample_weight, labels, n_threads
        Like those of `Rows`; the columns of X are the inputs, and then the outputs.
    n_inputs : int, default=1
        Columns of inputs; `n_features` counts these alone.
    """

    n_inputs: int = 1

    @classmethod
    def of(cls, rows: Rows, n_inputs: int) -> Self:
        """Return rows with `n_inputs` columns of inputs, without checks.

        Parameters
        ----------
        rows : Rows
            Inputs and outputs, side by side.
        n_inputs : int
            Columns of inputs.
        """
        pairs = cls.unchecked(rows.X, rows.sample_weight, rows.labels, rows.n_threads)
        pairs.__dict__["n_inputs"] = n_inputs
        return pairs

    @property
    def n_features(self) -> int:
        return self.n_inputs

    def __getitem__(self, index: Index) -> RowsWithInputs:
        return RowsWithInputs.of(super().__getitem__(index), self.n_inputs)

    @classmethod
    def concatenate(cls, batches: Sequence[RowsWithInputs]) -> Self:
        return cls.of(super().concatenate(batches), batches[0].n_inputs)

"""The best edit script of two strings, in a form to be read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sklearn_onlineem._kernels._edit_lattice import best_path

__all__ = ["Alignment", "best_moves"]

_MARKS = {"match": "|", "mismatch": ".", "delete": " ", "insert": " "}
_SUBSTITUTION, _DELETION, _INSERTION = range(3)


class Alignment(NamedTuple):
    """Which symbols of a source became which of a target.

    Attributes
    ----------
    operations : list of (kind, source symbol, target symbol)
        "match", "mismatch", "delete" or "insert"; None stands for no symbol.
    distance : float
        Minus the log-probability of this script, in nats.

    Examples
    --------
    >>> operations = [("match", "a", "a"), ("delete", "b", None), ("mismatch", "c", "d")]
    >>> print(Alignment(operations, 3.0))
    abc
    | .
    a-d
    """

    operations: list
    distance: float

    def __str__(self):
        columns = [
            ("-" if a is None else str(a), _MARKS[kind], "-" if b is None else str(b))
            for kind, a, b in self.operations
        ]
        widths = [max(map(len, column)) for column in columns]
        gap = " " if max(widths, default=1) > 1 else ""
        lines = (
            gap.join(
                column[line].ljust(width) for column, width in zip(columns, widths, strict=True)
            )
            for line in range(3)
        )
        return "\n".join(line.rstrip() for line in lines)


def best_moves(source, target, log_weights):
    """Moves of the best path from the first cell to the last, as pairs of positions or None."""
    moves = np.empty((len(source), len(target)), dtype=np.int8)
    if moves.size:
        best_path(source, target, log_weights, moves)
    i, j, path = len(source), len(target), []
    while i > 0 or j > 0:
        move = moves[i - 1, j - 1] if i > 0 and j > 0 else _DELETION if i > 0 else _INSERTION
        i, j = i - (move != _INSERTION), j - (move != _DELETION)
        path.append((None if move == _INSERTION else i, None if move == _DELETION else j))
    return path[::-1]

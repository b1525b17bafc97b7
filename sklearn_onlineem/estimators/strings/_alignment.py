"""The best edit script of two strings, in a form to be read."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Alignment"]

_MARKS = {"match": "|", "mismatch": ".", "delete": " ", "insert": " "}


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

"""The most probable edit script of two strings."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem._kernels._edit_lattice import best_path

__all__ = ["best_moves"]

_DELETION, _INSERTION = 1, 2


def best_moves(source, target, log_weights):
    """Return the best path through the lattice of two strings.

    Parameters
    ----------
    source, target : ndarray of intc
        Codes that the operations know.
    log_weights : ndarray
        Those of substitutions, see `LatticeWeights`.

    Returns
    -------
    moves : list of (int or None, int or None)
        Positions in source and target; None where an operation has no symbol there.
    """
    moves = np.empty((len(source), len(target)), dtype=np.int8)
    if moves.size:
        best_path(source, target, log_weights, moves)
    i, j, path = len(source), len(target), []
    while i > 0 or j > 0:
        move = moves[i - 1, j - 1] if i > 0 and j > 0 else _DELETION if i > 0 else _INSERTION
        i, j = i - (move != _INSERTION), j - (move != _DELETION)
        path.append((None if move == _INSERTION else i, None if move == _DELETION else j))
    return path[::-1]

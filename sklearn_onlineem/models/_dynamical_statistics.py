"""Expected statistics of linear dynamical systems, and how kernels sum them up."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.families.gaussian_matrix import MatrixMoments
from sklearn_onlineem.statistics import Statistics

__all__ = ["LinearDynamicalStatistics", "room_for_sums", "scatters", "statistics_of"]


@dataclass(frozen=True)
class LinearDynamicalStatistics(Statistics):
    """Expected statistics of a linear dynamical system, for each sequence.

    Parameters
    ----------
    initial : MatrixMoments
        Of the first states of sequences.
    transitions : MatrixMoments
        Of successive states, (h_t-1, h_t).
    emissions : MatrixMoments
        Of states and rows, (h_t, v_t).
    """

    initial: MatrixMoments
    transitions: MatrixMoments
    emissions: MatrixMoments


def room_for_sums(k, d):
    """Room for the weight, mean and scatter of each part of a single system's statistics."""
    return [np.empty(1 + n + n * n) for n in (k, 2 * k, k + d)]


def scatters(sums):
    """Views of the scatters in such room."""
    return [part[1 + n :].reshape(n, n) for part, n in zip(sums, map(_size, sums), strict=True)]


def statistics_of(sums, fresh=True):
    """Statistics from what a kernel has found; of first states only if sequences are fresh."""
    initial, transitions, emissions = map(_moments, sums, scatters(sums))
    return LinearDynamicalStatistics(
        initial if fresh else initial.scale(0.0), transitions, emissions
    )


def _moments(part, scatter):
    return MatrixMoments(part[:1], part[:1], part[None, 1 : _size(part) + 1], scatter[None])


def _size(part):
    return math.isqrt(len(part))

"""Expected statistics of linear dynamical systems, and how kernels sum them up."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.statistics import Moments, Statistics

__all__ = ["LinearDynamicalStatistics", "room_for_sums", "statistics_of"]


@dataclass(frozen=True)
class LinearDynamicalStatistics(Statistics):
    """Expected statistics of a linear dynamical system, for each sequence.

    Parameters
    ----------
    initial : Moments
        Of the first states of sequences.
    transitions : Moments
        Of successive states, (h_t-1, h_t).
    emissions : Moments
        Of states and rows, (h_t, v_t).
    """

    initial: Moments
    transitions: Moments
    emissions: Moments

    @property
    def parts(self) -> tuple[Moments, Moments, Moments]:
        return self.initial, self.transitions, self.emissions

    @property
    def is_finite(self) -> bool:
        """Whether all of the moments are finite: those of unstable systems may overflow."""
        return all(
            np.isfinite(part.mean).all() and np.isfinite(part.scatter).all() for part in self.parts
        )


def room_for_sums(k, d):
    """Room for the weight, mean and scatter of each part of a single system's statistics."""
    return [np.empty(1 + n + n * n) for n in (k, 2 * k, k + d)]


def statistics_of(sums, fresh=True):
    """Statistics from what a kernel has found; of first states only if sequences are fresh."""
    initial, transitions, emissions = map(_moments, sums)
    return LinearDynamicalStatistics(
        initial if fresh else initial.scale(0.0), transitions, emissions
    )


def _moments(sums):
    n = math.isqrt(len(sums))
    scatter = sums[n + 1 :].reshape(1, n, n)
    return Moments(sums[:1], sums[:1], sums[None, 1 : n + 1], scatter)

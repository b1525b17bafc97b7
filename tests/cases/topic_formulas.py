"""Random numbers and draws of topics as their kernels make them, in Python."""

import numpy as np

LANES = 16
MASK = 2**64 - 1


def mixed(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def stream_of(key, number):
    return mixed((key + (number + 1) * 0x9E3779B97F4A7C15) & MASK)


def uniform_of(key, number):
    return (stream_of(key, number) >> 40) / 2**24


def choose(weights, uniform):
    """The topic at a share of all weights: topics go by column, lane, and place in the lane."""
    order = sorted(range(len(weights)), key=lambda k: (k % 4, k % LANES, k))
    sums = np.cumsum(weights[order])
    return order[np.searchsorted(sums, uniform * sums[-1], side="right")]


def padded(table):
    """Rows of topics (V, P) of a table (V, K)."""
    V, K = table.shape
    rows = np.zeros((V, -(-K // LANES) * LANES), np.float32)
    rows[:, :K] = table
    return rows

"""Matrices and offsets of linear dynamical systems that are known for each row of a sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem._values import Loaded
from sklearn_onlineem.statistics import Moments


@dataclass(frozen=True, eq=False)
class Varying(Loaded):
    """Known arrays of a system that vary in time, for each row of any sequence; None for others.

    A transition leads from its row to the next one. What is left of a state or row after these
    arrays is a regression, whose own matrix or offset is 0 where it varies.
    """

    transition_matrices: Floats | None = None
    transition_offsets: Floats | None = None
    observation_matrices: Floats | None = None
    observation_offsets: Floats | None = None

    @property
    def given(self):
        """Arrays by their names."""
        return {name: array for name, array in vars(self).items() if array is not None}

    def in_units(self, sizes, n):
        """Return the first n entries in units in which states have these sizes."""
        unit = {
            "transition_matrices": sizes / sizes[:, None],
            "transition_offsets": 1.0 / sizes,
            "observation_matrices": sizes,
        }
        return Varying(**{
            name: array[:n] * unit.get(name, 1.0) for name, array in self.given.items()
        })  # fmt: skip

    def of_rows(self, data):
        """Return the arrays with an entry for each row of sequences, by their names.

        ValueError if a sequence is longer than an array.
        """
        if data.before is not None:
            raise ValueError("sequences cannot be continued with arrays that vary in time.")
        times, longest = times_of(data), int(data.lengths.max())
        for name, array in self.given.items():
            needed = longest - name.startswith("transition")
            if len(array) < needed:
                raise ValueError(
                    f"{name} varies in time and has {len(array)} entries, but a sequence of"
                    f" {longest} rows, with those that are forecast, needs {needed}."
                )
        # Nothing follows from the last transition.
        return {
            name: array[np.minimum(times, len(array) - 1)] for name, array in self.given.items()
        }


def times_of(data):
    """Return the number of each row in its sequence, from 0 on."""
    return np.arange(data.n_rows) - np.repeat(data.offsets[:-1], data.lengths)


def _moments(means, covariances, weights=None, n=1.0):
    """Return the moments, per sequence of n, of vectors with these means and covariances."""
    if weights is None:
        weights = np.ones(len(means))
    weight = weights.sum()
    mean = weights @ means / weight if weight > 0.0 else np.zeros(means.shape[1])
    deviations = means - mean
    scatter = (weights[:, None] * deviations).T @ deviations
    scatter += np.tensordot(weights, covariances, 1)
    scatter = 0.5 * (scatter + scatter.T)
    weight = np.array([weight / n])
    return Moments(weight, weight.copy(), mean[None], scatter[None] / n)


def _pairs(means, covariances, maps, shifts, rests, across=None):
    """Return means and covariances of (x, y), for y = M x + u and a rest.

    `rests` are means and covariances of the rest, and `across` its covariances with x, or None.
    """
    of_y = np.einsum("nij,nj->ni", maps, means) + shifts + rests[0]
    yx = maps @ covariances
    yy = yx @ maps.mT + rests[1]
    if across is not None:
        turned = across @ maps.mT
        yx, yy = yx + across, yy + turned + turned.mT
    joint = np.block([[covariances, yx.mT], [yx, yy]])
    return np.concatenate([means, of_y], axis=1), joint


def expected_moments(model, data, arrays, means, covariances, lags):
    """Return the moments of first states, successive states, and states with rows, per sequence.

    `arrays` are those of the rows, and the others smoothed moments.
    """
    n, k = len(data), model.n_components
    first, last = data.offsets[:-1], data.offsets[1:] - 1
    initial = _moments(means[first], covariances[first], None, n)
    before = np.setdiff1d(np.arange(data.n_rows), last)
    after, zeros = before + 1, np.zeros((len(before), k))
    G = arrays.get("transition_matrices")
    g = arrays.get("transition_offsets")
    maps = np.zeros((len(before), k, k)) if G is None else -G[before]
    shifts = zeros if g is None else -g[before]
    rests = means[after], covariances[after]
    transitions = _moments(
        *_pairs(means[before], covariances[before], maps, shifts, rests, lags[after]), None, n
    )
    parts = [*_observations(model, data, arrays, means, covariances)]
    joint = [np.concatenate(part) for part in zip(*parts, strict=True)]
    return initial, transitions, _moments(*joint, None, n)


def _observations(model, data, arrays, means, covariances):
    """Yield moments of states and what is left of their rows, by patterns of gaps."""
    B, c, R = model.emissions.matrix, model.emissions.offset, model.emissions.covariance
    d, k = B.shape
    X = data.X.astype(np.float64, copy=False)
    patterns, of_row = np.unique(np.isnan(X), axis=0, return_inverse=True)
    of_row = of_row.ravel()
    yield np.empty((0, k + d)), np.empty((0, k + d, k + d))
    for i, missing in enumerate(patterns):
        if missing.all():
            continue
        rows, seen = np.flatnonzero(of_row == i), ~missing
        G, g = (arrays.get(f"observation_{what}") for what in ("matrices", "offsets"))
        C = B[None] if G is None else B + G[rows]
        offset = c[None] if g is None else c + g[rows]
        # Noise of missing values follows from that of the others.
        fill = np.zeros((d, int(seen.sum())))
        fill[seen] = np.eye(fill.shape[1])
        inner = R[np.ix_(seen, seen)]
        fill[missing] = np.linalg.solve(inner, R[np.ix_(seen, missing)]).T
        rest = np.zeros((d, d))
        rest[np.ix_(missing, missing)] = R[np.ix_(missing, missing)] - (
            fill[missing] @ R[np.ix_(seen, missing)]
        )
        maps = np.broadcast_to(B - fill @ C[:, seen], (len(rows), d, k))
        shifts = c + (X[rows][:, seen] - offset[:, seen]) @ fill.T
        rests = np.zeros((len(rows), d)), np.broadcast_to(rest, (len(rows), d, d))
        yield _pairs(means[rows], covariances[rows], maps, shifts, rests)


def occupancies(steps, means, covariances):
    """Return moments, per sequence, of the states that transitions leave and of those that emit.

    `steps` are ends and shares of the runs of steps that sequences have; the moments are those of
    the states of the longest one under the model.
    """
    ends, shares = steps
    weights = shares[np.searchsorted(ends, np.arange(len(means)), side="right")]
    return (
        _moments(means[:-1], covariances[:-1], weights[1:]),
        _moments(means, covariances, weights),
    )

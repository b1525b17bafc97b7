"""What is known of each row in linear dynamical systems: matrices, offsets, and inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


class Known(NamedTuple):
    """What is known of rows: arrays that vary, by name, and inputs of shape (n_rows, m)."""

    arrays: dict
    # Of the transition from each row to the next, and of the row itself.
    left: Floats
    now: Floats

    def of(self, rows):
        """Return what is known of some rows, by their numbers."""
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        return Known(arrays, self.left[rows], self.now[rows])

    def of_filter(self, model):
        """Return arrays by name, of all rows or of each, with what inputs add to offsets."""
        found = {**model.shared, **self.arrays}
        if model.n_inputs:
            B, D = (
                part.matrix[:, model.n_components :]
                for part in (model.transitions, model.emissions)
            )
            found["transition_offsets"] = found["transition_offsets"] + self.left @ B.T
            found["observation_offsets"] = found["observation_offsets"] + self.now @ D.T
        return found


def at(arrays, name, rows):
    """Return an array of a row, or of several; what all share is without an axis for them."""
    array = arrays[name]
    return array[rows] if array.ndim > 1 + name.endswith("matrices") else array


def known_of(model, data):
    """Return what is known of the rows of sequences."""
    m, arrays = model.n_inputs, {} if model.varying is None else model.varying.of_rows(data)
    inputs = data.X[:, : 2 * m].astype(np.float64)
    # Rows have the inputs of those before them.
    return Known(arrays, np.roll(inputs[:, :m], -1, axis=0), inputs[:, m:])


def _moments(means, covariances, weights=None):
    """Return the moments of vectors with these means and covariances.

    Without weights, covariances may be sums.
    """
    of_each = weights
    if weights is None:
        weights, of_each = np.ones(len(means)), np.ones(len(covariances))
    weight = weights.sum()
    mean = weights @ means / weight if weight > 0.0 else np.zeros(means.shape[1])
    deviations = means - mean
    scatter = (weights[:, None] * deviations).T @ deviations
    scatter += np.tensordot(of_each, covariances, 1)
    scatter = 0.5 * (scatter + scatter.T)
    return Moments(*np.full((2, 1), weight), mean[None], scatter[None])


def _of_rows(covariances, rows, is_summed):
    """Return the covariances of some rows, or their sum."""
    if not is_summed:
        return covariances[rows]
    are_wanted = np.zeros(len(covariances))
    are_wanted[rows] = 1.0
    return np.tensordot(are_wanted, covariances, 1)[None]


def _pairs(x, P, maps, rest, R, across=0.0):
    """Return means and covariances of (h, u, y), for x the means of (h, u) and y = M x + a rest.

    P are covariances of h, R of the rest, and `across` those of the rest with h. If one M (1, p, q)
    is that of all, they and what is returned of them are sums.
    """
    k, q, p = P.shape[1], maps.shape[2], maps.shape[1]
    y, maps = np.einsum("nij,nj->ni", maps, x) + rest, maps[:, :, :k]
    yx = maps @ P + across
    yy = yx @ maps.mT + R
    if np.ndim(across):
        yy += maps @ across.mT
    # Inputs have no variance.
    joint = np.zeros((len(yy), q + p, q + p))
    joint[:, :k, :k], joint[:, :k, q:] = P, yx.mT
    joint[:, q:, :k], joint[:, q:, q:] = yx, yy
    return np.hstack([x, y]), joint


def expected_moments(model, data, known, means, covariances, lags):
    """Return the moments of first states, of transitions, and of states with rows, summed.

    `known` is what is known of rows, and the others are smoothed moments. Inputs follow the states
    of transitions and of rows. Nothing is first in a sequence that continues.
    """
    k, first = model.n_components, data.offsets[:-1]
    weights = np.zeros(1) if data.n_lead else None
    initial = _moments(means[first], covariances[first], weights)
    before = np.delete(np.arange(len(means)), data.offsets[1:] - 1)
    G, g = (known.arrays.get(f"transition_{what}") for what in ("matrices", "offsets"))
    after, maps = before + 1, np.zeros((1 if G is None else len(before), k, k + model.n_inputs))
    if G is not None:
        maps[:, :, :k] = -G[before]
    rest = means[after] if g is None else means[after] - g[before]
    P, R = (_of_rows(covariances, rows, G is None) for rows in (before, after))
    x, across = np.hstack([means, known.left])[before], _of_rows(lags, after, G is None)
    transitions = _moments(*_pairs(x, P, maps, rest, R, across))
    x = np.hstack([means, known.now])
    joint = zip(*_observations(model, data.X, known, x, covariances), strict=True)
    return initial, transitions, _moments(*map(np.concatenate, joint))


def _observations(model, X, known, x, covariances):
    """Yield moments of states and what is left of their rows, by patterns of gaps."""
    B, c, R = model.emissions.matrix, model.emissions.offset, model.emissions.covariance
    d, k, gaps = len(B), model.n_components, np.isnan(X)
    G, g = (known.arrays.get(f"observation_{what}") for what in ("matrices", "offsets"))
    observed = np.flatnonzero(~gaps.all(axis=1))
    patterns, of_row = np.zeros((1, d), dtype=bool), np.zeros(len(observed), dtype=np.intp)
    if gaps[observed].any():
        patterns, of_row = np.unique(gaps[observed], axis=0, return_inverse=True)
    for i, missing in enumerate(patterns):
        rows, seen = observed[of_row.ravel() == i], ~missing
        C = B[None]
        if G is not None:
            C = np.tile(B, (len(rows), 1, 1))
            C[:, :, :k] += G[rows]
        offset = c if g is None else c + g[rows]
        # Noise of missing values follows from that of the others.
        fill = np.zeros((d, int(seen.sum())))
        fill[seen] = np.eye(fill.shape[1])
        fill[missing] = np.linalg.solve(R[np.ix_(seen, seen)], R[np.ix_(seen, missing)]).T
        rest = c + (X[rows][:, seen] - offset[..., seen]) @ fill.T
        spread = np.broadcast_to(R - fill @ R[seen], (len(rows), d, d))
        P, spread = (
            _of_rows(part, at, G is None)
            for part, at in ((covariances, rows), (spread, slice(None)))
        )
        yield _pairs(x[rows], P, B - fill @ C[:, seen], rest, spread)


def of_inputs(moments, n):
    """Return the moments of the first n variables of each regression, of weight 1, or None."""
    weight = float(moments.weight[0])
    if not weight > 0.0:
        return None
    one = np.ones(1)
    return Moments(one, one.copy(), moments.mean[:, :n], moments.scatter[:, :n, :n] / weight)


def n_inputs_of(like):
    """Return how many transitions leave a state, and how many rows there are, per sequence."""
    ends, shares = like.steps
    n_rows = float(shares @ np.diff(ends, prepend=0))
    n_left = n_rows - float(shares[:1].sum())
    more = 0.0 if like.before is None else like.share_of_first * float(like.lengths[0])
    return n_left + more, n_rows + more


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

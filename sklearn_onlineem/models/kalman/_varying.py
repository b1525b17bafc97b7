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

    def part(self, begin, end, n_lead):
        """Return what is known of some rows, after one for the state before if `n_lead` is 1."""

        def rows(array):
            own = array[begin:end]
            # The last entry leads to the first row.
            return np.concatenate([array[-1:], own]) if n_lead else own

        arrays = {name: rows(array) for name, array in self.arrays.items()}
        return Known(arrays, rows(self.left), rows(self.now))

    def of(self, rows):
        """Return what is known of some rows, by their numbers."""
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        return Known(arrays, self.left[rows], self.now[rows])

    def of_filter(self, model):
        """Return the arrays of rows, by name, with what inputs add to offsets."""
        if not model.n_inputs:
            return self.arrays
        b = self.arrays.get("transition_offsets", model.transitions.offset)
        d = self.arrays.get("observation_offsets", model.emissions.offset)
        B, D = (
            part.matrix[:, model.n_components :] for part in (model.transitions, model.emissions)
        )
        moved, read = b + self.left @ B.T, d + self.now @ D.T
        return {**self.arrays, "transition_offsets": moved, "observation_offsets": read}


def known_of(model, data):
    """Return what is known of the rows of sequences."""
    m, arrays = model.n_inputs, {} if model.varying is None else model.varying.of_rows(data)
    inputs = data.X[:, : 2 * m].astype(np.float64)
    # Rows have the inputs of those before them.
    return Known(arrays, np.roll(inputs[:, :m], -1, axis=0), inputs[:, m:])


def _moments(means, covariances, weights=None, n=1.0):
    """Return the moments, per sequence of n, of vectors with these means and covariances.

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
    weight = np.array([weight / n])
    return Moments(weight, weight.copy(), mean[None], scatter[None] / n)


def _summed(covariances):
    return np.tensordot(np.ones(len(covariances)), covariances, 1)[None]


def _of_rows(means, covariances, rows, is_summed):
    """Return moments of rows; those of all sequences, where covariances are of one of them.

    The sum of these covariances, if it is all that is wanted of them.
    """
    n = len(covariances)
    if n == len(means):
        return means[rows], covariances[rows]
    if not is_summed:
        return means[rows], covariances[rows % n]
    counts = np.bincount(rows % n, minlength=n).astype(np.float64)
    return means[rows], np.tensordot(counts, covariances, 1)[None]


def _pairs(states, inputs, maps, shifts, rests, across=None):
    """Return means and covariances of (h, u, y), for y = M (h, u) + v and a rest.

    `states` are moments of h, `rests` those of the rest, and `across` is its covariance with h. If
    one M (1, p, q) is that of all, covariances are their sum.
    """
    (means, covariances), (of_rest, spread) = states, rests
    k, q, p = means.shape[1], maps.shape[2], maps.shape[1]
    x = np.hstack([means, inputs])
    if len(maps) == 1:
        of_y = x @ maps[0].T + shifts + of_rest
        covariances, spread = _summed(covariances), _summed(spread)
        across = None if across is None else _summed(across)
    else:
        of_y = np.einsum("nij,nj->ni", maps, x) + shifts + of_rest
    maps = maps[:, :, :k]
    yx = maps @ covariances
    yy = yx @ maps.mT + spread
    if across is not None:
        turned = across @ maps.mT
        yx, yy = yx + across, yy + turned + turned.mT
    # Inputs have no variance.
    joint = np.zeros((len(yy), q + p, q + p))
    joint[:, :k, :k], joint[:, :k, q:] = covariances, yx.mT
    joint[:, q:, :k], joint[:, q:, q:] = yx, yy
    return np.hstack([x, of_y]), joint


def expected_moments(model, data, known, means, covariances, lags):
    """Return the moments of first states, of transitions, and of states with rows, per sequence.

    `known` is what is known of rows, and the others are smoothed moments. Sequences of one length
    may share covariances and lags, which are those of one of them. Inputs follow the states of
    transitions and of rows. Nothing is first in a sequence that continues.
    """
    n, k, q = len(data), model.n_components, model.n_components + model.n_inputs
    first, last = data.offsets[:-1], data.offsets[1:] - 1
    weights = np.zeros(1) if data.n_lead else None
    initial = _moments(*_of_rows(means, covariances, first, True), weights, n)
    leads = np.ones(len(means), dtype=bool)
    leads[last] = False
    before = np.flatnonzero(leads)
    G = known.arrays.get("transition_matrices")
    g = known.arrays.get("transition_offsets")
    after, maps = before + 1, np.zeros((1 if G is None else len(before), k, q))
    if G is not None:
        maps[:, :, :k] = -G[before]
    shifts = np.zeros((len(before), k)) if g is None else -g[before]
    leaving, rests = (_of_rows(means, covariances, at, G is None) for at in (before, after))
    across = _of_rows(means, lags, after, G is None)[1]
    pairs = _pairs(leaving, known.left[before], maps, shifts, rests, across)
    transitions = _moments(*pairs, None, n)
    parts = [*_observations(model, data, known, means, covariances)]
    joint = [np.concatenate(part) for part in zip(*parts, strict=True)]
    return initial, transitions, _moments(*joint, None, n)


def _observations(model, data, known, means, covariances):
    """Yield moments of states and what is left of their rows, by patterns of gaps."""
    B, c, R = model.emissions.matrix, model.emissions.offset, model.emissions.covariance
    (d, q), k = B.shape, model.n_components
    X = data.X
    gaps = np.isnan(X)
    observed = np.flatnonzero(~gaps.all(axis=1))
    gaps = gaps[observed]
    patterns, of_row = gaps[:1], np.zeros(len(gaps), dtype=np.intp)
    if (gaps != patterns).any():
        patterns, of_row = np.unique(gaps, axis=0, return_inverse=True)
    yield np.empty((0, q + d)), np.empty((0, q + d, q + d))
    for i, missing in enumerate(patterns):
        rows, seen = observed[of_row.ravel() == i], ~missing
        G, g = (known.arrays.get(f"observation_{what}") for what in ("matrices", "offsets"))
        C = B[None]
        if G is not None:
            C = np.tile(B, (len(rows), 1, 1))
            C[:, :, :k] += G[rows]
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
        maps = B - fill @ C[:, seen]
        shifts = c + (X[rows][:, seen] - offset[:, seen]) @ fill.T
        rests = np.zeros((len(rows), d)), np.broadcast_to(rest, (len(rows), d, d))
        states = _of_rows(means, covariances, rows, G is None)
        yield _pairs(states, known.now[rows], maps, shifts, rests)


def with_weight(moments, weight):
    """Return moments with another weight, of the same mean and covariance."""
    scale = np.array([weight])
    return Moments(scale, scale.copy(), moments.mean, weight * moments.scatter)


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

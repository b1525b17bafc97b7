"""M-step and coordinates of a regression of which some entries are fixed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.families import Diagonal, Full, Spherical
from sklearn_onlineem.families.covariance_shapes import NEGLIGIBLE
from sklearn_onlineem.families.linear_gaussian import AffineGaussian
from sklearn_onlineem.families.tangents import Directions

_EPS = np.finfo(float).eps
# Most rounds of coefficients and of the noise that they depend on, and the change in standard
# deviations at which they end. No round lowers the expected log-likelihood.
_MOST_ROUNDS, _NO_CHANGE = 20, 1e-10
# Share of a variance that a singular noise has more where its inverse is taken.
_RIDGE = 1e-12


class PartialRegression:
    """A regression y = B x + c + N(0, S) with fixed entries, and moments of its (x, y)."""

    def __init__(self, regression, moments=None, origin=None):
        self.regression = regression
        self.fixed, self._learnt = regression.fixed, regression.learnt
        self.B, self.c, self.S = (array[0].copy() for array in regression.parameters._arrays)
        self.p, self.q = self.B.shape
        if moments is not None:
            self.weight, self.degrees = float(moments.weight[0]), float(moments.degrees[0])
            self.mean, self.scatter = moments.mean[0], moments.scatter[0]
            # Offsets count from this mean of the inputs, so that no digits are lost far from 0.
            self.origin = self.mean[: self.q] if origin is None else origin

    @cached_property
    def free(self):
        """Whether each coefficient and, in a last column, each offset is learnt; (p, q + 1)."""
        free = np.zeros((self.p, self.q + 1), dtype=bool)
        if "matrix" in self._learnt:
            free[:, : self.q] = ~self.fixed.of("matrix", self.S)
        if "offset" in self._learnt:
            free[:, self.q] = ~self.fixed.of("offset", self.S)
        return free

    @cached_property
    def blocks(self):
        """Blocks of the noise that are learnt, as `FixedEntries.blocks` returns them."""
        if "covariance" not in self._learnt:
            return []
        if isinstance(self.regression.family.shape, Full):
            return self.fixed.blocks(self.S)
        learnt = ~self.fixed.of("covariance", self.S).diagonal()
        if isinstance(self.regression.family.shape, Spherical):
            together = [np.arange(self.p)]
        else:
            together = self.fixed.connected(self.fixed.joined)
        return [(own[:0], own[learnt[own]]) for own in together if learnt[own].any()]

    @property
    def is_one(self):
        """Whether each block of the noise has one variance."""
        return not isinstance(self.regression.family.shape, Full)

    @property
    def added(self):
        """What the M-step adds to variances, which fixed ones have not, of shape (p,)."""
        floor = self.regression.noise_family._floor
        return floor if len(floor) else np.zeros(self.p)

    # ------------------------------------------------------------------------- the coefficients

    @cached_property
    def _free_places(self):
        """Rows and columns of free entries, all of the matrix first."""
        columns, rows = np.nonzero(self.free[:, : self.q])[::-1]
        offsets = np.flatnonzero(self.free[:, self.q])
        return np.append(rows, offsets), np.append(columns, np.full(len(offsets), self.q))

    @cached_property
    def _basis(self):
        """Rows and places of free entries, and their inputs as functions of (x - origin, 1)."""
        rows, columns = self._free_places
        inputs = np.zeros((len(rows), self.q + 1))
        inputs[np.arange(len(rows)), columns] = 1.0
        # Where the offset is fixed, inputs are about 0.
        is_raw = (columns < self.q) & ~self.free[rows, self.q]
        inputs[is_raw, self.q] = self.origin[columns[is_raw]]
        return rows, columns, inputs

    @cached_property
    def _ties(self):
        """Entries as functions of the parameters, (n_entries, n_parameters); None: they are these.

        Those of the matrix come first.
        """
        rows, columns = self._free_places
        if self.fixed.tied is None or not len(rows):
            return None
        is_matrix = columns < self.q
        tied = np.zeros((len(rows), len(self.fixed.tied)))
        tied[is_matrix] = self.fixed.tied[:, rows[is_matrix], columns[is_matrix]].T
        return np.hstack([tied[:, tied.any(axis=0)], np.eye(len(rows))[:, ~tied.any(axis=1)]])

    @cached_property
    def places(self):
        """The first output of each parameter, and whether it is of the matrix."""
        rows, columns = self._free_places
        first = slice(None) if self._ties is None else (self._ties != 0.0).argmax(axis=0)
        return rows[first], columns[first] < self.q

    def equations(self, precision):
        """Return the matrix and the right side of the normal equations of changes."""
        # Second moments of (x - origin, 1), and of what is left of y with these.
        contrast, q = np.concatenate([-self.B, np.eye(self.p)], axis=1), self.q
        mean = np.append(self.mean[:q] - self.origin, 1.0)
        D, rest = np.zeros((q + 1, q + 1)), np.zeros((self.p, q + 1))
        D[:q, :q], rest[:, :q] = self.scatter[:q, :q], contrast @ self.scatter[:, :q]
        shift = self.weight * (contrast @ self.mean - self.c)
        D, rest = D + self.weight * np.outer(mean, mean), rest + np.outer(shift, mean)
        rows, _, inputs = self._basis
        matrix = precision[np.ix_(rows, rows)] * (inputs @ D @ inputs.T)
        right, ties = ((precision @ rest)[rows] * inputs).sum(axis=1), self._ties
        return (matrix, right) if ties is None else (ties.T @ matrix @ ties, ties.T @ right)

    def _moved(self, changes):
        """Return B and c after changes of the parameters."""
        (rows, columns), ties = self._free_places, self._ties
        changes = changes if ties is None else ties @ changes
        B, c, is_offset = self.B.copy(), self.c.copy(), columns == self.q
        of_matrix, places = changes[~is_offset], (rows[~is_offset], columns[~is_offset])
        B[places] += of_matrix
        c[rows[is_offset]] += changes[is_offset]
        of_offset = np.where(self.free[places[0], self.q], self.origin[places[1]], 0.0)
        np.subtract.at(c, places[0], of_matrix * of_offset)
        return B, c

    def _together(self):
        """Return groups of outputs whose coefficients depend on each other, by their noise."""
        groups, joined = [], self.fixed.joined
        for own in self.fixed.connected((self.S != 0.0) | joined):
            # With the same inputs, the best coefficients do not depend on the noise.
            is_alike = (self.free[own] == self.free[own[0]]).all() and not joined[own].any()
            groups += [own[i : i + 1] for i in range(len(own))] if is_alike else [own]
        return groups

    def learn_coefficients(self):
        """Replace free entries by the best ones given the rest; return whether noise matters."""
        rows, matters = self.places[0], False
        if not len(rows):
            return False
        precision = np.zeros((self.p, self.p))
        groups = self._together()
        for own in groups:
            S = self.S[np.ix_(own, own)]
            if len(own) == 1 or (S == S[0, 0] * np.eye(len(own))).all():
                precision[own, own] = 1.0
                continue
            precision[np.ix_(own, own)] = np.linalg.inv(S + _RIDGE * np.diag(S.diagonal()))
            matters = True
        matrix, right = self.equations(precision)
        changes = np.zeros(len(rows))
        for own in groups:
            entries = np.flatnonzero(np.isin(rows, own))
            if len(entries):
                changes[entries] = _solved(matrix[np.ix_(entries, entries)], right[entries])
        self.B, self.c = self._moved(changes)
        return matters and bool(changes @ right > _NO_CHANGE**2 * max(self.weight, 1.0))

    # --------------------------------------------------------------------------------- the noise

    def residual(self):
        """Return the sum of the squares of y - B x - c, with what the M-step adds to variances."""
        contrast = np.concatenate([-self.B, np.eye(self.p)], axis=1)
        shift = contrast @ self.mean - self.c
        squares = contrast @ self.scatter @ contrast.T + self.weight * np.outer(shift, shift)
        return 0.5 * (squares + squares.T) + np.diag(self.degrees * self.added)

    def learn_noise(self):
        """Replace free entries of the covariance by the best ones given the rest."""
        if not self.degrees > NEGLIGIBLE:
            return
        squares = self.residual() / self.degrees
        for known, learnt in self.blocks:
            rest = squares[np.ix_(learnt, learnt)]
            if len(known):
                fixed, across = self.S[np.ix_(known, known)], self.S[np.ix_(learnt, known)]
                slope = np.linalg.solve(fixed, across.T).T
                inner, across = squares[np.ix_(known, known)], squares[np.ix_(learnt, known)]
                slope = slope + _solved(inner, (across - slope @ inner).T).T
                rest = (
                    rest - slope @ across.T - across @ slope.T + slope @ (inner + fixed) @ slope.T
                )
                self.S[np.ix_(learnt, known)] = slope @ fixed
                self.S[np.ix_(known, learnt)] = (slope @ fixed).T
            if self.is_one:
                rest = np.diag(np.full(len(learnt), rest.trace() / len(learnt)))
            least = rest[0, 0] if len(rest) == 1 else np.linalg.eigvalsh(rest)[0]
            if least < 0.0:  # by rounding
                total = self.scatter.diagonal()[self.q + learnt] / self.degrees
                rest = rest + np.diag(8.0 * self.p * _EPS * total)
            self.S[np.ix_(learnt, learnt)] = 0.5 * (rest + rest.T)

    def maximise(self):
        """Return the parameters that maximise the moments over what is learnt."""
        for _ in range(_MOST_ROUNDS):
            goes_on = self.learn_coefficients()
            self.learn_noise()
            if not (goes_on and self.blocks):
                break
        return AffineGaussian(self.B[None], self.c[None], self.S[None])


def _solved(matrix, right):
    """Return the solution of normal equations; 0 where a singular matrix leaves it open."""
    diagonal = matrix.diagonal()
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    scaled = scale[:, None] * matrix * scale
    if right.ndim == 2:
        scale = scale[:, None]
    root, failed = lapack.dpotrf(scaled, lower=1)
    if not failed:
        return scale * lapack.dpotrs(root, scale * right, lower=1)[0].reshape(right.shape)
    values, vectors = np.linalg.eigh(scaled)
    kept = np.abs(values) > len(values) * _EPS * np.abs(values).max(initial=0.0)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=kept)
    return scale * ((vectors * inverse) @ vectors.T @ (scale * right))


class OfRegression(Directions):
    """A row of coordinates of a regression, of unit information of complete data."""

    is_free = True
    # Steps are measured before they are taken.
    _latest = None, None

    def effective_counts(self, statistics):
        return np.ones((1, self.n_columns))

    def is_proper(self, prior):
        return bool(min(prior.weight[0], prior.degrees[0]) >= 0.0)

    def _along(self, v):
        """Return the regression moved along v, and how far that changes it."""
        key = v.tobytes()
        if self._latest[0] != key:
            self._latest = key, self._moved(np.ascontiguousarray(v[0]))
        return self._latest[1]

    def moved(self, v):
        return self._along(v)[0]

    def size(self, v):
        return self._along(v)[1]


class PartialCoordinates(OfRegression):
    """Coordinates of the free entries of a regression, of unit information of complete data.

    Changes of coefficients are those of the normal equations, by the inverse of their root. A block
    of noise is that of known outputs, the regression of the learnt ones on these, and what is left,
    R exp(W) R'.
    """

    def __init__(self, said, regression, statistics):
        self.regression = regression
        part = self._part = PartialRegression(regression, statistics)
        rows, is_matrix = part.places
        sizes = {
            "matrix": int(is_matrix.sum()),
            "offset": int((~is_matrix).sum()),
            "covariance": n_of_blocks(part),
        }
        ends = list(accumulate(sizes.values(), initial=0))
        pairs = zip(sizes, pairwise(ends), strict=True)
        self.parts = {what: slice(*ends) for what, ends in pairs if sizes[what]}
        self.n_columns, self._n_coefficients = ends[-1], len(rows)
        if not self.parts:
            return
        if "covariance" in self.parts and not part.degrees > 0.0:
            raise ValueError(f"There are no data on the noise of the {said}.")
        noisy, no_density = part.S.diagonal() > 0.0, f"The noise of the {said} has no density."
        if not noisy[rows].all():
            raise ValueError(no_density)
        inverse = _inverse_root(part.S[np.ix_(noisy, noisy)], no_density)
        self._precision = np.zeros((part.p, part.p))
        self._precision[np.ix_(noisy, noisy)] = inverse.T @ inverse
        self._inverse_root = np.zeros((0, 0))
        if len(rows):
            matrix = part.equations(self._precision)[0]
            self._inverse_root = _inverse_root(matrix, f"The data do not determine the {said}.")
        self._is_one = part.is_one
        self._blocks = [*self._made_blocks()]
        self._unit = 1.0 / math.sqrt(max(part.weight, np.finfo(float).tiny))
        self._noise_unit = math.sqrt(2.0 / part.degrees) if part.degrees > 0.0 else 0.0

    def _made_blocks(self):
        """Yield outputs of blocks, the regression on known ones, inverse roots, and the root."""
        S = self._part.S
        for known, learnt in self._part.blocks:
            across, rest = S[np.ix_(learnt, known)], S[np.ix_(learnt, learnt)]
            inner = np.linalg.inv(np.linalg.cholesky(S[np.ix_(known, known)]))
            whitened = across @ inner.T
            root = np.linalg.cholesky(rest - whitened @ whitened.T)
            yield known, learnt, whitened @ inner, inner, np.linalg.inv(root), root

    def score(self, statistics):
        part = PartialRegression(self.regression, statistics, self._part.origin)
        n, out = self._n_coefficients, np.empty(self.n_columns)
        right = part.equations(self._precision)[1]
        out[:n] = self._inverse_root @ right
        squares, begin = part.residual() if self._blocks else None, n
        for known, learnt, slope, inner, inverse, _ in self._blocks:
            across = squares[np.ix_(learnt, known)] - slope @ squares[np.ix_(known, known)]
            half = inverse @ across @ inner.T / math.sqrt(self._part.degrees)
            rest = squares[np.ix_(learnt, learnt)] - across @ slope.T
            rest = inverse @ (rest - slope @ squares[np.ix_(known, learnt)]) @ inverse.T
            rest -= part.degrees * np.eye(len(learnt))
            entries = self._noise_unit * _entries(rest, self._is_one)
            values = np.concatenate([half.ravel(), entries])
            out[begin : begin + len(values)] = values
            begin += len(values)
        return out[None]

    def _moved(self, v):
        part, n = self._part, self._n_coefficients
        changes = self._inverse_root.T @ v[:n]
        (B, c), S, begin = part._moved(changes), part.S.copy(), n
        largest = self._unit * np.abs(v[:n]).max(initial=0.0)
        for known, learnt, slope, inner, _, root in self._blocks:
            size, n_learnt = len(learnt) * len(known), len(learnt)
            n_rest = 1 if self._is_one else n_learnt * (n_learnt + 1) // 2
            half, rest = np.split(v[begin : begin + size + n_rest], [size])
            begin += size + n_rest
            half = half.reshape(n_learnt, len(known)) / math.sqrt(part.degrees)
            fixed = part.S[np.ix_(known, known)]
            slope = slope + root @ half @ inner
            W = self._noise_unit * _matrix(rest, n_learnt, self._is_one)
            values, vectors = np.linalg.eigh(W)
            half_root = root @ (vectors * np.exp(0.5 * values))
            S[np.ix_(learnt, known)] = slope @ fixed
            S[np.ix_(known, learnt)] = (slope @ fixed).T
            S[np.ix_(learnt, learnt)] = half_root @ half_root.T + slope @ fixed @ slope.T
            largest = max(largest, np.abs(half).max(initial=0.0), np.abs(W).max())
        parameters = AffineGaussian(B[None], c[None], S[None])
        regression = self.regression
        return type(regression)(
            regression.family, parameters, regression.learnt, regression.fixed
        ), largest

    def floor_penalty(self, statistics):
        added, total = self._part.added, 0.0
        for _, learnt, *_ in self._blocks:
            total += added[learnt] @ self._precision[learnt, learnt]
        return -0.5 * float(statistics.degrees[0]) * float(total)


# Share of the squares that a residual is a difference of, below which it is a rounding error, and
# that below which a variance does not go, so that its score has digits.
_ROUNDING, _LEAST_SHARE = 2e-16, 1e-11
# Shares of a variance from which on the least one is near, and the largest rise of a deviation.
_LOW, _RISE = 0.01, 1e4


class Groups(NamedTuple):
    """Outputs of regressions whose variances are learnt, by these variances."""

    # The number of the variance of each output, or -1.
    places: Integers
    outputs: Integers
    # Which of the latter have which variance, (n, n_outputs), and how many.
    members: Floats
    sizes: Floats
    # The first of each, by its place in the latter.
    first: Integers


@lru_cache(maxsize=64)
def _groups(*places):
    places = np.array(places, dtype=np.int64)
    outputs = np.flatnonzero(places >= 0)
    members = places[outputs] == np.arange(places.max(initial=-1) + 1)[:, None]
    members = members.astype(np.float64)
    return Groups(places, outputs, members, members.sum(axis=1), members.argmax(axis=1))


def independent_variances(regression):
    """Return the `Groups` of independent variances.

    None: noise is correlated, or more is learnt than variances and coefficients.
    """
    fixed, n = regression.fixed, len(regression.offset)
    if fixed is None:
        is_single = n == 1 or isinstance(regression.family.shape, Diagonal)
        return _groups(*range(n)) if regression.learnt == ("covariance",) and is_single else None
    key = regression.learnt, regression.family.shape, (regression.covariance != 0.0).tobytes()
    found = fixed.__dict__.get("_independent")
    if found is None or found[0] != key:
        part, places = PartialRegression(regression), np.full(n, -1)
        is_all = not part.free[:, -1].any()
        for i, (known, learnt) in enumerate(part.blocks):
            is_all = is_all and len(known) == 0 and (len(learnt) == 1 or part.is_one)
            places[learnt] = i
        found = key, _groups(*places.tolist()) if is_all else None
        # Models of a fit have the same.
        fixed.__dict__["_independent"] = found
    return found[1]


class VarianceCoordinates(OfRegression):
    """Coordinates of independent variances, of unit information of complete data: logarithms.

    A variance falls to a least value, beside which residuals are rounding errors, or which is
    nothing beside the largest variance, and not below. Those of coefficients follow, as in
    `PartialCoordinates`.
    """

    def __init__(self, name, regression, statistics, groups, largest):
        self.regression, self.groups, outputs = regression, groups, groups.outputs
        self.n, degrees = len(groups.sizes), float(statistics.degrees[0])
        self.variances = regression.covariance.diagonal()[outputs][groups.first]
        if not (degrees > 0.0 and (self.variances > 0.0).all()):
            raise ValueError(f"There are no data on the noise of the {name}.")
        B = regression.matrix
        self._contrast = np.concatenate([-B, np.eye(len(B))], axis=1)[outputs]
        sizes = np.abs(self._contrast) @ np.sqrt(statistics.scatter[0].diagonal())
        counts = degrees * groups.sizes
        squares = groups.members @ sizes**2 / (counts * self.variances)
        largest = largest[outputs][groups.first] / self.variances
        self._least = _LEAST_SHARE * np.maximum(squares, largest)
        self._learn_matrix(name, statistics)
        # By how much a unit moves logarithms of standard deviations.
        self.units, self.rounding, self.added = np.zeros((3, self.n_columns))
        self.units[: self.n] = 1.0 / np.sqrt(2.0 * counts)
        self.rounding[: self.n] = _ROUNDING * squares
        if len(floor := regression.family._floor):
            added = groups.members @ floor[outputs] / groups.sizes
            self.added[: self.n] = added / self.variances

    def _learn_matrix(self, name, statistics):
        """Set what coordinates of coefficients are made of, after those of n variances."""
        n = self.n
        self.n_columns, self.root = n, np.zeros((0, 0))
        self.parts = {"covariance": slice(0, n)} if n else {}
        if "matrix" not in self.regression.learnt:
            return
        self._part = part = PartialRegression(self.regression, statistics)
        S = part.S.diagonal()
        self._precision = np.diag(np.divide(1.0, S, out=np.zeros_like(S), where=S > 0.0))
        matrix = part.equations(self._precision)[0]
        if len(matrix):
            said = f"The data do not determine the {name}."
            self.root = _inverse_root(matrix, said)
            self.n_columns += len(matrix)
            self.parts["matrix"] = slice(n, self.n_columns)
            self._unit = 1.0 / math.sqrt(part.weight)

    @property
    def directions(self):
        """Changes (m, p, q) of the matrix by coefficients."""
        if "matrix" not in self.parts:
            return np.zeros((0, *self.regression.matrix.shape))
        units = np.eye(self.n_columns - self.n)
        return np.array([self._part._moved(unit)[0] - self._part.B for unit in units])

    def score(self, statistics):
        """Return the scores; 0 where a variance has its least value and falls."""
        contrast, n, groups = self._contrast, self.n, self.groups
        shift = contrast @ statistics.mean[0] - self.regression.offset[groups.outputs]
        squares = ((contrast @ statistics.scatter[0]) * contrast).sum(axis=1)
        squares = groups.members @ (squares + float(statistics.weight[0]) * shift**2)
        counts = float(statistics.degrees[0]) * groups.sizes
        ratios = squares / self.variances + counts * self.added[:n]
        score = np.zeros(self.n_columns)
        score[:n] = self.units[:n] * (ratios - counts)
        falls = ratios < counts * (1.0 + self.rounding[:n])
        score[:n][(self._least >= 0.99) & falls] = 0.0
        if "matrix" in self.parts:
            part = PartialRegression(self.regression, statistics, self._part.origin)
            score[n:] = self.root @ part.equations(self._precision)[1]
        return score[None]

    def _moved(self, v):
        logs, regression = 2.0 * self.units[: self.n] * v[: self.n], self.regression
        factors = np.maximum(np.exp(logs), np.minimum(self._least, 1.0))
        covariance, outputs = regression.covariance.copy(), self.groups.outputs
        covariance[outputs, outputs] = (self.variances * factors) @ self.groups.members
        B, c = regression.parameters._arrays[:2]
        largest = float(np.abs(logs).max(initial=0.0))
        if "matrix" in self.parts:
            B = self._part._moved(self.root.T @ v[self.n :])[0][None]
            largest = max(largest, self._unit * float(np.abs(v[self.n :]).max()))
        return replace(regression, parameters=AffineGaussian(B, c, covariance[None])), largest

    def raised(self, after, rise):
        """Return variances raised that are near their least values, whose scores are lost."""
        (is_one, share), is_low = rise, self._least > _LOW
        if is_one or not is_low.any():
            return None
        v = np.zeros(self.n_columns)
        v[: self.n][is_low] = math.log(_RISE * share) / self.units[: self.n][is_low]
        return self._moved(v)[0]

    def floor_penalty(self, statistics):
        counts = float(statistics.degrees[0]) * self.groups.sizes
        return -0.5 * float(counts @ self.added[: self.n])


def _inverse_root(matrix, message):
    """Return L^-1 of a matrix L L'; ValueError if it is not positive definite."""
    root, failed = lapack.dpotrf(matrix, lower=1)
    if failed:
        raise ValueError(message)
    return lapack.dtrtri(root, lower=1)[0]


def n_of_blocks(part):
    """Return how many values of the noise are learnt."""
    if part.is_one:
        return len(part.blocks)
    return sum(
        len(learnt) * len(known) + len(learnt) * (len(learnt) + 1) // 2
        for known, learnt in part.blocks
    )


def _entries(Y, is_one):
    """Return the derivatives along the coordinates of W of half the trace of Y W, as a vector."""
    if is_one:
        return np.array([0.5 * Y.trace() / math.sqrt(len(Y))])
    i, j = np.tril_indices(len(Y))
    return np.where(i == j, 0.5, math.sqrt(0.5)) * Y[i, j]


def _matrix(v, n, is_one):
    """Return W from its coordinates."""
    if is_one:
        return np.diag(np.full(n, v[0] / math.sqrt(n)))
    W, (i, j) = np.zeros((n, n)), np.tril_indices(n)
    W[i, j] = W[j, i] = np.where(i == j, 1.0, math.sqrt(0.5)) * v
    return W

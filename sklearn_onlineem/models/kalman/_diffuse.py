"""Exact diffuse starts of linear dynamical systems: first rows, up to those that determine states.

Variables of the first state without a prior are coefficients d of a regression; the rest of what
is unknown of a state are independent variables u of variance 1: h_t = m_t + M_t u_t + D_t d. Rows
tell of u and d as in a filter (de Jong, "The diffuse Kalman filter", Annals of Statistics 1991),
here in square roots. Once d is determined, moments of the state are finite, and the rows that
follow are those of an ordinary sequence which goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from sklearn_onlineem._kernels import _disturbances
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.families.covariance_shapes import LOG_2_PI
from sklearn_onlineem.families.linear_gaussian import square_roots
from sklearn_onlineem.models.kalman._filter import LinearDynamicalStatistics, Prepared, SharedGains
from sklearn_onlineem.models.kalman._partial_regression import independent_variances
from sklearn_onlineem.models.kalman._varying import at, expected_moments, known_of
from sklearn_onlineem.statistics import Moments

# Share of the largest singular value, below which others are rounding.
_NONE = 1e-11
_TINY = np.finfo(float).tiny
# Sequences that are smoothed side by side, at most; lengths of sequences without gaps; numbers that
# a pass keeps; and rows of a single state, which is soon forgotten: segments of them are faster.
_MOST_ABREAST, _MOST_KINDS, _MOST_VALUES, _MOST_ROWS = 128, 64, 1 << 24, 1 << 15
# Values of a sequence from a known start, times states, up to which a climb takes less time than
# other passes, whose gains settle.
_SHORT = 1 << 12
_UNDETERMINED = "do not determine a diffuse start"


@dataclass(eq=False)
class State:
    """A state m + M u + D d of n sequences given rows, which tell of d that R d = r + N(0, 1).

    Log-likelihoods of the rows lack what d makes of them.
    """

    means: Floats  # m, (n, k)
    noise: Floats  # M, (k, n_u)
    open: Floats  # D, (k, q)
    triangle: Floats  # R, (q, q)
    right: Floats  # r, (n, q)
    log_likelihoods: Floats  # (n,)

    @cached_property
    def of_start(self):
        """Moments of d and log-likelihoods of the rows.

        The former are means, a root of the covariance, and directions in which it is infinite.
        """
        # In units of d, so that no part of it is nothing beside another.
        units = np.abs(self.triangle).max(axis=0)
        units = np.where(units, units, 1.0)
        left, sizes, turn = np.linalg.svd(self.triangle / units)
        known = sizes > _NONE * max(sizes.max(initial=0.0), _TINY)
        sizes, directions, found = sizes[known], turn[known].T, self.right @ left
        log_det = np.log(sizes).sum() + np.log(units).sum()
        if not known.all():
            told = sizes[:, None] * directions.T * units
            log_det = np.log(np.maximum(np.linalg.svd(told, compute_uv=False), _TINY)).sum()
        log_likelihoods = self.log_likelihoods - log_det - 0.5 * (found[:, ~known] ** 2).sum(axis=1)
        root, free = directions / sizes / units[:, None], turn[~known].T / units[:, None]
        free = free / np.linalg.norm(free, axis=0)
        return found[:, known] @ root.T, root, free, log_likelihoods

    def known(self):
        """Return means, and a root of the covariance, as far as the rows determine d."""
        found, spread, *_ = self.of_start
        return self.means + found @ self.open.T, np.hstack([self.noise, self.open @ spread])

    def moments(self):
        """Return means and the covariance, NaN beside variances that are infinite."""
        means, root = self.known()
        covariance, free = root @ root.T, self.open @ self.of_start[2]
        size = np.abs(np.hstack([self.noise, self.open])).max()
        infinite = (free**2).sum(axis=1) > (_NONE * size) ** 2
        covariance[infinite] = covariance[:, infinite] = np.nan
        covariance[infinite, infinite] = np.inf
        return means, covariance

    def mapped(self, B, c):
        """Return B h + c."""
        return replace(self, means=self.means @ B.T + c, noise=B @ self.noise, open=B @ self.open)

    def moved(self, noise):
        """Return the state with noise added, and what its u tells of that before.

        This is a matrix, and a root of the covariance of what is left.
        """
        turned, root = np.linalg.qr(np.hstack([self.noise, noise]).T, mode="complete")
        n, turned = min(root.shape), turned[: self.noise.shape[1]]
        return replace(self, noise=root[:n].T), (turned[:, :n], turned[:, n:])

    def told(self, C, values, log_det):
        """Return the state given values (n, m), = C h + N(0, 1), and u before by (u, d) now.

        The latter is a matrix, and means (n, n_u). `log_det` is that of what divides the values.
        """
        (m, n_u), q = (len(C), self.noise.shape[1]), len(self.triangle)
        if not m:
            return self, (np.eye(n_u, n_u + q), np.zeros((len(self.means), n_u)))
        rows = np.zeros((n_u + q + m, n_u + q))
        rows[:n_u, :n_u], rows[n_u : n_u + q, n_u:] = np.eye(n_u), self.triangle
        rows[n_u + q :] = C @ np.hstack([self.noise, self.open])
        turned, triangle = np.linalg.qr(rows, mode="complete")
        right = np.hstack([self.right, values - self.means @ C.T]) @ turned[n_u:]
        right, of_d, rest = np.split(right, [n_u, n_u + q], axis=1)
        inverse = np.linalg.inv(triangle[:n_u, :n_u])
        u, across = right @ inverse.T, -inverse @ triangle[:n_u, n_u:]
        log_det = log_det + 2.0 * np.log(np.abs(triangle.diagonal()[:n_u])).sum()
        now = State(
            self.means + u @ self.noise.T,
            self.noise @ inverse,
            self.open + self.noise @ across,
            triangle[n_u : n_u + q, n_u:],
            of_d,
            self.log_likelihoods - 0.5 * (m * LOG_2_PI + log_det + (rest**2).sum(axis=1)),
        )
        return now, (np.hstack([inverse, across]), u)


class Opening:
    """The first rows of sequences that have the same gaps in them, and the rest of each.

    States are those of these rows, and of the row after them where there is one. Gains and
    covariances are the same for all.

    The `members` are those sequences, none of which continues others; several have no inputs. If
    `is_determined`, their `n_rows` first rows determine the first state, and if it `goes_on`,
    others follow.
    """

    def __init__(self, model, data, known, members, n_rows, is_determined, goes_on):
        self.model, self._data, self._known, self._n = model, data, known, len(members)
        self.n_rows, self.is_determined, self.goes_on = n_rows, is_determined, goes_on
        begins, lengths = data.offsets[members], data.lengths[members]
        # Rows of the members, and where these begin in them; and first ones, (n, n_rows).
        self._offsets = np.append(0, np.cumsum(lengths))
        times = np.arange(self._offsets[-1]) - np.repeat(self._offsets[:-1], lengths)
        self.rows, self._is_first = times + np.repeat(begins, lengths), times < n_rows
        self.first_rows = begins[:, None] + np.arange(n_rows)
        self._arrays = known.of(begins[0] + np.arange(n_rows + goes_on)).of_filter(model)
        self._X = np.full((len(members), n_rows + goes_on, data.X.shape[1]), np.nan)
        self._X[:, :n_rows] = data.X[self.first_rows]
        self._seen = ~np.isnan(self._X[0])

    @cached_property
    def _passed(self):
        """The states before each row and given it, and how u of each follows from the next."""
        model, diffuse, n = self.model, _free_of(self.model), self._n
        q, k = diffuse.sum(), len(diffuse)
        noise, R = _root(model.transitions.covariance), model.emissions.covariance
        now = State(
            np.tile(model.initial.offset, (n, 1)),
            _root(model.initial.covariance),
            np.eye(k)[:, diffuse],
            np.zeros((q, q)),
            np.zeros((n, q)),
            np.zeros(n),
        )
        before, given, steps, step = [], [], [], None
        for t, seen in enumerate(self._seen):
            if t:
                now, step = now.mapped(*self._at("transition", t - 1)).moved(noise)
            before.append(now)
            root = np.linalg.cholesky(R[np.ix_(seen, seen)])
            C, offset = (part[seen] for part in self._at("observation", t))
            inverse, log_det = np.linalg.inv(root), 2.0 * np.log(root.diagonal()).sum()
            now, own = now.told(inverse @ C, (self._X[:, t, seen] - offset) @ inverse.T, log_det)
            given.append(now)
            steps.append((step, own))
        return before, given, steps

    def _at(self, name, t):
        """Return the matrix and the offset of the transition from a row, or of the row itself."""
        return [at(self._arrays, f"{name}_{what}", t) for what in ("matrices", "offsets")]

    @property
    def _end(self):
        """The state after the first rows, or of the last one where there is none after it."""
        return self._passed[1][-1]

    @property
    def _rest(self):
        """The rows that follow, from the moments of their first states on, and their arrays."""
        rows, lengths = self.rows[~self._is_first], np.diff(self._offsets) - self.n_rows
        X, (means, root) = self._data.X[rows].astype(np.float64), self._end.known()
        first = means if self._n > 1 else means[0], root @ root.T
        known = self._known.of(rows)
        padded = self.model._with_arrays(known.of_filter(self.model))
        return Prepared(X, np.append(0, np.cumsum(lengths)), first), padded

    def _whole(self, first, rest):
        """Return arrays of all rows, from those of the first, (n, n_rows, ..), and the others."""
        found = [array.reshape(-1, *array.shape[2:]) for array in first]
        for i, later in enumerate(rest):
            if later.size:
                whole = np.empty((len(self.rows), *later.shape[1:]))
                whole[self._is_first], whole[~self._is_first] = found[i], later
                found[i] = whole
        return found

    def evidence(self):
        """Return sums of the sequences' expected statistics and log-likelihoods."""
        n, data, rows, offsets = self._n, self._data, self.rows, self._offsets
        after = self._of_rest()
        if after is None:
            *moments, _, log_densities = self.smoothed()
            X, log_likelihood = data.X[rows], log_densities.sum()
        else:
            after, log_likelihood, last = after
            log_likelihood += self._end.of_start[3].sum()
            moments = [part.reshape(-1, *part.shape[2:]) for part in self._states(last)]
            offsets = (self.n_rows + 1) * np.arange(n + 1)
            rows = self.first_rows[:, :1] + np.arange(self.n_rows + 1)
            X = data.X[rows]
            X[:, -1] = np.nan
            X, rows = X.reshape(-1, X.shape[2]), rows.ravel()
        own = expected_moments(
            self.model, Prepared(X, offsets, None), self._known.of(rows), *moments
        )
        own = LinearDynamicalStatistics(*own)
        return own if after is None else own.merge(1.0, after, 1.0), log_likelihood

    def _of_rest(self):
        """Return statistics and log-likelihood of the rest, and moments of its first states.

        None: it has to be smoothed row by row.
        """
        if not (self.model.has_one_system and self.goes_on):
            return None
        (rest, padded), n_threads = self._rest, self._data.n_threads
        if self._n == 1:
            found, log_likelihood = padded.expected(rest, n_threads)
            last = found.initial.mean, found.initial.scatter
        else:
            # Which knows what passes share.
            data = self._data.rows.remember(
                ("rest", self.n_rows, self.rows.tobytes()),
                lambda: Sequences.unchecked(
                    Rows.unchecked(rest.X, n_threads=n_threads), rest.offsets
                ),
            )
            gains = SharedGains(padded, rest.first, int(data.lengths.max()))
            if np.isnan(rest.X).any() or not gains.suffice:
                return None
            means, covariance = np.empty_like(rest.first[0]), np.empty_like(rest.first[1])
            found, log_likelihood = gains.expected(data, firsts=(means, covariance))
            last = means, np.broadcast_to(covariance, (self._n, *covariance.shape))
        return replace(found, initial=found.initial.scale(0.0)), log_likelihood, last

    def filtered(self, predicted=False, filtered=False):
        """Return what `Padded.filtered` does, of all rows; infinite where undetermined."""
        first, n = [], self.n_rows
        for is_wanted, states in zip((predicted, filtered), self._passed, strict=False):
            first += self._stacked([state.moments() for state in states[:n]] if is_wanted else [])
        sums = [state.of_start[3] for state in self._passed[1][:n]]
        first.append(np.diff(np.stack(sums, axis=1), prepend=0.0))
        if not self.goes_on:
            return self._whole(first, ())
        rest, padded = self._rest
        wanted = {"predicted": predicted, "filtered": filtered}
        return self._whole(first, padded.filtered(rest, self._data.n_threads, **wanted))

    def _stacked(self, moments):
        """Return means and covariances of rows with an axis of sequences before that of rows."""
        if not moments:
            return [np.empty((self._n, 0))] * 2
        means, covariances = zip(*moments, strict=True)
        shape = self._n, *np.shape(covariances)
        return [np.stack(means, axis=1), np.broadcast_to(covariances, shape)]

    def predicted(self):
        """Return moments of each row given those before it, infinite where undetermined."""
        found = []
        for t, state in enumerate(self._passed[0][: self.n_rows]):
            expected, covariance = state.mapped(*self._at("observation", t)).moments()
            found.append((expected, covariance + self.model.emissions.covariance))
        return self._stacked(found)

    def smoothed(self):
        """Return what `Padded.smoothed` does, of all rows; log densities of first rows in one."""
        n, rest, last = self.n_rows, (), None
        if self.goes_on:
            sequences, padded = self._rest
            rest, begins = padded.smoothed(sequences, self._data.n_threads), sequences.offsets[:-1]
            last = rest[0][begins], rest[1][begins]
        means, covariances, lags = self._states(last)
        if self.goes_on:
            rest[2][begins] = lags[:, n]
        together = np.zeros((self._n, n))
        together[:, -1] = self._end.of_start[3]
        first = means[:, :n], covariances[:, :n], lags[:, :n], self._filled(means)[:, :n], together
        return self._whole(first, rest)

    def _states(self, last):
        """Return means (n, n_states, k), covariances and lag-one covariances given all rows.

        `last` are means (n, k) and covariances of the last states given them; None: they are known.
        """
        if not self.is_determined:
            n_values, q = int(self._seen.sum()), int(self.model.diffuse.sum())
            raise ValueError(
                f"{self.n_rows} rows with {n_values} values {_UNDETERMINED} of {q} variables: pass"
                " longer sequences, or other variances of the start."
            )
        (_, given, steps), end = self._passed, self._end
        found, root, *_ = end.of_start
        # Means of (u, d), from the last on, a root of their covariance, and what the rest tells.
        q, root = len(root), block_diag(np.eye(end.noise.shape[1]), root)
        middle = np.hstack([np.zeros((self._n, len(root) - q)), found])
        tells, spread = root[:, :0], np.zeros((self._n, 1, 0, 0))
        if last is not None:
            of_last, of_state = end.known()
            units = np.sqrt((of_state**2).sum(axis=1))
            units = np.where(units > 0.0, units, 1.0)[:, None]
            left, sizes, right = np.linalg.svd(of_state / units)
            kept = int((sizes > _NONE * max(sizes.max(initial=0.0), _TINY)).sum())
            inverse = (left[:, :kept] / sizes[:kept] / units).T
            tells, root = root @ right[:kept].T, root @ right[kept:].T
            middle = middle + (last[0] - of_last) @ inverse.T @ tells.T
            spread = (inverse @ last[1] @ inverse.T)[:, None]
        covariance = root @ root.T
        n, k = len(given), len(end.open)
        means, gains = np.empty((self._n, n, k)), np.empty((n, k, tells.shape[1]))
        covariances, lags = np.zeros((2, n, k, k))
        for t in range(n - 1, -1, -1):
            maps = np.hstack([given[t].noise, given[t].open])
            means[:, t], gains[t] = given[t].means + middle @ maps.T, maps @ tells
            covariances[t] = maps @ covariance @ maps.T
            if t:
                (turn, left), (own, u) = steps[t]
                step = np.concatenate([turn @ own, np.eye(len(tells))[-q:]])
                before = np.hstack([given[t - 1].noise, given[t - 1].open])
                lags[t] = maps @ covariance @ step.T @ before.T
                middle, tells = middle @ step.T, step @ tells
                middle[:, : len(turn)] += u @ turn.T
                covariance = step @ covariance @ step.T
                covariance[: len(turn), : len(turn)] += left @ left.T
        turned = gains @ spread
        covariances, lags = covariances + turned @ gains.mT, np.tile(lags, (self._n, 1, 1, 1))
        lags[:, 1:] += turned[:, 1:] @ gains[:-1].mT
        return means, covariances, lags

    def _filled(self, means):
        """Return the first rows, imputed where missing, from means of the states."""
        X, R = self._X.copy(), self.model.emissions.covariance
        for t, seen in enumerate(self._seen):
            if not seen.all():
                C, offset = self._at("observation", t)
                expected = means[:, t] @ C.T + offset
                rest = np.linalg.solve(R[np.ix_(seen, seen)], (X[:, t] - expected)[:, seen].T)
                X[:, t, ~seen] = expected[:, ~seen] + (R[np.ix_(~seen, seen)] @ rest).T
        return X


def refuse_undetermined():
    raise ValueError(f"the rows {_UNDETERMINED}: begin with more of them.")


def inferred(model, data, name, wanted):
    """Return what `LinearDynamicalModel._inferred` does, of sequences that continue no other."""
    found = [(opening.rows, getattr(opening, name)(**wanted)) for opening in openings(model, data)]
    rows, arrays = zip(*found, strict=True)
    order = np.argsort(np.concatenate(rows))
    whole = map(np.concatenate, zip(*arrays, strict=True))
    return tuple(array[order] if len(array) else array for array in whole)


def predicted(model, data, means, covariances):
    """Return moments of rows given those before them, from those of their states."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = model._of_emissions(data, means, covariances)
    for opening in openings(model, data):
        rows = opening.first_rows
        found[0][rows], found[1][rows] = opening.predicted()
    return found


def _by_gaps(model, data):
    """Return lists of sequences that do not continue others, by their gaps; with inputs each."""
    of_rows, offsets = model._outputs(data), data.offsets

    def kinds():
        seen, found = ~np.isnan(of_rows.X), {}
        for i in range(int(data.before is not None), len(data)):
            own = i if model.n_inputs else seen[offsets[i] : offsets[i + 1]].tobytes()
            found.setdefault(own, []).append(i)
        return [*found.values()]

    key = ("gaps", offsets.tobytes(), data.before is None, model.n_inputs)
    return data.rows.remember(key, kinds)


def openings(model, data):
    """Yield an `Opening` of sequences that do not continue others, for each kind of gaps in it."""
    known, of_rows, offsets, groups = known_of(model, data), model._outputs(data), data.offsets, {}
    for members in _by_gaps(model, data):
        begin, end = offsets[members[0]], offsets[members[0] + 1]
        seen = ~np.isnan(of_rows.X[begin:end])
        is_determined, n_rows = _reach(model, known.of(np.arange(begin, end)), seen)
        own = members[0] if model.n_inputs else seen[:n_rows].tobytes()
        goes_on = is_determined and n_rows < len(seen)
        groups.setdefault((own, n_rows, is_determined, goes_on), []).extend(members)
    for (_, *how), members in groups.items():
        yield Opening(model, of_rows, known, np.array(members), *how)


def _reach(model, known, seen):
    """Return whether rows determine the first state, and how many rows do; else all."""
    arrays = known.of_filter(model)
    paths = np.eye(model.n_components)[:, model.diffuse]
    rows, q = np.zeros((0, paths.shape[1])), paths.shape[1]
    A, C = (f"{what}_matrices" for what in ("transition", "observation"))
    for t, own in enumerate(seen):
        if t:
            paths = at(arrays, A, t - 1) @ paths
        if own.any():
            rows = np.concatenate([rows, at(arrays, C, t)[own] @ paths])
        if own.any() and len(rows) >= q:
            units = np.abs(rows).max(axis=0)
            units = np.where(units, units, 1.0)
            _, sizes, turn = np.linalg.svd(rows / units, full_matrices=False)
            if sizes[-1] > _NONE * sizes[0]:
                return True, t + 1
            # These tell the same of the state.
            rows = sizes[:, None] * turn * units
    return False, len(seen)


def evidence(model, data):
    """Return sums of the expected statistics and log-likelihoods of sequences, by openings."""
    parts = _with_equal_gaps(model, data) if _has_independent_noise(model) else None
    sums = [_evidence_of_noise(model, *part) for part in parts or ()]
    # Covariances of the kernel are not as exact where states grow.
    if sums and all(np.isfinite(log_likelihood) for _, log_likelihood in sums):
        return sums
    return [opening.evidence() for opening in openings(model, data)]


def _has_independent_noise(model):
    """Return whether all noise is independent, and at most it and transitions are learnt."""
    if not model.has_one_system or model.initial.learnt:
        return False
    for part in (model.transitions, model.emissions):
        is_apart = np.count_nonzero(part.covariance) == np.count_nonzero(part.covariance.diagonal())
        if not is_apart or (part.learnt and independent_variances(part) is None):
            return False
    return "matrix" not in model.emissions.learnt


def _with_equal_gaps(model, data):
    """Return arrays (T, d, n) of n sequences with the same gaps, or None.

    With each, how many of its rows have values, and how many of these lack each column. None: some
    rows do not determine their starts, or other ways are faster, or take less memory.
    """
    A, C, diffuse = model.transitions.matrix, model.emissions.matrix, _free_of(model)
    reached, size = diffuse, data.X.shape[1]
    if "matrix" in model.transitions.learnt:
        # States of the filter are kept. Transitions of others determine no start.
        size += len(A)
        for _ in range(len(A)):
            reached = reached | (A[:, reached] != 0.0).any(axis=1)

    def arrays():
        kinds, found = _by_gaps(model, data), []
        if len(kinds) > _MOST_KINDS and data.observed is None:
            return None
        for members in kinds:
            X = data.X[data.offsets[members[0]] : data.offsets[members[0] + 1]]
            known = known_of(model, data[members[:1]])
            seen, n_kept = ~np.isnan(X), len(X) * size
            most = min(_MOST_ABREAST, _MOST_VALUES // n_kept - 2 * len(A))
            is_long = len(A) == 1 and len(X) > _MOST_ROWS
            if is_long or most < 1 or (diffuse.any() and not _reach(model, known, seen)[0]):
                return None
            n_rows = int(seen.any(axis=1).sum())
            for i in range(0, len(members), most):
                rows = data.offsets[members[i : i + most]] + np.arange(len(X))[:, None]
                values = data.X[rows].astype(np.float64, copy=False)
                values = np.ascontiguousarray(values.swapaxes(1, 2))
                found.append((values, n_rows, n_rows - seen.sum(axis=0)))
        return found

    system = (array.tobytes() for array in (data.offsets, A[:, reached], C, diffuse))
    return data.rows.remember(("noise", *system), arrays)


def task_of_noise(model):
    """Return what kernels know of a system beside its rows, and its variances."""
    first, moves, emissions = model._regressions
    start = (first.offset, first.covariance), np.flatnonzero(_free_of(model))
    return (tuple(model.shared.values()), *start), np.append(
        moves.covariance.diagonal(), emissions.covariance.diagonal()
    )


def _evidence_of_noise(model, X, n_seen, missing):
    """Return sums of statistics, of all that is learnt, and of log-likelihoods of sequences.

    Moments are those of noise at states of 0 where coefficients are known.
    """
    (first, moves, emissions), k = model._regressions, model.n_components
    task, variances = task_of_noise(model)
    n, squares, log_likelihoods = X.shape[2], np.zeros(len(variances)), np.zeros(X.shape[2])
    n_moves, wanted = n * (len(X) - 1), (None, None)
    if "matrix" in moves.learnt:
        wanted = np.empty(k), np.empty((k, 2 * k + 2))
    _disturbances.smoothed_noise(X, *task, variances, squares, log_likelihoods, *wanted)
    # Missing values of rows that have others are expected to have their variances.
    squares[k:] += n * missing * variances[k:]
    of_first = Moments(*np.full((2, 1), float(n)), first.offset[None], n * first.covariance[None])
    if wanted[1] is not None and n_moves:
        of_moves = _moments_of_pairs(moves, n_moves, squares[:k], *wanted)
    else:
        of_moves = _moments_of_noise(moves, n_moves, squares[:k])
    of_rows = _moments_of_noise(emissions, n * n_seen, squares[k:])
    return LinearDynamicalStatistics(of_first, of_moves, of_rows), log_likelihoods.sum()


def _free_of(model):
    """Return which variables of the first state are diffuse, of shape (k,)."""
    return np.zeros(model.n_components, dtype=bool) if model.diffuse is None else model.diffuse


def climbed_rows(model, data):
    """Return the array (T, d, n) of n sequences whose likelihood a kernel climbs, or None."""
    is_whole = isinstance(data, Sequences) and data.before is None and data.sample_weight is None
    most = _SHORT // (model.n_components * model.n_features)
    is_short = is_whole and (model.diffuse is not None or data.n_rows <= most * len(data))
    if not (is_short and _has_independent_noise(model)):
        return None
    parts = _with_equal_gaps(model, data)
    return None if parts is None or len(parts) > 1 or parts[0][2].any() else parts[0][0]


def _moments_of_noise(regression, weight, squares):
    p, q = regression.matrix.shape
    scatter, mean = np.zeros((1, q + p, q + p)), np.zeros((1, q + p))
    scatter.reshape(-1)[q * (q + p + 1) :: q + p + 1], mean[0, q:] = squares, regression.offset
    return Moments(*np.full((2, 1), float(weight)), mean, scatter)


def _moments_of_pairs(regression, n, squares, origin, pairs):
    """Return moments of transitions, from sums over states less the origin, and their noise."""
    (A, b, Q), k = (array[0] for array in regression.parameters._arrays), len(origin)
    of_noise, of_states, sums = np.split(pairs, [k, 2 * k], axis=1)
    means, Q = sums / n, Q.diagonal()
    mean, shift = means[:, 0], Q * means[:, 1]
    xx = of_states - n * np.outer(mean, mean)
    ex = Q[:, None] * of_noise - n * np.outer(shift, mean)
    scatter, x, y = np.empty((1, 2 * k, 2 * k)), slice(k), slice(k, None)
    scatter[0, x, x], scatter[0, y, x] = xx, A @ xx + ex
    scatter[0, x, y] = scatter[0, y, x].T
    scatter[0, y, y] = scatter[0, y, x] @ A.T + A @ ex.T + np.diag(squares - n * shift**2)
    mean = np.concatenate([origin + mean, A @ (origin + mean) + b + shift])
    return Moments(*np.full((2, 1), float(n)), mean[None], scatter)


def _root(covariance):
    """Return a root of a covariance, without columns of 0."""
    variances = covariance.diagonal()
    is_diagonal = np.count_nonzero(covariance) == np.count_nonzero(variances)
    root = np.diag(np.sqrt(variances)) if is_diagonal else square_roots(covariance[None])[0]
    return root[:, root.any(axis=0)]

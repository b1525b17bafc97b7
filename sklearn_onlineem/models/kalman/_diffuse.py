"""Exact diffuse starts of linear dynamical systems: first rows, up to those that determine states.

Variables of the first state without a prior are coefficients d of a regression, and noise is a sum
of independent variables w of variance 1: h_t = m_t + M_t (w, d). Rows are a least-squares problem
in these, in which only w has a prior. Once d is determined, moments of the state are finite, and
the rows that follow are those of an ordinary sequence which goes on from there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import lapack

from sklearn_onlineem._kernels import _disturbances
from sklearn_onlineem._python import cached_property
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
        self._X = data.X[self.first_rows].astype(np.float64, copy=False)
        self._seen = ~np.isnan(self._X[0])

    @cached_property
    def _paths(self):
        """Means m_t (n, k) and maps M_t (n, k, u) of the states, with d last."""
        model, n = self.model, self.n_rows + self.goes_on
        q = int(model.diffuse.sum())
        first, noise = (_root(part.covariance) for part in (model.initial, model.transitions))
        k, n_first, n_noise = model.n_components, first.shape[1], noise.shape[1]
        means = np.zeros((n, k))
        maps = np.zeros((n, k, n_first + (n - 1) * n_noise + q))
        means[0], maps[0, :, :n_first] = model.initial.offset, first
        maps[0, :, maps.shape[2] - q :] = np.eye(k)[:, model.diffuse]
        before = np.arange(n - 1)
        A, b = (at(self._arrays, f"transition_{what}", before) for what in ("matrices", "offsets"))
        A = A if A.ndim == 3 else [A] * (n - 1)
        for t, begin in zip(before, n_first + before * n_noise, strict=True):
            maps[t + 1] = A[t] @ maps[t]
            maps[t + 1, :, begin : begin + n_noise] = noise
            means[t + 1] = A[t] @ means[t]
            means[t + 1] += b[t] if b.ndim == 2 else b
        return means, maps

    @cached_property
    def _equations(self):
        """Coefficients (m, u) of (w, d) and values (n, m) of observations of noise 1, by rows.

        Also returned are log |R| of each row, and how many observations there are up to it.
        """
        means, maps = self._paths
        R, logs = self.model.emissions.covariance, np.zeros(self.n_rows)
        counts = np.append(0, np.cumsum(self._seen.sum(axis=1)))
        coefficients = np.empty((counts[-1], maps.shape[2]))
        values = np.empty((self._n, counts[-1]))
        for seen in {row.tobytes(): row for row in self._seen if row.any()}.values():
            rows = np.flatnonzero((self._seen == seen).all(axis=1))
            C = at(self._arrays, "observation_matrices", rows)[..., seen, :]
            root = np.linalg.cholesky(R[np.ix_(seen, seen)])
            inverse = lapack.dtrtri(root, lower=1)[0]
            places = counts[rows][:, None] + np.arange(len(root))
            coefficients[places] = inverse @ (C @ maps[rows])
            expected = (C @ means[rows][:, :, None])[..., 0]
            expected = expected + at(self._arrays, "observation_offsets", rows)[..., seen]
            values[:, places] = (self._X[:, rows][:, :, seen] - expected) @ inverse.T
            logs[rows] = 2.0 * np.log(root.diagonal()).sum()
        return coefficients, values, logs, counts

    def _posterior(self, n):
        """Return moments of (w, d) given the first n rows, and their log-likelihoods.

        These are means, a root of the covariance, and directions in which it is infinite.
        """
        coefficients, values, logs, counts = self._equations
        u, q = coefficients.shape[1], int(self.model.diffuse.sum())
        p, n_values = u - q, counts[n]
        rows = np.zeros((p + n_values + q, u))
        rows[:p, :p] = np.eye(p)
        rows[p : p + n_values] = coefficients[:n_values]
        turned, triangle = np.linalg.qr(rows)
        values = values[:, :n_values]
        right = values @ turned[p : p + n_values]
        rest = right @ turned.T
        squares = (rest[:, :p] ** 2).sum(axis=1) + (rest[:, p + n_values :] ** 2).sum(axis=1)
        squares += ((values - rest[:, p : p + n_values]) ** 2).sum(axis=1)
        root, across = triangle[:p, :p], triangle[:p, p:]
        left, sizes, turn = np.linalg.svd(triangle[p:, p:])
        scale = max(sizes.max(initial=0.0), _TINY)
        known = sizes > _NONE * scale
        sizes, directions, free = sizes[known], turn[known].T, turn[~known].T
        found = right[:, p:] @ left
        squares += (found[:, ~known] ** 2).sum(axis=1)
        found = (found[:, known] / sizes) @ directions.T
        inverse = lapack.dtrtri(root)[0] if p else root
        means = np.concatenate([(right[:, :p] - found @ across.T) @ inverse.T, found], axis=1)
        spread = np.zeros((u, p + len(sizes)))
        spread[:p, :p] = inverse
        spread[:p, p:] = -inverse @ across @ (directions / sizes)
        spread[p:, p:] = directions / sizes
        open_ = np.concatenate([-inverse @ across @ free, free])
        log_det = logs[:n].sum() + 2.0 * (
            np.log(np.abs(root.diagonal())).sum() + np.log(sizes).sum()
        )
        return means, spread, open_, -0.5 * (n_values * LOG_2_PI + log_det + squares)

    @cached_property
    def _end(self):
        """Moments of (w, d) given the rows, and the means and a root of the last states."""
        found, root, _, log_likelihoods = self._posterior(self.n_rows)
        means, maps = self._paths
        return found, root, log_likelihoods, means[-1] + found @ maps[-1].T, maps[-1] @ root

    @property
    def _rest(self):
        """The rows that follow, from the moments of their first states on, and their arrays."""
        rows, lengths = self.rows[~self._is_first], np.diff(self._offsets) - self.n_rows
        X, (means, root) = self._data.X[rows].astype(np.float64), self._end[3:]
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
            log_likelihood += self._end[2].sum()
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
        n, (means, maps), posteriors, first = self.n_rows, self._paths, self._posteriors, []
        for is_wanted, given in ((predicted, posteriors[:n]), (filtered, posteriors[1:])):
            functions = zip(means, maps, given, strict=False) if is_wanted else ()
            first += self._stacked([_moments(*path, *some[:3]) for *path, some in functions])
        sums = np.stack([log_likelihoods for *_, log_likelihoods in posteriors], axis=1)
        first.append(np.diff(sums))
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
        means, maps = self._paths
        found = []
        for t in range(self.n_rows):
            C, offset = (
                at(self._arrays, f"observation_{what}", t) for what in ("matrices", "offsets")
            )
            moments = self._posteriors[t][:3]
            expected, covariance = _moments(C @ means[t] + offset, C @ maps[t], *moments)
            found.append((expected, covariance + self.model.emissions.covariance))
        return self._stacked(found)

    @cached_property
    def _posteriors(self):
        return [self._posterior(n) for n in range(self.n_rows + 1)]

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
        together[:, -1] = self._end[2]
        first = means[:, :n], covariances[:, :n], lags[:, :n], self._filled(means), together
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
        (means, maps), (found, root, _, of_last, root_of_last) = self._paths, self._end
        means, roots = means + np.einsum("tku,nu->ntk", maps, found), maps @ root
        # States as functions of the last one, whose moments the rest tells, and of what is left.
        gains, spread = roots[:, :, :0], np.zeros((self._n, 1, 0, 0))
        if last is not None:
            units = np.sqrt((root_of_last**2).sum(axis=1))
            units = np.where(units > 0.0, units, 1.0)[:, None]
            left, sizes, right = np.linalg.svd(root_of_last / units)
            kept = int((sizes > _NONE * max(sizes.max(initial=0.0), _TINY)).sum())
            inverse = (left[:, :kept] / sizes[:kept] / units).T
            gains, roots = roots @ right[:kept].T, roots @ right[kept:].T
            means = means + np.einsum("tkr,nr->ntk", gains, (last[0] - of_last) @ inverse.T)
            spread = (inverse @ last[1] @ inverse.T)[:, None]
        turned = gains @ spread
        covariances = roots @ roots.mT + turned @ gains.mT
        lags = np.zeros_like(covariances)
        lags[:, 1:] = roots[1:] @ roots[:-1].mT + turned[:, 1:] @ gains[:-1].mT
        return means, covariances, lags

    def _filled(self, means):
        """Return the first rows, imputed where missing, from means of the states."""
        X, R = self._X.copy(), self.model.emissions.covariance
        for t, seen in enumerate(self._seen):
            if not seen.all():
                C, offset = (
                    at(self._arrays, f"observation_{what}", t) for what in ("matrices", "offsets")
                )
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
    rows, n_values, n = [], 0, len(seen)
    A, C = (f"{what}_matrices" for what in ("transition", "observation"))
    for t in range(n):
        if t:
            paths = at(arrays, A, t - 1) @ paths
        rows.append(at(arrays, C, t)[seen[t]] @ paths)
        n_values += int(seen[t].sum())
        if n_values >= paths.shape[1] and seen[t].any():
            together = np.concatenate(rows)
            units = np.abs(together).max(axis=0)
            sizes = np.linalg.svd(together / np.where(units, units, 1.0), compute_uv=False)
            if sizes[-1] > _NONE * sizes[0]:
                return True, t + 1
    return False, n


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


def _moments(mean, states, middle, root, free):
    """Return the mean and the covariance of a state, from those of what it is a function of."""
    root, free = states @ root, states @ free
    covariance = root @ root.T
    size = np.abs(states).max(initial=0.0)
    infinite = (free**2).sum(axis=1) > (_NONE * size) ** 2
    covariance[infinite] = covariance[:, infinite] = np.nan
    covariance[infinite, infinite] = np.inf
    return mean + middle @ states.T, covariance

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

from sklearn_onlineem._kernels._rows import are_finite
from sklearn_onlineem._python import cached_property
from sklearn_onlineem.families.covariance_shapes import LOG_2_PI
from sklearn_onlineem.families.linear_gaussian import square_roots
from sklearn_onlineem.models._kalman import LinearDynamicalStatistics, Prepared
from sklearn_onlineem.models._varying import expected_moments, known_of

# Share of the largest singular value, below which others are rounding.
_NONE = 1e-11
_TINY = np.finfo(float).tiny
_UNDETERMINED = "do not determine a diffuse start"


class Opening:
    """The first rows of a sequence, and the rest of it.

    Parameters
    ----------
    model : LinearDynamicalModel
        With a diffuse start.
    data : Sequences
        A single sequence that does not continue another.
    known : Known
        What is known of its rows.
    """

    def __init__(self, model, data, known):
        self.model, self.data, self._known = model, data, known
        self._arrays = known.of_filter(model)
        self._X = data.X.astype(np.float64, copy=False)
        self._seen = ~np.isnan(self._X)
        self.is_determined, self.n_rows = self._reach()

    def _of(self, name, t):
        if name in self._arrays:
            return self._arrays[name][t]
        part, what = _PLACES[name]
        array = getattr(getattr(self.model, part), what)
        return array[:, : self.model.n_components] if what == "matrix" else array

    def _reach(self):
        """Return whether rows determine the first state, and how many rows do; else all."""
        paths = np.eye(self.model.n_components)[:, self.model.diffuse]
        rows, n_values, n = [], 0, len(self._X)
        for t in range(n):
            if t:
                paths = self._of("transition_matrices", t - 1) @ paths
            seen = self._seen[t]
            rows.append(self._of("observation_matrices", t)[seen] @ paths)
            n_values += int(seen.sum())
            if n_values >= paths.shape[1] and seen.any():
                together = np.concatenate(rows)
                units = np.abs(together).max(axis=0)
                sizes = np.linalg.svd(together / np.where(units, units, 1.0), compute_uv=False)
                if sizes[-1] > _NONE * sizes[0]:
                    return True, t + 1
        return False, n

    @cached_property
    def _paths(self):
        """Means m_t (n, k) and maps M_t (n, k, u) of the states, with d last."""
        model, n = self.model, self.n_rows
        q = int(model.diffuse.sum())
        first, noise = (_root(part.covariance) for part in (model.initial, model.transitions))
        k, n_first, n_noise = model.n_components, first.shape[1], noise.shape[1]
        means = np.zeros((n, k))
        maps = np.zeros((n, k, n_first + (n - 1) * n_noise + q))
        means[0], maps[0, :, :n_first] = model.initial.offset, first
        maps[0, :, maps.shape[2] - q :] = np.eye(k)[:, model.diffuse]
        for t in range(1, n):
            A, begin = self._of("transition_matrices", t - 1), n_first + (t - 1) * n_noise
            means[t] = A @ means[t - 1] + self._of("transition_offsets", t - 1)
            maps[t] = A @ maps[t - 1]
            maps[t, :, begin : begin + n_noise] = noise
        return means, maps

    @cached_property
    def _equations(self):
        """Coefficients of (w, d) and values of observations of noise 1, by rows; log |R| of each.

        Also returned is how many observations there are up to each row.
        """
        means, maps = self._paths
        R, parts, values, logs, counts = self.model.emissions.covariance, [], [], [], [0]
        for t in range(self.n_rows):
            seen = self._seen[t]
            counts.append(counts[-1] + int(seen.sum()))
            if not seen.any():
                logs.append(0.0)
                continue
            C = self._of("observation_matrices", t)[seen]
            rest = (self._X[t] - self._of("observation_offsets", t))[seen] - C @ means[t]
            root = np.linalg.cholesky(R[np.ix_(seen, seen)])
            inverse = lapack.dtrtri(root, lower=1)[0]
            parts.append(inverse @ (C @ maps[t]))
            values.append(inverse @ rest)
            logs.append(2.0 * float(np.log(root.diagonal()).sum()))
        blank = np.zeros((0, maps.shape[2]))
        return np.concatenate([blank, *parts]), np.concatenate([[], *values]), logs, counts

    def _posterior(self, n):
        """Return moments of (w, d) given the first n rows, and their log-likelihood.

        These are the mean, a root of the covariance, and directions in which it is infinite.
        """
        coefficients, values, logs, counts = self._equations
        u, q = coefficients.shape[1], int(self.model.diffuse.sum())
        p, n_values = u - q, counts[n]
        rows = np.zeros((p + n_values + q + 1, u + 1))
        rows[:p, :p] = np.eye(p)
        rows[p : p + n_values, :u] = coefficients[:n_values]
        rows[p : p + n_values, u] = values[:n_values]
        triangle = np.linalg.qr(rows, mode="r")
        root, across, right = triangle[:p, :p], triangle[:p, p:u], triangle[:p, u]
        left, sizes, turn = np.linalg.svd(triangle[p:u, p:u])
        scale = max(sizes.max(initial=0.0), _TINY)
        known = sizes > _NONE * scale
        sizes, directions, free = sizes[known], turn[known].T, turn[~known].T
        found = (left.T @ triangle[p:u, u])[: len(left)]
        squares = triangle[u, u] ** 2 + (found[~known] ** 2).sum()
        found = directions @ (found[known] / sizes)
        inverse = lapack.dtrtri(root)[0] if p else root
        mean = np.concatenate([inverse @ (right - across @ found), found])
        spread = np.zeros((u, p + len(sizes)))
        spread[:p, :p] = inverse
        spread[:p, p:] = -inverse @ across @ (directions / sizes)
        spread[p:, p:] = directions / sizes
        open_ = np.concatenate([-inverse @ across @ free, free])
        log_det = sum(logs[:n]) + 2.0 * (
            np.log(np.abs(root.diagonal())).sum() + np.log(sizes).sum()
        )
        return mean, spread, open_, -0.5 * (n_values * LOG_2_PI + log_det + squares)

    @cached_property
    def _end(self):
        """Moments of (w, d) given the rows, and the mean and a root of the last state's."""
        mean, root, _, log_likelihood = self._posterior(self.n_rows)
        means, maps = self._paths
        return mean, root, log_likelihood, means[-1] + maps[-1] @ mean, maps[-1] @ root

    @property
    def log_likelihood(self):
        """Of the rows, in nats."""
        return self._end[2]

    @cached_property
    def rest(self):
        """The rows that follow, after one without values for the last state; None: no rows do."""
        begin = self.n_rows - 1
        if not self.is_determined or self.n_rows == len(self._X):
            return None
        X = self._X[begin:].copy()
        X[0] = np.nan
        mean, root = self._end[3:]
        first = mean, root @ root.T
        return Prepared(X, np.array([0, len(X)]), first, n_lead=1)

    @property
    def known_of_rest(self):
        """What is known of these rows."""
        return self._known.part(self.n_rows - 1, len(self._X), 0)

    def filtered(self, predicted=False, filtered=False):
        """Return moments before each row and given it, if wanted, and log densities of rows.

        They are infinite where undetermined.
        """
        means, maps = self._paths
        before, after, densities = [], [], []
        for t, (mean, M) in enumerate(zip(means, maps, strict=True)):
            here, then = self._posteriors[t : t + 2]
            if predicted:
                before.append(_moments(mean, M, *here[:3]))
            if filtered:
                after.append(_moments(mean, M, *then[:3]))
            densities.append(then[3] - here[3])
        parts = (zip(*pairs, strict=True) if pairs else [(), ()] for pairs in (before, after))
        return *(np.array(part) for pair in parts for part in pair), np.array(densities)

    def predicted(self):
        """Return moments of each row given those before it, infinite where undetermined."""
        means, maps = self._paths
        found = []
        for t, (mean, M) in enumerate(zip(means, maps, strict=True)):
            C, offset = (self._of(f"observation_{what}", t) for what in ("matrices", "offsets"))
            expected, covariance = _moments(C @ mean + offset, C @ M, *self._posteriors[t][:3])
            found.append((expected, covariance + self.model.emissions.covariance))
        return [np.array(part) for part in zip(*found, strict=True)]

    @cached_property
    def _posteriors(self):
        return [self._posterior(n) for n in range(self.n_rows + 1)]

    def smoothed(self, last=None):
        """Return means, covariances and lag-one covariances given all rows.

        `last` are the mean and the covariance of the last of these states, given all rows. None:
        nothing follows.
        """
        if not self.is_determined:
            n_values, q = int(self._seen.sum()), int(self.model.diffuse.sum())
            raise ValueError(
                f"{len(self._X)} rows with {n_values} values {_UNDETERMINED} of {q} variables: pass"
                " longer sequences, or other variances of the start."
            )
        mean, root, _, of_last, root_of_last = self._end
        if last is not None:
            units = np.sqrt((root_of_last**2).sum(axis=1))
            units = np.where(units > 0.0, units, 1.0)[:, None]
            left, sizes, right = np.linalg.svd(root_of_last / units, full_matrices=False)
            kept = sizes > _NONE * max(sizes.max(initial=0.0), _TINY)
            inverse = (left[:, kept] / sizes[kept] / units).T
            right = right[kept]
            mean = mean + root @ (right.T @ (inverse @ (last[0] - of_last)))
            inner = inverse @ last[1] @ inverse.T
            change = right.T @ (inner - np.eye(len(inner))) @ right
            covariance = root @ (np.eye(root.shape[1]) + change) @ root.T
        else:
            covariance = root @ root.T
        means, maps = self._paths
        turned = maps @ covariance
        lags = np.zeros((self.n_rows, *maps.shape[1:2] * 2))
        lags[1:] = turned[1:] @ maps[:-1].mT
        return means + maps @ mean, turned @ maps.mT, lags

    def filled(self, means):
        """Return the rows with missing values imputed, from smoothed means of the states."""
        X, R = self._X[: self.n_rows].copy(), self.model.emissions.covariance
        for t, seen in enumerate(self._seen[: self.n_rows]):
            if not seen.all():
                offset = self._of("observation_offsets", t)
                expected = self._of("observation_matrices", t) @ means[t] + offset
                rest = np.linalg.solve(R[np.ix_(seen, seen)], (X[t] - expected)[seen])
                X[t, ~seen] = expected[~seen] + R[np.ix_(~seen, seen)] @ rest
        return X

    def evidence(self, means, covariances, lags):
        """Return what `expected_moments` does, from smoothed moments of the states."""
        data = Prepared(self._X[: self.n_rows], np.array([0, self.n_rows]), None)
        known = self._known.part(0, self.n_rows, 0)
        return expected_moments(self.model, data, known, means, covariances, lags)


_PLACES = {
    "transition_matrices": ("transitions", "matrix"),
    "transition_offsets": ("transitions", "offset"),
    "observation_matrices": ("emissions", "matrix"),
    "observation_offsets": ("emissions", "offset"),
}


def check_determined(covariances):
    """Raise ValueError if rows do not determine the states that they lead to."""
    if not are_finite(covariances):
        raise ValueError(f"the rows {_UNDETERMINED}: begin with more of them.")


def in_pieces(model, data, name, wanted):
    """Return what `Padded.filtered` or `Padded.smoothed` does of all rows.

    `wanted` are arguments of these. The first sequence may continue another.
    """
    found = []
    for opening in openings(model, data):
        if not isinstance(opening, Opening):
            found.append(model._in_pieces(opening, name, wanted))
            continue
        after = None
        if opening.rest is not None:
            padded = model._with_arrays(opening.known_of_rest.of_filter(model))
            after = getattr(padded, name)(opening.rest, data.n_threads, **wanted)
        if name == "filtered":
            first = opening.filtered(**wanted)
        else:
            last = None if after is None else (after[0][0], after[1][0])
            first = opening.smoothed(last)
            first = *first, opening.filled(first[0])
        if after is not None:
            first = [np.concatenate([a, b[1:]]) for a, b in zip(first, after, strict=True)]
        found.append(first)
    return tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))


def predicted(model, data, means, covariances):
    """Return moments of rows given those before them, from those of their states."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = model._of_emissions(data, means, covariances)
    for begin, opening in zip(data.offsets, openings(model, data), strict=False):
        if isinstance(opening, Opening):
            for moments, first in zip(found, opening.predicted(), strict=True):
                moments[begin : begin + len(first)] = first
    return found


def openings(model, data):
    """Yield an `Opening` of each sequence, or a sequence that continues another."""
    known = known_of(model, data)
    for i in range(len(data)):
        if i == 0 and data.before is not None:
            yield data[:1]
        else:
            own = known.part(data.offsets[i], data.offsets[i + 1], 0)
            yield Opening(model, model._outputs(data[i : i + 1]), own)


def evidence(model, data):
    """Yield the expected statistics and the log-likelihood of each sequence."""
    for opening in openings(model, data):
        if not isinstance(opening, Opening):
            yield model.e_step(opening)
            continue
        rest, last, log_likelihood = opening.rest, None, opening.log_likelihood
        if rest is not None:
            known = opening.known_of_rest
            arrays = known.of_filter(model)
            padded, whole = model._with_arrays(arrays), replace(rest, n_lead=0)
            if arrays:
                moments = padded.smoothed(rest, data.n_threads)[:3]
                after = LinearDynamicalStatistics(*expected_moments(model, whole, known, *moments))
                log_likelihood += padded.filtered(rest, data.n_threads)[-1].sum()
            else:
                after, more = padded.expected(whole, data.n_threads)
                log_likelihood += more
            last = after.initial.mean[0], after.initial.scatter[0]
            after = replace(after, initial=after.initial.scale(0.0))
        own = LinearDynamicalStatistics(*opening.evidence(*opening.smoothed(last)))
        yield own if rest is None else own.merge(1.0, after, 1.0), log_likelihood


def _root(covariance):
    """Return a root of a covariance, without columns of 0."""
    root = square_roots(covariance[None])[0]
    return root[:, root.any(axis=0)]


def _moments(mean, states, middle, root, free):
    """Return the mean and the covariance of a state, from those of what it is a function of."""
    root, free = states @ root, states @ free
    covariance = root @ root.T
    size = np.abs(states).max(initial=0.0)
    infinite = (free**2).sum(axis=1) > (_NONE * size) ** 2
    covariance[infinite] = covariance[:, infinite] = np.nan
    covariance[infinite, infinite] = np.inf
    return mean + states @ middle, covariance

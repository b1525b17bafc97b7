"""Start of Kalman filters: states that are guessed from the rows, then regressions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, islice

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem._checks import NoStartError, check_columns
from sklearn_onlineem.data.sequences import Sequences, SequencesWithInputs
from sklearn_onlineem.estimators._start import Initialiser, climbed, likeliest
from sklearn_onlineem.estimators.kalman._system import SHAPES, System, varying_names
from sklearn_onlineem.estimators.progress import warn_user
from sklearn_onlineem.families.gaussian import variance_floor
from sklearn_onlineem.models.coordinates import coordinates_of

# Pseudo-rows of a stream's start, by parameters of the model per feature; share of those of
# emissions that lasts.
_START_SHARE, _LASTING = 0.2, 0.1
# Passes of batch EM before starts are compared, most rows of each, and most values of earlier rows
# for canonical variates to be tried.
_PASSES, _MOST_ROWS, _MOST_LAGGED = 10, 1 << 11, 512
# Rounds of the best weights of inputs, and passes of batch EM after each.
_ROUNDS, _PASSES_OF_ROUND = 5, 3
# Share of the variance of changes that noise of components has at the start.
_START_VARIANCE = 0.3
# Powers of 10 by which further starts differ from it.
_START_POWERS = -3.0, 1.0


def _scales(data):
    """Return, by columns, mean squares of changes of rows, and variances; 1 instead of 0."""
    X, begins = filled(data)
    changes = np.diff(X, axis=0)[~begins[1:]]
    squares = (changes**2).mean(axis=0) if len(changes) else np.zeros(X.shape[1])
    return [np.where(part > 0.0, part, 1.0) for part in (squares, (X - X[0]).var(axis=0))]


@dataclass(frozen=True)
class SystemInitialiser(Initialiser):
    """States that are guessed from the rows, and the regressions that follow from them.

    `prior` is a function of a model and the number of features; see `OnlineEM._prior`.
    """

    system: System
    init: str
    prior: Callable

    def given(self, data):
        if self.system.n_of_column:
            return None
        system = self.system.of(data)
        known = system.known(data.n_features)
        system.check_units(known)
        if not system.learnt() <= set(known):
            return None
        return system.known_model(known).seeing(data)

    def _of_structure(self, data, random_state=None, is_diffuse=True):
        """Return the system of a structure, whose variances are in the units of rows."""
        system = self.system.of(data)
        known = system.known(data.n_features)
        squares, variances = _scales(data)
        for name in system.learnt() & {"transition_covariance", "observation_covariance"}:
            units = np.repeat(squares, len(known[name]) // len(squares))
            known[name] = _START_VARIANCE * units * known[name]
        start = known["initial_state_covariance"]
        start = start if is_diffuse else np.where(np.isinf(start), 1.0, start)
        units = np.repeat(variances, system.n_of_column)
        known["initial_state_covariance"] = np.where(start > 0.0, units * start, 0.0)
        model = system.known_model(known).seeing(data)
        if system.n_inputs:
            for _ in range(_ROUNDS):
                model = with_best_weights(model, data)
                model, _ = climbed(model, data, _PASSES_OF_ROUND)
        if system.cycles:
            models = [*with_periods(model, data, system.cycles, random_state)]
            model = self._likeliest(models, data)
        return model

    def estimated(self, data, random_state):
        system = self.system
        if data.n_rows < system.n_states and not system.n_of_column:
            raise NoStartError(
                f"at least n_dim_state={system.n_states} rows are needed to start from, got"
                f" n_samples={data.n_rows}. Pass more rows, or initial values of all arrays that"
                " are learnt."
            )
        X, _ = filled(data)
        if len(X) > 1 and (X == X[0]).all():
            warn_user("All rows are equal.", ConvergenceWarning)
        return self._guessed(data, random_state)

    def _guessed(self, data, random_state):
        if self.system.n_of_column:
            return self._of_structure(data)
        system, n_features = self.system.of(data), data.n_features
        X, begins = filled(data)
        inputs = data.X[: len(X), : 2 * system.n_inputs].astype(np.float64)
        reg_covar = None if system.reg_covar == "relative" else system.reg_covar
        floor, names = variance_floor(X, None, reg_covar), [self.init]
        known = system.known(n_features)
        if self.init == "auto":
            # Canonical variates are coordinates of their own, which given matrices do not know.
            matrices = {"transition_matrices", "observation_matrices"}
            is_told = matrices & set(known)
            is_large = n_lags(system.n_states, n_features) * n_features > _MOST_LAGGED
            names = ["pca"] if is_told or is_large else ["pca", "cca"]
        # A start knows the mean of what varies in time.
        means = known | {name: known[name].mean(axis=0) for name in varying_names(known)}

        def begun(states, rng):
            arrays = start_arrays(X, begins, system.n_states, means, states, rng, inputs)
            arrays = {name: arrays[name] for name in system.fields} | known
            for name in system.learnt() & set(system.noise_types):
                arrays[name] = SHAPES[system.noise_types[name]].nearest(arrays[name])
            return system.model(arrays, floor)

        # Each start draws the same, so that the best is what its name alone would give.
        rngs = [*(copy.deepcopy(random_state) for _ in names[1:]), random_state]
        models = [begun(START_STATES[name], rng) for name, rng in zip(names, rngs, strict=True)]
        return self._likeliest(models, data).seeing(data)

    def _likeliest(self, models, data):
        """Return the model that is the likeliest after few passes of batch EM over first rows.

        A climb over the likelihood of a structure takes their place, where there is one.
        """
        n_rows = min(data.n_rows, _MOST_ROWS)
        first = data.with_rows(
            data.rows[:n_rows], np.append(data.offsets[data.offsets < n_rows], n_rows)
        )

        def log_likelihood(model):
            prior = self.prior(model, data.n_features)
            if self.system.n_of_column and prior is None:
                evidence, value = model.e_step(first)
                further = coordinates_of(model, evidence, first).climbed(_PASSES)
                if further is not None:
                    return max(value, further[0].e_step(first)[1])
            terms = [] if prior is None else [(1.0 / len(first), prior)]
            return climbed(model, first, _PASSES + 1, terms)[1]

        return likeliest(models, log_likelihood)

    def another(self, data, random_state):
        """Return a further start of `n_init`, at random."""
        if self.system.n_of_column:
            given = dict(self.system.given)
            for name in ("transition_covariance", "observation_covariance"):
                sizes = 10.0 ** random_state.uniform(*_START_POWERS, size=len(given[name]))
                given[name] = given[name] * sizes
            structured = replace(self, system=replace(self.system, given=given))
            return structured._of_structure(data, random_state)
        return replace(self, init="random").model(data, random_state)

    def lasting(self, pseudo_statistics):
        # Few of emissions keep the units of states, in which those of first states are: in others
        # the first state of one sequence would be certain.
        _, transitions, emissions = pseudo_statistics.parts
        transitions, emissions = transitions.scale(0.0), emissions.scale(_LASTING)
        return replace(pseudo_statistics, transitions=transitions, emissions=emissions)

    def stream_model(self, data, random_state):
        # The start counts for a few rows, against overfitting of the first batch.
        rows, n_missing = data, self.system.n_states - data.n_rows
        if n_missing > 0 and not self.system.n_of_column:
            rows = Sequences.concatenate([data, data[np.zeros(n_missing, dtype=np.intp)]])
        model = self._guessed(rows, random_state)
        if self.system.n_of_column and len(data) == 1 and not model.is_determined(data):
            # Of one sequence that goes on: the start is made anew from more rows.
            model = self._of_structure(rows, is_diffuse=False)
        own = model.own_statistics(data)
        pseudo_statistics = _START_SHARE * model.observations_needed(data) * own
        # One pseudo-start: of one sequence, the first state alone would have no variance.
        return model, replace(pseudo_statistics, initial=own.initial)


# ------------------------------------------------------------------------ arrays from rows

# Most rows used for a start.
_MOST_FILLED_ROWS = 1 << 16
# Eigenvalues below this share of the largest are rounding.
_NEGLIGIBLE = 1e-10
# Share of the innovations that a start counts as noise of the rows, and least share of a variance.
_NOISE_SHARE, _LEAST_NOISE = 0.5, 1e-3
# Prior of the transitions, worth one pair of rows: states decay.
_DECAY = 0.9
# Canonical variates: lags by those that give as many directions as states have, share of the
# variances that is added to them before they are inverted, and largest size of an eigenvalue.
_LAGS, _RIDGE, _LARGEST = 3, 1e-3, 0.999
# Least pull of a state to where it rests, relative to the largest.
_LEAST_PULL = 1e-2
_TINY = np.finfo(float).tiny
# Power of the correlations by which random directions are drawn.
_POWER = 4
# Most peaks of a spectrum that cycles start from, and most starts of them together; the largest
# frequency, in units of half a turn.
_N_PEAKS, _N_STARTS, _MOST_FREQUENCY = 3, 8, 0.9


def filled(data):
    """Return rows in float64, with values for missing ones, and where sequences begin.

    A missing value is on the straight line between its neighbours in the sequence, or is the
    nearest one, or the mean of the column if the sequence has none.
    """
    data = data.outputs if isinstance(data, SequencesWithInputs) else data
    n_rows = min(len(data.X), _MOST_FILLED_ROWS)
    X = data.X[:n_rows].astype(np.float64)
    begins = np.zeros(n_rows, dtype=bool)
    begins[data.offsets[:-1][data.offsets[:-1] < n_rows]] = True
    check_columns(X)
    gaps = np.isnan(X)
    if gaps.any():
        X = np.where(gaps, _interpolated(X, gaps, begins), X)
    return X, begins


def _interpolated(X, gaps, begins):
    t, columns, sequence = np.arange(len(X))[:, None], np.arange(X.shape[1]), np.cumsum(begins)
    reference = X[np.argmax(~gaps, axis=0), columns]
    means = reference + np.nanmean(X - reference, axis=0)
    before = np.maximum.accumulate(np.where(gaps, 0, t))
    after = np.minimum.accumulate(np.where(gaps, len(X) - 1, t)[::-1])[::-1]
    is_before, is_after = (
        ~gaps[at, columns] & (sequence[at] == sequence[:, None]) for at in (before, after)
    )
    share = (t - before) / np.maximum(after - before, 1)
    first, last = X[before, columns], X[after, columns]
    inside = np.where(is_after, (1.0 - share) * first + share * last, first)
    return np.where(is_before, inside, np.where(is_after, last, means))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def start_arrays(X, begins, k, known, states, rng, inputs):
    """Return start arrays of all parts, those that are `known` and estimates of the others.

    `inputs` are those of the rows before, and of the rows, of shape (n_rows, 2 m).
    """
    # `states` guesses states of dimension k from rows X, of which `begins` marks the first ones of
    # sequences; then each array is that of a regression. Units of the rows do not matter. `known`
    # has arrays by name.
    past, now = np.split(inputs, 2, axis=1)
    D = known.get("observation_input_weights")
    if D is None:
        centred = (part - _mean(part) for part in (now, X))
        D = _regression(*centred, np.zeros((X.shape[1], now.shape[1])))
    X = X - now @ D.T
    scale = np.sqrt(variance_floor(X, None, None) / 1e-6)
    d0 = known.get("observation_offsets")
    offset = X[0] + _mean(X - X[0]) if d0 is None else d0
    Z = (X - offset) / scale
    scores, C = _states(Z, begins, k, known, scale, states, rng)
    is_forecast = states is not _principal and "observation_matrices" not in known
    transitions = _transitions(scores, begins, known, _LARGEST if is_forecast else 1.0, past)
    # The noise of the rows: a share of what no state predicts, and what a state does not explain
    # of its row, which is the same thing where states are made of earlier rows.
    A, residual = transitions["transition_matrices"], Z - scores @ C.T
    variances = np.full(Z.shape[1], _LEAST_NOISE)
    if is_forecast:
        variances += _NOISE_SHARE * _mean(residual**2)
    else:
        innovation = np.where(begins[:, None], Z, Z - np.roll(scores, 1, axis=0) @ (C @ A).T)
        variances += _NOISE_SHARE * _mean(innovation**2) + _mean(residual**2)
    noise = np.diag(variances)
    mean = _mean(scores)
    deviation = scores[begins] - mean
    spread = deviation.T @ deviation / max(1, len(deviation))
    arrays = {
        "initial_state_mean": mean,
        "initial_state_covariance": spread + np.diag(_units(scores)),
        **transitions,
        "observation_matrices": C * scale[:, None],
        "observation_offsets": offset,
        "observation_covariance": noise * scale[:, None] * scale,
        "observation_input_weights": D,
    }
    moved, is_told = transitions["transition_input_weights"] @ past.mean(axis=0), known.keys()
    if "transition_offsets" not in is_told:
        arrays["transition_offsets"] = arrays["transition_offsets"] - moved
    elif "observation_offsets" not in is_told and moved.any():
        # States rest where inputs take them; a random walk does not.
        rest = np.linalg.lstsq(np.eye(k) - A, moved, rcond=_LEAST_PULL)[0]
        arrays["initial_state_mean"] = arrays["initial_state_mean"] + rest
        arrays["observation_offsets"] = offset - arrays["observation_matrices"] @ rest
    return {**_in_units_of(known, arrays), **known}


def _states(Z, begins, k, known, scale, states, rng):
    """Return scores of the rows for each dimension of the state, and the map that reads them."""
    if "observation_matrices" in known:
        C = known["observation_matrices"] / scale[:, None]
        return Z @ np.linalg.pinv(C, rcond=1e-8).T, C
    age = np.arange(len(Z)) - np.maximum.accumulate(np.where(begins, np.arange(len(Z)), 0))
    scores = _whitened(states(Z, age, k, rng), k)
    C = _regression(scores, Z, np.zeros((Z.shape[1], k)))
    # A direction without evidence would never get any.
    C += np.where(scores.any(axis=0), 0.0, 0.1 * rng.standard_normal(C.shape))
    return scores, C


def _earlier(Z, age, lag):
    """Return the rows `lag` rows before each, and 0 before the first of a sequence."""
    earlier = np.roll(Z, lag, axis=0)
    earlier[age < lag] = 0.0
    return earlier


def _principal(Z, age, k, rng):
    # Rows are joined with those before them, for more states than features.
    windows = np.hstack([_earlier(Z, age, lag) for lag in range(-(-k // Z.shape[1]))])
    vectors = np.linalg.eigh(windows.T @ windows / len(windows))[1]
    return windows @ _signed(vectors[:, ::-1][:, :k])


def n_lags(k, n_features):
    """Return how many rows before each canonical variates of dimension k are functions of."""
    return _LAGS * -(-k // n_features)


def _canonical(Z, age, k, rng):
    variates, _, before = _variates(Z, age, n_lags(k, Z.shape[1]))
    return before(_signed(variates[:, :k]))


def _random(Z, age, k, rng):
    # With powers of the correlations, as most variates are noise.
    most = 2 * n_lags(k, Z.shape[1])
    variates, correlations, before = _variates(Z, age, rng.randint(-(-k // Z.shape[1]), most + 1))
    return before(variates * correlations**_POWER @ rng.standard_normal((len(correlations), k)))


def _variates(Z, age, n_lags):
    """Return canonical variates of rows and those before, one a column, and their correlations.

    Also returned is a function that gives the scores of directions which are made of variates.
    """
    # Rows outside of a sequence count as 0, so that covariances depend on lags only.
    d = Z.shape[1]
    lagged = np.array([Z.T @ _earlier(Z, age, lag) for lag in range(2 * n_lags)]) / len(Z)
    i, j = np.indices((n_lags, n_lags))
    later = np.where((i >= j)[..., None, None], lagged[abs(i - j)], lagged[abs(i - j)].mT)
    past, future, across = (
        blocks.transpose(0, 2, 1, 3).reshape(n_lags * d, n_lags * d)
        for blocks in (later.mT, later, lagged[i + j + 1].mT)
    )
    ridge = _RIDGE * np.diag(np.tile(_units(Z), n_lags))
    past, future = (linalg.cholesky(moments + ridge, lower=True) for moments in (past, future))
    across = linalg.solve_triangular(past, across, lower=True)
    across = linalg.solve_triangular(future, across.T, lower=True).T
    variates, correlations, _ = linalg.svd(across)

    def before(directions):
        weights = linalg.solve_triangular(past.T, directions).reshape(n_lags, d, -1)
        return sum(_earlier(Z, age, lag + 1) @ own for lag, own in enumerate(weights))

    return variates, correlations, before


START_STATES = {"pca": _principal, "cca": _canonical, "random": _random}


def _signed(vectors):
    """Return vectors whose first loading that is not small, not a rounding error, is positive."""
    largest = np.abs(vectors) > 0.5 * np.abs(vectors).max(axis=0)
    return vectors * np.sign(vectors[largest.argmax(axis=0), np.arange(vectors.shape[1])])


def _whitened(scores, k):
    """Return scores of variance 1, and zeros for directions in which nothing varies."""
    values, vectors = np.linalg.eigh(scores.T @ scores / len(scores))
    varies = values > _NEGLIGIBLE * max(values[-1], 1e-12)
    root = np.where(varies, 1.0 / np.sqrt(np.where(varies, values, 1.0)), 0.0)
    out = np.zeros((len(scores), k))
    if varies.all():
        out[:, : len(values)] = scores @ (vectors * root) @ vectors.T
    else:
        out[:, : varies.sum()] = (scores @ (vectors * root))[:, varies]
    return out


def _transitions(scores, begins, known, largest, inputs):
    """Return transitions from the regression of states on those before them, and on inputs there.

    Inputs count from their means.
    """
    k, units = scores.shape[1], np.diag(_units(scores))
    rows = 1 + np.flatnonzero(~begins[1:])
    before, after, inputs = scores[rows - 1], scores[rows], (inputs - inputs.mean(axis=0))[rows]
    b = known.get("transition_offsets", np.zeros(k))
    A, B = known.get("transition_matrices"), known.get("transition_input_weights")
    rest = after - b - (0.0 if B is None else inputs @ B.T)
    if A is None:
        learnt = inputs if B is None else inputs[:, :0]
        prior = _DECAY * np.eye(k, k + learnt.shape[1])
        A, own = np.split(_regression(np.hstack([before, learnt]), rest, prior), [k], axis=1)
        B = own if B is None else B
        A = A * min(1.0, largest / np.abs(np.linalg.eigvals(A)).max())  # States must not grow.
    elif B is None:
        B = _regression(inputs, rest - before @ A.T, np.zeros((k, inputs.shape[1])))
    residual = after - before @ A.T - inputs @ B.T - b
    Q = (residual.T @ residual + (1.0 - _DECAY**2) * units) / (len(residual) + 1.0)
    return {
        "transition_matrices": A, "transition_offsets": b, "transition_covariance": Q,
        "transition_input_weights": B,
    }  # fmt: skip


def _in_units_of(known, arrays):
    """Return the system in coordinates in which the noise of the state has the given covariance."""
    given = known.get("transition_covariance")
    if given is None or {"transition_matrices", "observation_matrices"} & set(known):
        return arrays
    try:
        there = linalg.cholesky(given, lower=True)
    except linalg.LinAlgError:
        return arrays
    here = linalg.cholesky(arrays["transition_covariance"], lower=True)
    T = there @ np.linalg.inv(here)
    back = np.linalg.inv(T)
    return {
        **arrays,
        "initial_state_mean": T @ arrays["initial_state_mean"],
        "initial_state_covariance": T @ arrays["initial_state_covariance"] @ T.T,
        "transition_matrices": T @ arrays["transition_matrices"] @ back,
        "transition_input_weights": T @ arrays["transition_input_weights"],
        "observation_matrices": arrays["observation_matrices"] @ back,
    }


def _regression(x, y, prior):
    """Return coefficients B of y = B x, with one pseudo-row for the matrix `prior`."""
    units = np.diag(_units(x))
    return np.linalg.solve(x.T @ x + units, x.T @ y + units @ prior.T).T


def _units(scores):
    """Return variances, and 1 instead of 0."""
    square = _mean(scores**2)
    return np.where(square > 0.0, square, 1.0)


def _mean(rows):
    # That of NumPy is slow where rows are short.
    return np.full(len(rows), 1.0 / max(1, len(rows))) @ rows


def with_best_weights(model, data):
    """Return a model with the likeliest weights of inputs of rows, given the rest.

    Where rows have little noise, EM does not find these: the states explain what weights leave.
    Scores are linear in them.
    """
    reading, k = model.emissions, model.n_components

    def having(weights):
        matrix = np.hstack([reading.matrix[:, :k], weights])
        parameters = replace(reading.parameters, matrix=matrix[None])
        return replace(model, emissions=replace(reading, parameters=parameters))

    def equations(model):
        return model.emissions.equations(model.e_step(data)[0].emissions)

    weights, (of_complete, here) = reading.matrix[:, k:], equations(model)
    information = np.empty((weights.size, weights.size))
    for j in range(weights.size):
        further = weights.copy()
        further.flat[j] += 1.0
        information[:, j] = here - equations(having(further))[1]
    # What states explain as well, as they do a constant, is left at 0.
    units = 1.0 / np.sqrt(np.maximum(of_complete.diagonal(), _TINY))
    shares, vectors = np.linalg.eigh(0.5 * units * (information + information.T) * units[:, None])
    kept = vectors[:, shares > _NEGLIGIBLE] / np.sqrt(shares[shares > _NEGLIGIBLE])
    changes = units * (kept @ (kept.T @ (units * here)))
    return having(weights + changes.reshape(weights.shape))


def with_periods(model, data, cycles, random_state=None):
    """Yield models whose cycles start with periods that the spectrum of the rows shows.

    `cycles` are the slices of their states. With a random state, one model has periods at random.
    """
    X, begins = filled(data)
    if model.n_inputs:
        now = data.X[: len(X), model.n_inputs : data.n_inputs]
        X = X - now @ model.emissions.matrix[:, model.n_components :].T
    pieces, C = np.split(X, np.flatnonzero(begins)[1:]), model.emissions.matrix
    longest = max(map(len, pieces))
    if random_state is not None:
        logs = random_state.uniform(np.log(4.0 / longest), np.log(_MOST_FREQUENCY), len(cycles))
        candidates = [np.exp(logs)]
    else:
        found = [_frequencies([piece[:, j] for piece in pieces]) for j in range(len(C))]
        columns = [int(C[:, own].any(axis=1).argmax()) for own in cycles]
        n = max(map(columns.count, columns))
        candidates = [
            [found[j][which[columns[:i].count(j)] % len(found[j])] for i, j in enumerate(columns)]
            for which in islice(combinations(range(max(n, *map(len, found))), n), _N_STARTS)
        ]
    for frequencies in candidates:
        matrix = model.transitions.parameters.matrix.copy()
        for own, frequency in zip(cycles, frequencies, strict=True):
            rate = np.sqrt(np.linalg.det(matrix[0, own, own]))
            c, s = np.cos(np.pi * frequency), np.sin(np.pi * frequency)
            matrix[0, own, own] = rate * np.array([[c, s], [-s, c]])
        yield model._with_transitions(matrix)


def _frequencies(pieces):
    """Return the peaks of the spectra of a series and of its changes, in units of half a turn."""
    n = 4 * max(map(len, pieces))
    power = np.zeros(n // 2 + 1)
    for x in (piece for piece in pieces if len(piece) > 1):
        line = np.polynomial.Polynomial.fit(np.arange(len(x)), x, 1)
        power += np.abs(np.fft.rfft(x - line(np.arange(len(x))), n)) ** 2
    frequencies = np.linspace(0.0, 1.0, len(power))
    found = []
    for spectrum in (power, power * (1.0 - np.cos(np.pi * frequencies))):
        is_peak = (spectrum[1:-1] >= spectrum[:-2]) & (spectrum[1:-1] > spectrum[2:])
        is_peak &= frequencies[1:-1] < _MOST_FREQUENCY
        peaks = np.flatnonzero(is_peak) + 1
        found += [*peaks[np.argsort(-spectrum[peaks])][:_N_PEAKS]]
    return frequencies[[*dict.fromkeys(found)] or [len(power) // 4]]

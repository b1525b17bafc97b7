"""Linear dynamical systems, the models of Kalman filters."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, lapack, null_space
from scipy.sparse.csgraph import connected_components

from sklearn_onlineem._checks import LARGEST_SQUARE, finite_start
from sklearn_onlineem._kernels import _disturbances, _kalman, _regressions
from sklearn_onlineem._kernels._rows import are_finite
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator
from sklearn_onlineem._values import quick
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import (
    Sequences,
    SequencesWithInputs,
    share_of_starts,
    with_inputs_before,
)
from sklearn_onlineem.families._family import NOTHING
from sklearn_onlineem.families.covariance_shapes import LOG_2_PI
from sklearn_onlineem.families.parts import Part
from sklearn_onlineem.models._model import Model, by_weight
from sklearn_onlineem.models.capabilities import Levels, RowLikelihoods
from sklearn_onlineem.models.coordinates import Coordinates, Node, within
from sklearn_onlineem.models.forecasts import NormalForecast
from sklearn_onlineem.models.kalman import _diffuse
from sklearn_onlineem.models.kalman._filter import (
    LinearDynamicalStatistics,
    Padded,
    SharedGains,
    alike,
    occupancies,
    prepared,
    split_by_gaps,
)
from sklearn_onlineem.models.kalman._partial_regression import (
    VarianceCoordinates,
    independent_variances,
)
from sklearn_onlineem.models.kalman._varying import (
    Varying,
    at,
    expected_moments,
    known_of,
    n_inputs_of,
    of_inputs,
    times_of,
)
from sklearn_onlineem.models.kalman._varying import occupancies as varying_occupancies
from sklearn_onlineem.models.kalman.regression import Regression, coordinates_of_regression
from sklearn_onlineem.models.terminations import NEEDS_LENGTHS, UNKNOWN_LENGTHS, Lengths
from sklearn_onlineem.statistics import Moments, combine

# A level is new if it is so far off, as a square in units of the covariance of a row, and if it
# explains its rows by so many nats better. Lower bounds relocate systems of too few states, whose
# noise is correlated, as on air quality with one state of four columns.
LEAST_SQUARE, _LEAST_GAIN = 30.0, 30.0
# A jump is at the first row with this share of the largest surprise in nats.
_SHARE = 0.05


class Field(NamedTuple):
    """Place in a linear dynamical system of a parameter with a name of pykalman."""

    part: str
    # "matrix", whose columns are those of states, "inputs" for its other ones, and so on.
    parameter: str
    # k for the state, d for the rows, m for inputs.
    axes: str

    @property
    def learnt(self):
        """The parameter of the regression that is learnt."""
        return "matrix" if self.parameter == "inputs" else self.parameter

    def place(self, n_states):
        """Return where it stands in that."""
        if self.axes in ("kk", "dk") and self.parameter == "matrix":
            return ..., slice(n_states)
        return (..., slice(n_states, None)) if self.parameter == "inputs" else ...


FIELDS = {
    "initial_state_mean": Field("initial", "offset", "k"),
    "initial_state_covariance": Field("initial", "covariance", "kk"),
    "transition_matrices": Field("transitions", "matrix", "kk"),
    "transition_offsets": Field("transitions", "offset", "k"),
    "transition_covariance": Field("transitions", "covariance", "kk"),
    "observation_matrices": Field("emissions", "matrix", "dk"),
    "observation_offsets": Field("emissions", "offset", "d"),
    "observation_covariance": Field("emissions", "covariance", "dd"),
}
# Those of systems with inputs.
FIELDS_WITH_INPUTS = {
    **FIELDS,
    "transition_input_weights": Field("transitions", "inputs", "km"),
    "observation_input_weights": Field("emissions", "inputs", "dm"),
}
# Arrays that may vary in time, each with a letter of its own for the axis of time.
VARYING = {name: letter for name, letter in zip(
    ("transition_matrices", "transition_offsets", "observation_matrices", "observation_offsets"),
    "tuvw", strict=True,
)}  # fmt: skip


def checked_array(name, values, shape, label=None):
    """Return an array with a name of pykalman, or raise a ValueError that has its label."""
    label = label or name
    values = np.asarray(values, dtype=np.float64)
    if values.ndim < len(shape):  # pykalman accepts numbers for vectors and matrices of one
        values = np.array(values, ndmin=len(shape))
    if not name.endswith("covariance"):
        return finite_start(label, values, shape)
    if name == "initial_state_covariance" and values.ndim == 2:
        rest, is_infinite = split_infinite(values)
        if is_infinite is not None:
            if rest[is_infinite].any() or rest[:, is_infinite].any():
                raise ValueError(f"{label} must be 0 beside variances that are infinite.")
            found = checked_array(name, rest, shape, label)
            return found + np.diag(np.where(is_infinite, np.inf, 0.0))
    values = finite_start(label, values, shape, LARGEST_SQUARE)
    scale = np.abs(values).max(initial=0.0)
    is_definite = lapack.dpotrf(values)[1] == 0
    if not is_definite and name != "observation_covariance":
        # Parts of a state may have no noise; rows must have some.
        is_definite = np.linalg.eigvalsh(values / (scale or 1.0))[0] >= -1e-9
    if not is_definite or np.abs(values - values.T).max() > 1e-8 * scale:
        raise ValueError(f"{label} must be symmetric and positive definite.")
    return values


def split_infinite(covariance):
    """Return a covariance with 0 for infinite variances, and which these are, or None."""
    is_infinite = covariance.diagonal() == np.inf
    if not is_infinite.any():
        return covariance, None
    rest = covariance.copy()
    rest[is_infinite, is_infinite] = 0.0
    return rest, is_infinite


def _part(name, field):
    fixed = attrgetter(f"{field.part}.{field.learnt}")
    is_start = name == "initial_state_covariance"

    def get(model):
        if (varying := getattr(model.varying, name, None)) is not None:
            return varying
        values = fixed(model)[field.place(model.n_components)]
        if is_start and model.diffuse is not None:
            values = np.where(np.diag(model.diffuse), np.inf, values)
        return values

    def put(model, values):
        values = checked_array(name, values, values.shape, f"{name}_")
        regression, varying, changed = getattr(model, field.part), model.varying, {}
        if is_start:
            values, changed["diffuse"] = split_infinite(values)
        is_varying = values.ndim > len(field.axes)
        if name in VARYING:
            given = {**(varying.given if varying else {}), name: values if is_varying else None}
            varying = Varying(**given)
        if is_varying:
            values = np.zeros_like(values[0])
        array = fixed(model).copy()
        array[field.place(model.n_components)] = values
        parameters = replace(regression.parameters, **{field.learnt: array[None]})
        changed[field.part] = replace(regression, parameters=parameters)
        return replace(model, **changed, varying=varying if varying and varying.given else None)

    def axes(values):
        # Only these have several forms.
        return VARYING.get(name, "") * (values.ndim > len(field.axes)) + field.axes

    kind = "covariance" if field.parameter == "covariance" else "real"
    return Part(name, kind, axes if name in VARYING else field.axes, get, put)


# The other way round.
NAMES = {(field.part, field.parameter): name for name, field in FIELDS.items()}


def relocated(model, data, means, covariances):
    """Return a linear dynamical system at the level of a piece of a stream, and rows to learn.

    These are the rows from the jump on, as those before are of another level. Too few of them are
    left out, and the others are learnt at the old level: the next piece will tell. Without the jump
    a step would take it for a state with a unit root, or for noise. None: there is no new level.

    The data have a row that is farther off than the square of a new level; `means` (1, k) and
    `covariances` (1, k, k) are the moments of the states of its rows under the model.
    """
    expected, covariance = model.emissions.predicted(means, covariances)
    try:
        whitening = np.linalg.inv(np.linalg.cholesky(covariance[0]))
    except np.linalg.LinAlgError:  # by rounding, where noise is nothing beside that of states
        return None
    deviations = data.X - expected
    # Surprises beyond what the covariance explains. Those of rows that follow a jump may be larger,
    # as the state is wrong by then.
    log_likelihoods = model.row_log_likelihoods(data)
    usual = np.log(np.diag(whitening)).sum() - 0.5 * len(whitening) * (LOG_2_PI + 1.0)
    surprises = usual - log_likelihoods
    if not surprises.max() > _LEAST_GAIN:
        return None
    jump = int(np.argmax(surprises > _SHARE * surprises.max()))
    before, after = _cut(model, data, jump)
    if after.n_rows < model.fewest_rows:
        return model, before
    # An outlier moves means, but not medians; means are what states can explain in part.
    columns = [column[~np.isnan(column)] for column in deviations[jump:].T]
    medians = np.array([np.median(column) if len(column) else 0.0 for column in columns])
    if not ((whitening @ medians) ** 2).sum() > LEAST_SQUARE:
        return None
    shift = np.array([column.mean() if len(column) else 0.0 for column in columns])
    parameters = model.emissions.parameters
    parameters = replace(parameters, offset=parameters.offset + shift)
    located = replace(model, emissions=replace(model.emissions, parameters=parameters))
    # The state before may be of rows of the new level that the piece before ended with.
    candidates = [after, after.continued(None)]
    scores = [located.log_likelihood(candidate).sum() for candidate in candidates]
    gain = max(scores) - log_likelihoods[jump:].sum()
    return (located, candidates[int(np.argmax(scores))]) if gain > _LEAST_GAIN else None


def _cut(model, data, n_rows):
    """Return the first rows, and the others, which continue them within a sequence."""
    if n_rows == 0:
        return None, data
    number = int(np.searchsorted(data.offsets, n_rows, side="right")) - 1
    begins = data.offsets[data.offsets < n_rows]
    first = Sequences.unchecked(data.rows[:n_rows], np.append(begins, n_rows), data.before)
    state = model.filtered_end(first) if data.offsets[number] < n_rows else None
    ends = data.offsets[number + 1 :] - n_rows
    return first, Sequences.unchecked(data.rows[n_rows:], np.append(0, ends), state)


_OUT_OF_SCALE = "its scales and that of the data are too far apart. Rescale what was given."
# Rows, times the squared width of states, up to which tables of gains take longer than without.
_MOST_UNSHARED = 8000
# Log-likelihoods down to which the filter is far from overflow.
_LEAST_TRUSTED = -1e100


# Smaller relative changes are rounding errors.
_NONE = 1e-9
# Times that tell which changes of coordinates arrays that vary in time allow.
_MOST_TIMES = 50
_TINY = np.finfo(float).tiny


def unseen_changes(model, sizes, told=(), counts=False):
    """Return how many changes of the states' coordinates keep all known parameters, and not others.

    `sizes` are the scales of the states; `told` are the learnt parameters, as (part, parameter), on
    which a prior has information. Also returned are the learnt parameters that the changes move,
    unless only the number `counts`.
    """
    if _is_pinned(model):
        return 0, []
    if model.transitions.fixed is not None:
        # Variables that are tied have one unit.
        joined = model.transitions.fixed.joined | np.eye(len(sizes), dtype=bool)
        sizes = joined @ sizes / joined.sum(axis=1)
    # In units in which states are of size 1.
    k, shrink, stretch = model.n_components, np.diag(1.0 / sizes), np.diag(sizes)
    counts &= model.varying is None and np.linalg.matrix_rank(model._observability) == k
    model = model._in_coordinates(
        shrink,
        stretch,
        None if model.varying is None else model.varying.in_units(sizes, _MOST_TIMES),
        model.diffuse,
    )
    units, known, moves = np.eye(k * k + k), [], {}
    E, s = np.split(units, [k * k], axis=1)
    for (part, what), change in _changes(model, E.reshape(-1, k, k), s):
        regression = getattr(model, part)
        if what not in regression.learnt or (part, what) in told:
            known.append(change)
            continue
        # What is learnt is one for all times.
        known.append(change[:, 1:] - change[:, :1])
        change, fixed = change[:, 0], regression.fixed
        if what == "covariance":
            # Zeros off a learnt diagonal are known.
            known += [change - np.array([*map(regression.family.shape.nearest, change)])]
        if fixed is not None:
            mask = fixed.of(what, regression.covariance)
            known += [change[:, mask], np.array([fixed.untied(what, own) for own in change])]
            change = np.where(mask, 0.0, change)
        moves[part, what] = change
    known = [change.reshape(len(units), -1) for change in known]
    known = [units[:, :1] * 0.0, *(change[:, change.any(axis=0)] for change in known)]
    known = np.hstack(known)
    if counts:
        # Some parameter tells each change of states that can be observed.
        values = np.linalg.svd(known, compute_uv=False)
        return len(units) - (values > _NONE * values[0]).sum(), []
    free = null_space(known.T, rcond=_NONE)
    moves = {name: change.reshape(len(units), -1).T @ free for name, change in moves.items()}
    moved = [name for name, move in moves.items() if np.abs(move).max(initial=0) > _NONE]
    if not moved:
        return 0, moved
    # Changes of states that nothing depends on move nothing.
    return np.linalg.matrix_rank(np.concatenate([*moves.values()]), tol=_NONE), moved


def _is_pinned(model):
    """Return whether known and observable matrices and offsets allow no other coordinates."""
    moves = model.transitions, model.emissions
    is_known = not any({"matrix", "offset"} & {*part.learnt} for part in moves)
    is_known = is_known and model.varying is None
    return is_known and np.linalg.matrix_rank(model._observability) == model.n_components


def _changes(model, E, s):
    """Yield changes of parameters, by part and parameter, where states become h + E h + s.

    Of n changes, (n, k, k) and (n, k), they are (n, T, ..): of T times where arrays vary, or one.
    """
    (n, k), m, d = s.shape, model.n_inputs, model.n_features
    given = {} if model.varying is None else model.varying.given
    none, rows = ((np.zeros((n, 1, p, p)), np.zeros((n, 1, p, 1))) for p in (0, d))
    # Inputs do not change.
    E, s = np.pad(E, ((0, 0), (0, m), (0, m)))[:, None], np.pad(s, ((0, 0), (0, m)))
    inputs = E, s[:, None, :, None]
    states = E[..., :k, :k], inputs[1][:, :, :k]
    ends = {"initial": (none, states), "transitions": (inputs, states), "emissions": (inputs, rows)}
    for part, ((E_x, s_x), (E_y, s_y)) in ends.items():
        B, c, S = getattr(model, part).parameters._arrays
        if (matrices := given.get(NAMES.get((part, "matrix")))) is not None:
            B = B + np.pad(matrices, ((0, 0), (0, 0), (0, m)))
        c = given.get(NAMES[part, "offset"], c)[:, :, None]
        # Rows and inputs may be in units of any size.
        if part == "emissions":
            units = np.linalg.norm(B[:, :, :k], axis=2).max(axis=0)[:, None]
        else:
            units = np.append(np.ones(k), np.linalg.norm(B[0, :, k:], axis=0))[: B.shape[2]]
        B = B / np.maximum(units, _TINY)
        offsets, half = (E_y @ c + s_y - B @ s_x)[..., 0], E_y @ S
        covariances = (half + half.mT) / S[0].diagonal().max(initial=_TINY)
        if part == "initial" and model.diffuse is not None:
            # Of these nothing is known.
            offsets[..., model.diffuse] = 0.0
            covariances[..., model.diffuse | model.diffuse[:, None]] = 0.0
        yield (part, "matrix"), E_y @ B - B @ E_x
        yield (part, "offset"), offsets
        yield (part, "covariance"), covariances


def _node(name):
    def directions(model, statistics):
        return coordinates_of_regression(name, getattr(model, name), statistics)

    return Node(name, name, attrgetter(name), directions)


def _largest_noise(model):
    """Return the largest variances of noise of states and columns with which each one is joined."""
    k, parts = model.n_components, (model.transitions, model.emissions)
    labels = _joined(k, *((part.matrix[:, :k] != 0.0).tobytes() for part in parts))
    largest = np.zeros(len(labels))
    np.maximum.at(largest, labels, np.concatenate([part.covariance.diagonal() for part in parts]))
    largest = largest[labels]
    return largest[:k], largest[k:]


@lru_cache(maxsize=8)
def _joined(k, *uses):
    """Return numbers of the groups in which states and columns use each other."""
    uses = np.frombuffer(b"".join(uses), dtype=bool).reshape(-1, k)
    return connected_components(np.pad(uses, ((0, 0), (0, len(uses) - k))))[1]


class SystemCoordinates(Coordinates):
    """Coordinates of linear dynamical systems: a single row, of the learnt parameters."""

    what = "system"
    remedy = "with fewer em_vars"
    # Parts have very different rates, and early gains tell the fast ones.
    gains_tell = False

    def _made(self):
        model, made = self.model, []
        self._climbed_rows = _diffuse.climbed_rows(model, self._data)
        # Other coordinates of small variances have scores of few digits.
        is_apart = model.diffuse is not None or self._climbed_rows is not None
        largest = _largest_noise(model) if is_apart else None
        for node in (node for node in model.nodes if getattr(model, node.field).learnt):
            regression, statistics = getattr(model, node.field), node.own(self._statistics)
            is_known = "matrix" not in regression.learnt
            is_known |= node.field == "transitions" and not model.n_inputs
            groups = independent_variances(regression) if largest and is_known else None
            if groups is None:
                own = node.directions(model, statistics)
            else:
                of_all = largest[node.field == "emissions"]
                own = VarianceCoordinates(node.name, regression, statistics, groups, of_all)
            made += [(node, own)] if own.parts else []
        if not made:
            raise ValueError("There are no standard errors of a system of which nothing is learnt.")
        return made

    @property
    def are_determined(self):
        # States have units of their own, if these are not known.
        learns_matrix = any("matrix" in own.parts for own in self.directions.values())
        return self.deviations is not None or not learns_matrix

    def check_determined(self, n_observations, prior):
        """Refuse undetermined parameters, and first states of too few sequences."""
        degrees = n_observations * float(self._statistics.initial.degrees[0])
        if "covariance" in self.model.initial.learnt and degrees <= self.model.n_components:
            raise ValueError(
                "initial_state_covariance_ is not determined: it requires more sequences than"
                f" states have dimensions, got {n_observations:g} and {self.model.n_components}."
                " Leave it out of em_vars, or give it a prior."
            )
        told = set() if prior is None else set(self._told_by(prior))
        n_changes, moved = unseen_changes(self.model, self._sizes, told)
        if n_changes:
            names = ", ".join(f"{NAMES[place]}_" for place in moved)
            raise ValueError(
                f"The data do not determine {names}: changes of the coordinates of the states, in"
                f" a space of {n_changes} dimensions, change these but not the likelihood. Leave"
                " some of them out of em_vars."
            )

    def _told_by(self, prior):
        """Yield the parameters on which a prior has information, by part and name."""
        for part, _, own, _ in self.model.nodes:
            moments, n_inputs = own(prior), getattr(self.model, part).matrix.shape[1]
            if moments.scatter[0, :n_inputs, :n_inputs].any():
                yield part, "matrix"
            if moments.weight[0] > 0.0:
                yield part, "offset"
            if moments.degrees[0] > 0.0:
                yield part, "covariance"

    @property
    def _sizes(self):
        k, moments = self.model.n_components, self._statistics.emissions
        squares = np.diag(moments.scatter[0])[:k] / max(float(moments.weight[0]), _TINY)
        squares = squares + moments.mean[0, :k] ** 2
        return np.sqrt(np.where(squares > 0.0, squares, 1.0))

    @cached_property
    def deviations(self):
        made = self.directions.values()
        if not all(isinstance(own, VarianceCoordinates) for own in made):
            return None
        parts = ((own.units, own.rounding, own.added) for own in made)
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    @property
    def scale(self):
        # All are learnt, and of unit information.
        return np.ones(self.shape)

    @cached_property
    def _order(self):
        """Where variances, and after them coefficients, are in a vector."""
        is_variance = self.deviations[0] > 0.0
        return np.append(np.flatnonzero(is_variance), np.flatnonzero(~is_variance))

    @property
    def _variances(self):
        return np.concatenate([own.variances for own in self.directions.values()])

    def climbed(self, most=100):
        if self.deviations is None or self._climbed_rows is None:
            return None
        k, n_groups, variances = self.model.n_components, 0, self._variances
        places = np.full(k + self.model.n_features, -1)
        directions, root = np.zeros((0, k, k)), np.zeros((0, 0))
        for name, own in self.directions.items():
            at, own_places = own.groups.outputs, own.groups.places
            places[at + k * (name == "emissions")] = own_places[at] + n_groups
            n_groups += own.n
            if "matrix" in own.parts:
                directions, root = own.directions, own.root
        units, _, added = (array[self._order] for array in self.deviations)
        total, units = self._data.total_weight, units[:n_groups]
        learnt = total / (2.0 * units**2), added[:n_groups] * variances, directions
        learnt = *learnt, np.ascontiguousarray(root.T @ root) / total
        values = np.append(np.sqrt(variances), np.zeros(len(root)))
        derivatives, (task, noise) = (
            np.empty((len(values),) * 2),
            _diffuse.task_of_noise(self.model),
        )
        of_all = *task, noise, places, learnt, values, derivatives, most
        n_read, promised = _disturbances.likeliest_noise(self._climbed_rows, *of_all)
        logs, v = np.log(values[:n_groups] ** 2 / variances), np.zeros(self.shape)
        changes = np.linalg.solve(root.T, values[n_groups:])
        v[0, self._order] = np.append(0.5 * logs / units, changes)
        return self.moved(v), n_read, promised, derivatives / total

    def information(self, derivatives, score):
        """Return the observed information of standard deviations, and coefficients.

        `derivatives` are those of a climb, and `score` is the present one.
        """
        (units, _, added), back = self.deviations, np.argsort(self._order)
        moves, halves = np.diag(2.0 * units), np.where(units > 0.0, 0.5, 1.0)
        halves[units > 0.0] *= self._variances
        for _, own, place in self._places:
            if own.root.size:
                matrix = within(place, own.parts["matrix"])
                moves[matrix, matrix] = own.root.T
        H = -moves.T @ (halves[:, None] * derivatives[back[:, None], back]) @ moves
        return 0.5 * (H + H.T) + np.diag(2.0 * added - units * score)

    def raised(self, after, rise):
        return self._with([(node, own.raised(own, rise)) for node, own, _ in self._places])

    def _said(self, node, name):
        return NAMES[node.field, name].replace("_", " ")


@quick
@dataclass(frozen=True, eq=False)
class LinearDynamicalModel(RowLikelihoods, Model[Sequences, LinearDynamicalStatistics], Levels):
    r"""A state that moves linearly and is observed through a linear map, both with Gaussian noise.

    .. math::
        h_1 &\sim N(m_1, V_1) \\
        h_t &= A h_{t-1} + b + N(0, Q) \\
        v_t &= C h_t + d + N(0, R)

    A missing value is NaN; any of a row may be missing. Data are one sequence after the other.

    Parameters
    ----------
    initial : Regression
        Of the first state on nothing: its matrix is of shape (k, 0), its offset is
        :math:`m_1`, and its covariance :math:`V_1`.
    transitions : Regression
        Of a state on the state before: A, b and Q. If the offset d is learnt, b should not be, as
        both have the same effect.
    emissions : Regression
        Of a row on its state: C, d and R, which must be positive definite; the other covariances
        may be singular. ValueError if parts do not fit each other, or are not finite.
    varying : Varying, default=None
        Matrices and offsets that are known for each row of a sequence; those of the regressions are
        0 then, and not learnt. None: all rows share all.
    diffuse : ndarray of bool of shape (k,), default=None
        Variables of the first state without a prior: likelihoods and moments are the limits as
        their variances grow, which are 0 in `initial`. Divergences are those of sequences that
        begin at their means. None: there are none.
    seen : tuple of two Moments, default=None
        With inputs: of the states and inputs that transitions and emissions have had, of weight 1.
        None: the model has seen none; `seeing` returns one that has.

    Notes
    -----
    Transitions and emissions may be regressions on states and m inputs, [A B] and [C D]:

    .. math::
        h_t &= A h_{t-1} + B u_{t-1} + b + N(0, Q) \\
        v_t &= C h_t + D u_t + d + N(0, R)

    Then data are `SequencesWithInputs`, whose rows have 2 m of them: those of the row before, and
    their own. Inputs have no model, so that own statistics and divergences are expectations over
    the states and inputs seen so far, whose moments the model carries.

    An E-step that draws uses antithetic pairs of states, as far above their smoothed means as
    below; of successive states, the first is averaged over given the second. Regressions on plain
    draws fit their noise, so that variances shrink with each pass.

    References
    ----------
    Amid & Warmuth, UAI 2020, section 4.3, with sums over t = 1..T-1 of transitions and t = 1..T of
    emissions, each averaged over sequences; Durbin & Koopman, "A simple and efficient simulation
    smoother for state space time series analysis", Biometrika 2002 (antithetic draws); Casella &
    Robert, "Rao-Blackwellisation of sampling schemes", Biometrika 1996.

    Examples
    --------
    A random walk that is observed with noise; the second of three rows is missing.

    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.data.sequences import Sequences
    >>> from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
    >>> from sklearn_onlineem.models.kalman.linear_dynamical import LinearDynamicalModel
    >>> from sklearn_onlineem.models.kalman.regression import Regression
    >>> first = AffineGaussian.single(np.empty((1, 0)), [0.0], [[1.0]])
    >>> step = Regression(LinearGaussian(), AffineGaussian.single([[1.0]], [0.0], [[1.0]]))
    >>> walk = LinearDynamicalModel(Regression(LinearGaussian(), first), step, step)
    >>> data = Sequences(Rows(np.array([[1.0], [np.nan], [2.0]])), np.array([0, 3]))
    >>> walk.filtered(data)[0].ravel().round(3)
    array([0.5  , 0.5  , 1.571])
    """

    coordinates = SystemCoordinates
    nodes = tuple(map(_node, ("initial", "transitions", "emissions")))

    initial: Regression
    transitions: Regression
    emissions: Regression
    varying: Varying | None = None
    diffuse: NDArray[np.bool_] | None = None
    seen: tuple[Moments, Moments] | None = None

    has_components = False
    is_chained = True

    own_parts = tuple(_part(name, field) for name, field in FIELDS_WITH_INPUTS.items())
    # Known arrays have no standard errors.
    _known_parts = tuple(part._replace(kind=None) for part in own_parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        every = zip(self.own_parts, self._known_parts, FIELDS_WITH_INPUTS.values(), strict=True)
        return tuple(
            part if self._learns(field) else known
            for part, known, field in every
            if self.n_inputs or field.parameter != "inputs"
        )

    def _learns(self, field):
        regression = getattr(self, field.part)
        if field.learnt not in regression.learnt or regression.fixed is None:
            return field.learnt in regression.learnt
        fixed = getattr(regression.fixed, field.learnt)[field.place(self.n_components)]
        return not (self.n_inputs and fixed.size and fixed.all())

    def __post_init__(self):
        k, d, q = self.n_components, self.n_features, self.n_components + max(0, self.n_inputs)
        shapes = [part.parameters.matrix.shape for part in self._regressions]
        if shapes != [(1, k, 0), (1, k, q), (1, d, q)]:
            raise ValueError(
                f"The matrices of the first state on nothing, of transitions of {k} states and of"
                f" emissions of {d} columns cannot be of shapes {shapes}."
            )
        parts = (part.parameters for part in self._regressions)
        arrays = [array for of in parts for array in (of.matrix, of.offset, of.covariance)]
        if not are_finite(*arrays):
            raise ValueError(f"the arrays of the system overflow: {_OUT_OF_SCALE}")
        if lapack.dpotrf(self.emissions.covariance, lower=1)[1]:
            raise ValueError("The covariance of the observations is not positive definite.")

    @property
    def n_components(self) -> int:
        """Dimension of the state."""
        return self.initial.parameters.offset.shape[1]

    @property
    def n_features(self) -> int:
        return self.emissions.parameters.offset.shape[1]

    @cached_property
    def n_inputs(self) -> int:
        """Number of known inputs of each row: m."""
        return self.emissions.parameters.matrix.shape[2] - self.n_components

    @property
    def has_one_system(self) -> bool:
        """Whether all rows share all arrays."""
        return self.varying is None and not self.n_inputs

    @cached_property
    def shared(self) -> dict[str, Floats]:
        """Arrays that rows share, where none vary, by name; without columns of inputs."""
        k, moves, reading = self.n_components, self.transitions, self.emissions
        A, C = moves.matrix[:, :k], reading.matrix[:, :k]
        arrays = np.ascontiguousarray(A), moves.offset, np.ascontiguousarray(C), reading.offset
        return dict(zip(VARYING, arrays, strict=True))

    @property
    def _regressions(self):
        return self.initial, self.transitions, self.emissions

    @property
    def _first(self):
        return self.initial.offset, self.initial.covariance

    # ------------------------------------------------------------------------------------ the EM

    # Results are checked for overflow.
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def e_step(
        self, data: Sequences, rng: Generator | None = None, log_likelihoods: Floats | None = None
    ) -> tuple[LinearDynamicalStatistics, float]:
        if data.rows.sample_weight is not None:
            return by_weight(self.e_step, data, rng, log_likelihoods)
        sums, begin = [], 0
        for part in alike(data):
            end = begin + part.n_rows
            out = None if log_likelihoods is None else log_likelihoods[begin:end]
            sums += (self._sums if self._is_plain(part) else self._varying_sums)(part, rng, out)
            begin = end
        if log_likelihoods is not None and data.observed is not None:
            log_likelihoods[~data.observed] = np.nan
        evidence = combine([(1.0 / len(data), found) for found, _ in sums])
        log_likelihood = float(sum(total for _, total in sums)) / len(data)
        # The filter may overflow where tables of gains do not, by a digit.
        if not (log_likelihood > _LEAST_TRUSTED or are_finite(self._filtered(data)[-1])):
            self._explain_overflow(data)
        # Moments of unstable systems may overflow.
        moments = [array for part in evidence.parts for array in (part.mean, part.scatter)]
        if not (math.isfinite(log_likelihood) and are_finite(*moments)):
            self._explain_overflow(data)
        return evidence, log_likelihood

    def _is_plain(self, data):
        """Return whether nothing is known of rows, and starts are not diffuse."""
        return self.has_one_system and not self._starts_diffuse(data)

    def _sums(self, data, rng, log_likelihoods):
        """Return sums of statistics and log-likelihoods; fill in log-likelihoods of rows."""
        is_long = data.n_rows * self._padded.width**2 > _MOST_UNSHARED
        complete, others = None, data
        if is_long and rng is None and data.before is None:
            complete, others = split_by_gaps(data)
        gains = None if complete is None else self._shared_gains(complete)
        if gains is None:
            piece = prepared(data, self._first)
            of_rows = NOTHING if log_likelihoods is None else np.empty(len(piece.X))
            sums = [self._padded.expected(piece, data.n_threads, rng, of_rows)]
            if log_likelihoods is not None:
                log_likelihoods[:] = of_rows[piece.n_lead :]
            return sums
        of_rows = NOTHING if log_likelihoods is None or others else log_likelihoods
        sums = [gains.expected(complete, of_rows)]
        if others:
            sums.append(self._padded.expected(prepared(others, self._first), data.n_threads))
            if log_likelihoods is not None:
                log_likelihoods[:] = self.row_log_likelihoods(data)
        return sums

    def _varying_sums(self, data, rng, log_likelihoods):
        if rng is not None:
            raise ValueError(
                "states are not drawn where there are inputs, matrices or offsets vary in time, or"
                " starts are diffuse: choose a solver that takes expectations."
            )
        if self._starts_diffuse(data):
            if log_likelihoods is not None:
                log_likelihoods[:] = self.row_log_likelihoods(data)
            return _diffuse.evidence(self, data)
        piece, padded, known = self._prepared(data)
        *moments, _, log_densities = padded.smoothed(piece, data.n_threads)
        if log_likelihoods is not None:
            log_likelihoods[:] = log_densities[piece.n_lead :]
        if not are_finite(*moments):
            self._explain_overflow(data)
        parts = expected_moments(self, piece, known, *moments)
        return [(LinearDynamicalStatistics(*parts), log_densities.sum())]

    def seeing(self, data: Sequences) -> LinearDynamicalModel:
        """Return the model with the moments of the states and inputs of data, if it has inputs.

        Parameters
        ----------
        data : SequencesWithInputs
            At least one row.
        """
        return replace(self, seen=self._seen_in(self.e_step(data)[0])) if self.n_inputs else self

    def _seen_in(self, statistics):
        """Return the moments of states and inputs of which statistics are, else those so far."""
        if not self.n_inputs:
            return None
        n = self.n_components + self.n_inputs
        leaving, emitting = (of_inputs(part, n) for part in statistics.parts[1:])
        if self.seen is not None:
            leaving, emitting = leaving or self.seen[0], emitting or self.seen[1]
        return None if emitting is None else (leaving or emitting, emitting)

    def _shared_gains(self, data):
        """Return the gains of complete sequences if tables of them are large enough, or None."""
        gains = SharedGains(self._padded, self._first, data.lengths.max())
        return gains if gains.suffice else None

    def is_far(self, data: Sequences) -> bool:
        return self._states_if_far(data) is not None

    def relocated(self, data: Sequences) -> tuple[LinearDynamicalModel, Sequences] | None:
        if data.n_rows < self.fewest_rows or (states := self._states_if_far(data)) is None:
            return None
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            covariance = states.scatter / states.weight[:, None, None]
            return relocated(self, data, states.mean, covariance)

    def _states_if_far(self, data):
        """Return moments of states of data if a row is as far off as of a new level, or None."""
        if not self.emissions.learns("offset") or not self.has_one_system:
            return None
        # Not those after the state before, which the last rows of that may have led astray.
        states = self._inputs(data.length_distribution)[2]
        # Missing values are as expected.
        largest = _regressions.largest_square(
            np.ascontiguousarray(data.X, dtype=np.float64), self.emissions.parameters._arrays,
            (states.weight, states.mean, states.scatter),
        )  # fmt: skip
        return states if largest > LEAST_SQUARE else None

    def bounded(self, before: LinearDynamicalModel) -> LinearDynamicalModel:
        if "matrix" not in self.transitions.learnt or self._growth <= before._growth:
            return self
        parameters, old = self.transitions.parameters, before.transitions.parameters.matrix
        fixed = self.transitions.fixed
        if fixed is None:
            matrix = parameters.matrix.copy()
            matrix[:, :, : self.n_components] *= before._growth / self._growth
            return self._with_transitions(matrix)
        # Learnt parameters go a part of the way.
        for share in 0.5 ** np.arange(1, 10):
            found = self._with_transitions(
                np.where(fixed.matrix, old, old + share * (parameters.matrix - old))
            )
            if found._growth <= before._growth:
                return found
        return self._with_transitions(old)

    def _with_transitions(self, matrix):
        parameters = replace(self.transitions.parameters, matrix=matrix)
        return replace(self, transitions=replace(self.transitions, parameters=parameters))

    @cached_property
    def _growth(self):
        """The spectral radius of the transitions, at least 1."""
        A = self.shared["transition_matrices"]
        if _kalman.forgetting_steps(A) > 0:
            return 1.0
        return max(1.0, float(np.abs(np.linalg.eigvals(A)).max()))

    def own_statistics(self, like: Lengths | None = None) -> LinearDynamicalStatistics:
        parts = zip(self._regressions, self._inputs(like), strict=True)
        return LinearDynamicalStatistics(*(part.own_statistics(inputs) for part, inputs in parts))

    def m_step(self, statistics: LinearDynamicalStatistics) -> LinearDynamicalModel:
        initial = statistics.initial
        # Nothing is learnt of first states from pieces of one sequence.
        has_starts = initial.weight[0] != 0.0 or initial.degrees[0] != 0.0
        return LinearDynamicalModel(
            self.initial.m_step(initial) if has_starts else self.initial,
            self.transitions.m_step(statistics.transitions),
            self.emissions.m_step(statistics.emissions),
            self.varying,
            self.diffuse,
            self._seen_in(statistics),
        )

    def mean_form(self, prior: LinearDynamicalStatistics) -> LinearDynamicalStatistics:
        parts = zip(self._regressions, prior.parts, strict=True)
        return LinearDynamicalStatistics(*(part.mean_form(own) for part, own in parts))

    def expected_log_likelihood(self, statistics: LinearDynamicalStatistics) -> float:
        parts = zip(self._regressions, statistics.parts, strict=True)
        return sum(part.expected_log_density(of_part) for part, of_part in parts)

    def n_parameters(self) -> int:
        """Return the number of free learnt parameters, up to changes of the states' coordinates."""
        units = np.ones(self.n_components)
        return self._n_values() - int(unseen_changes(self, units, counts=True)[0])

    def _n_values(self):
        return sum(part.n_parameters() for part in self._regressions)

    def observations_needed(self, data: Sequences) -> float:
        mean_length = data.row_weight / data.total_weight
        return max(1, self._n_values()) / self.n_features / mean_length

    def size_of(self, data: Sequences) -> float:
        return data.row_weight

    def kl_divergence(self, other: LinearDynamicalModel, like: Lengths | None = None) -> float:
        parts = zip(self._regressions, other._regressions, self._inputs(like), strict=True)
        return max(0.0, sum(part.kl_divergence(q, inputs) for part, q, inputs in parts))

    def _inputs(self, like):
        """Return moments of the regressions' inputs per sequence, for each of the three."""
        if like is None:
            raise ValueError(UNKNOWN_LENGTHS)
        if self.n_inputs:
            if self.seen is None:
                raise ValueError("the model has seen no inputs yet.")
            pairs = zip(self.seen, n_inputs_of(like), strict=True)
            return np.array([share_of_starts(like)]), *(part.scale(n) for part, n in pairs)
        if self.varying is not None:
            longest = int(like.steps[0][-1])
            X = np.full((longest, self.n_features), np.nan)
            rows = Sequences.unchecked(Rows.unchecked(X), np.array([0, longest]))
            moments = self._filtered(rows, predicted=True)[:2]
            return np.ones(1), *varying_occupancies(like.steps, *moments)
        growth = 1.0 if like.before is None else self._growth
        moves = self.transitions.parameters._arrays
        return np.array([share_of_starts(like)]), *occupancies(moves, self._first, like, growth)

    def aligned_to(
        self, reference: LinearDynamicalModel, like: Lengths | None = None
    ) -> LinearDynamicalModel:
        # Coordinates are changed by the linear map T that brings the observability matrix, C, C A,
        # C A A, ..., closest to that of the reference, in least squares.
        if self is reference:
            return self
        is_known = self.varying is not None or self.diffuse is not None
        if is_known or any(part.fixed is not None for part in self._regressions):
            raise ValueError(
                "States cannot be aligned: entries of their matrices are known, and so their"
                " coordinates."
            )
        T = np.linalg.lstsq(reference._observability, self._observability, rcond=None)[0]
        if np.linalg.matrix_rank(T) < self.n_components:
            raise ValueError(
                "States cannot be aligned: the emissions do not determine their coordinates."
            )
        return self._in_coordinates(T, np.linalg.inv(T))

    def _in_coordinates(self, T, inverse, varying=None, diffuse=None):
        """Return the model of states T h; what varies is already in these coordinates."""
        kept = np.eye(self.n_inputs)
        inverse, whole = block_diag(inverse, kept), block_diag(T, kept)
        seen = self.seen and tuple(
            Moments(part.weight, part.degrees, part.mean @ whole.T, whole @ part.scatter @ whole.T)
            for part in self.seen
        )
        return LinearDynamicalModel(
            self.initial.in_coordinates(outputs=T),
            self.transitions.in_coordinates(inputs=inverse, outputs=T),
            self.emissions.in_coordinates(inputs=inverse),
            varying,
            diffuse,
            seen,
        )

    @property
    def _observability(self):
        A, _, C, _ = self.shared.values()
        blocks = [C]
        for _ in range(self.n_components - 1):
            blocks.append(blocks[-1] @ A)
        return np.concatenate(blocks)

    # --------------------------------------------------------------------------------- inference

    def log_likelihood(self, data: Sequences) -> Floats:
        return np.add.reduceat(self.row_log_likelihoods(data), data.offsets[:-1])

    def row_log_likelihoods(self, data: Sequences) -> Floats:
        """Return log p(v_t | v_1..t-1), of shape (n_rows,); 0 where nothing is observed.

        Parameters
        ----------
        data : Sequences
            With n_rows in all.
        """
        is_long = data.n_rows * self._padded.width**2 > _MOST_UNSHARED
        is_complete = is_long and data.before is None and data.observed is None
        gains = self._shared_gains(data) if is_complete and self._is_plain(data) else None
        found = np.full(data.n_rows, -np.inf)
        if gains is not None:
            gains.expected(data, found, smooths=False)
        if not found.min() > _LEAST_TRUSTED:
            found = self._filtered(data)[-1]
        if not are_finite(found):
            self._explain_overflow(data)
        return found

    def filtered(self, data: Sequences) -> tuple[Floats, Floats]:
        """Return means (n_rows, k) and covariances (n_rows, k, k) of p(h_t | v_1..t).

        Variances that a diffuse start leaves open are infinite, and their covariances NaN.

        Parameters
        ----------
        data : Sequences
            With n_rows in all.
        """
        moments = self._filtered(data, filtered=True)[2:4]
        _check_finite(moments[: 1 if self._starts_diffuse(data) else 2], data.offsets)
        return moments

    def filtered_end(self, data: Sequences) -> tuple[Floats, Floats]:
        """Return mean and covariance of the last state of all, given the rows so far.

        Parameters
        ----------
        data : Sequences
            At least one row. Moments are not finite if an unstable system has overflown.
        """
        last = data if len(data) == 1 else data[-1:]
        if self._starts_diffuse(last):
            means, covariances = self._filtered(last, filtered=True)[2:4]
            if not are_finite(covariances[-1]):
                _diffuse.refuse_undetermined()
        else:
            piece, padded, _ = self._prepared(last)
            means, covariances = padded.filtered(piece, data.n_threads, filtered=True)[2:4]
        return means[-1].copy(), covariances[-1].copy()

    def predicted(self, data: Sequences) -> tuple[Floats, Floats]:
        """Return means (n_rows, d) and covariances (n_rows, d, d) of p(v_t | v_1..t-1).

        Parameters
        ----------
        data : Sequences
            With n_rows in all.
        """
        moments = self._filtered(data, predicted=True)[:2]
        if self._starts_diffuse(data):
            return _diffuse.predicted(self, data, *moments)
        _check_finite(moments, data.offsets)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = self._of_emissions(data, *moments)
        _check_finite(moments, data.offsets)
        return moments

    def _of_emissions(self, data, means, covariances, rows=slice(None)):
        """Return moments of rows, from those of their states."""
        if self.has_one_system:
            return self.emissions.predicted(means, covariances)
        here = known_of(self, data).of(rows).of_filter(self)
        C, offset = here["observation_matrices"], here["observation_offsets"]
        expected = (C @ means[:, :, None])[:, :, 0] + offset
        return expected, C @ covariances @ C.mT + self.emissions.covariance

    def forecast(
        self, data: Sequences, n_steps: int, future: Floats | None = None
    ) -> NormalForecast:
        """Return means and covariances of the rows that follow each sequence.

        Their shapes are (n_sequences, n_steps, d) and (n_sequences, n_steps, d, d).

        Parameters
        ----------
        data : Sequences
            With n_sequences.
        n_steps : int
            How many rows follow each sequence.
        future : ndarray of shape (n_sequences, n_steps, m), default=None
            Inputs of the rows to come; None: the model has none.
        """
        self._check_room(len(data), n_steps)
        lengths = data.lengths + n_steps
        offsets = np.append(0, np.cumsum(lengths))
        X = np.empty((offsets[-1], self.n_features))
        longer = Sequences.unchecked(Rows.unchecked(X, n_threads=data.n_threads), offsets)
        is_ahead = times_of(longer) >= np.repeat(data.lengths, lengths)
        X[is_ahead], X[~is_ahead] = np.nan, self._outputs(data).X
        if self.n_inputs:
            known = np.empty((len(X), self.n_inputs))
            known[~is_ahead] = data.X[:, self.n_inputs : data.n_inputs]
            known[is_ahead] = future.reshape(-1, self.n_inputs)
            longer = with_inputs_before(X, known, offsets)
        return self._forecast(longer, is_ahead, n_steps * np.arange(len(data) + 1))

    def ahead(
        self,
        state: tuple[Floats, Floats] | None,
        n_steps: int,
        inputs: tuple[Floats, Floats] | None = None,
    ) -> NormalForecast:
        """Return means and covariances of the rows of a sequence after those that led to a state.

        Parameters
        ----------
        state : tuple (ndarray of shape (k,), ndarray of shape (k, k))
            Filtered moments of the last state. None: a new sequence begins; ValueError if its start
            is diffuse.
        n_steps : int
            Rows ahead.
        inputs : tuple (ndarray of shape (m,) or None, ndarray of shape (n_steps, m)), default=None
            Those of the last row, and of the rows to come. None: the model has none.
        """
        self._check_room(1, n_steps)
        X, offsets = np.full((n_steps, self.n_features), np.nan), np.array([0, n_steps])
        data = Sequences.unchecked(Rows.unchecked(X), offsets, state)
        if inputs is not None:
            data = with_inputs_before(X, inputs[1], offsets, inputs[0]).continued(state)
        if self._starts_diffuse(data):
            _diffuse.refuse_undetermined()
        return self._forecast(data, slice(None), offsets)

    def _check_room(self, *shape):
        size = max(self.n_components, self.n_features)
        room("n_steps", (*shape, size, size))

    def _forecast(self, data, rows, offsets):
        """Return the moments of missing rows at the ends of sequences, by where these begin."""
        moments = [part[rows] for part in self._filtered(data, predicted=True)[:2]]
        if self._starts_diffuse(data) and not are_finite(moments[1]):
            _diffuse.refuse_undetermined()
        _check_finite(moments, offsets, " of the forecast")
        with np.errstate(over="ignore", invalid="ignore"):
            moments = self._of_emissions(data, *moments, rows)
        _check_finite(moments, offsets, " of the forecast")
        return NormalForecast(*(m.reshape(len(offsets) - 1, -1, *m.shape[1:]) for m in moments))

    def smoothed(self, data: Sequences) -> tuple[Floats, Floats, Floats]:
        """Return means (n_rows, k), covariances and lag-one covariances (n_rows, k, k) given v.

        Parameters
        ----------
        data : Sequences
            With n_rows in all. The lag-one covariance of the first row of a sequence is 0.
        """
        return self._smoothed(data)[:3]

    def imputed(self, data: Sequences) -> Floats:
        """Return the rows (n_rows, d), with missing values replaced by their expectation given all.

        Parameters
        ----------
        data : Sequences
            With n_rows in all.
        """
        return self._smoothed(data)[3]

    def _filtered(self, data, **wanted):
        return self._inferred(data, "filtered", wanted)

    def _smoothed(self, data):
        found = self._inferred(data, "smoothed", {})
        if not are_finite(*found):
            self._explain_overflow(data)
        return found

    def _explain_overflow(self, data):
        """Raise ValueError with the row where moments overflow, or with another cause."""
        *moments, log_densities = self._filtered(data, predicted=True, filtered=True)
        _check_finite(moments, data.offsets)
        if not np.isfinite(log_densities).all():
            raise ValueError(f"rows have no density under the system: {_OUT_OF_SCALE}")
        raise _overflow("a row that the smoother goes back from")

    def is_determined(self, data: Sequences) -> bool:
        """Return whether all sequences determine their first states, as far as these are diffuse.

        Parameters
        ----------
        data : Sequences
            Of values, with NaN where they are missing.
        """
        openings = _diffuse.openings(self, data) if self._starts_diffuse(data) else ()
        return all(opening.is_determined for opening in openings)

    def _starts_diffuse(self, data):
        """Return whether a sequence does not continue another, and its start is diffuse."""
        return self.diffuse is not None and (data.before is None or len(data) > 1)

    def _inferred(self, data, name, wanted):
        """Return what `Padded.filtered` or `Padded.smoothed` does; `wanted` are its arguments."""
        parts = alike(data)
        if len(parts) > 1:
            found = (self._inferred(part, name, wanted) for part in parts)
            return tuple(map(np.concatenate, zip(*found, strict=True)))
        if self._starts_diffuse(data):
            return _diffuse.inferred(self, data, name, wanted)
        piece, padded, _ = self._prepared(data)
        arrays = getattr(padded, name)(piece, data.n_threads, **wanted)
        return tuple(array[piece.n_lead :] for array in arrays)

    @cached_property
    def _padded(self):
        return Padded(self)

    def _with_arrays(self, arrays):
        return self._padded if self.has_one_system else Padded(self, arrays)

    def _outputs(self, data):
        return data.outputs if self.n_inputs else data

    def _prepared(self, data):
        """Return sequences with the arrays of the system, and what is known of their rows."""
        piece = prepared(self._outputs(data), self._first)
        if self.has_one_system:
            return piece, self._padded, None
        # The last row, whose transition leads to the first one, stands for the state before.
        known = known_of(self, data).of(np.arange(-piece.n_lead, data.n_rows))
        return piece, self._with_arrays(known.of_filter(self)), known

    def sample(
        self, n: int, rng: Generator, like: Lengths | None = None
    ) -> tuple[Sequences, Floats]:
        if like is None:
            raise ValueError(NEEDS_LENGTHS)
        if self.n_inputs and not isinstance(like, SequencesWithInputs):
            raise ValueError("Inputs are not modelled: pass sequences that have them.")
        if self.n_inputs:
            shares = None if like.sample_weight is None else like.sample_weight / like.total_weight
            chosen = np.arange(n) if n == len(like) else rng.choice(len(like), n, p=shares)
            like = like.continued(None)[chosen]
            lengths = like.lengths
        else:
            lengths = like.draw_lengths(n, rng)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        states = np.empty((offsets[-1], self.n_components))
        now = self.initial.sample(np.empty((n, 0)), rng)
        blank = Rows.unchecked(np.empty((offsets[-1], self.n_features)))
        rows = like if self.n_inputs else Sequences.unchecked(blank, offsets)
        here = known_of(self, rows).of_filter(self)
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(lengths.max(initial=0)):
                alive = lengths > t
                places = offsets[:-1][alive] + t
                if t:
                    now[alive] = _sampled(
                        self.transitions, "transition", here, places - 1, now[alive], rng
                    )
                states[places] = now[alive]
            X = _sampled(self.emissions, "observation", here, slice(None), states, rng)
        if self.n_inputs:
            X = np.hstack([like.X[:, : like.n_inputs], X])
            data = like.with_rows(Rows(X), offsets)
        else:
            data = Sequences(Rows(X), offsets)
        _check_finite((states, X), offsets)
        return data, states


def _sampled(regression, name, arrays, rows, states, rng):
    """Draw what transitions or emissions of some rows make of their states."""
    B, c = (at(arrays, f"{name}_{what}", rows) for what in ("matrices", "offsets"))
    root = regression.parameters.roots[0]
    expected = (B @ states[:, :, None])[:, :, 0] + c
    return expected + rng.standard_normal(expected.shape) @ root.T


def _check_finite(moments, offsets, of=""):
    """Raise ValueError with the first row whose moments are not finite, if there is one."""
    wrong = [array for array in moments if not are_finite(array)]
    if not wrong:
        return
    finite = [np.isfinite(array).reshape(len(array), -1).all(axis=1) for array in wrong]
    row = int(np.argmin(np.logical_and.reduce(finite)))
    sequence = int(np.searchsorted(offsets, row, side="right")) - 1
    whose = f" of sequence {sequence}" if len(offsets) > 2 else ""
    raise _overflow(f"step {row - offsets[sequence] + 1}{of}{whose}")


def _overflow(since):
    return ValueError(
        f"the moments of the state overflow from {since} on. The system is unstable, as an"
        " eigenvalue of its transition matrix is beyond 1: observe it more often, pass shorter"
        " sequences, or give other transition_matrices."
    )

"""Unconstrained coordinates of models, and a minimiser that moves in them."""

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from cases.dynamical import PARAMETERS, changed, value
from cases.family_cases import regression_codes
from sklearn_onlineem.families import Full
from sklearn_onlineem.models.hidden_markov.durations import CategoricalDurations, PoissonDurations
from sklearn_onlineem.models.kalman.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.mixtures.mixture import MixtureModel
from sklearn_onlineem.models.strings.transducer import EditTransducer


def coordinates(case, model):
    """Return the coordinates of models like a given one of a case."""
    if isinstance(model, LinearDynamicalModel):
        return DynamicalCoordinates(model)
    if isinstance(model, EditTransducer):
        return TransducerCoordinates(model)
    return ComponentCoordinates(case, model)


class ComponentCoordinates:
    """Of mixtures and chains."""

    def __init__(self, case, model):
        self.case, self.model = case, model
        self.durations = getattr(model, "durations", None)
        # One probability of each row is what the others leave.
        self.free = [np.flatnonzero(row > 0.0)[:-1] for row in self._rows(model)]

    def _rows(self, model):
        if isinstance(model, MixtureModel):
            return [model.weights]
        rows = [model.start, *model.transmat]
        return [*rows, *model.table] if isinstance(self.durations, CategoricalDurations) else rows

    def encode(self, model):
        odds = [
            np.log(row[free] / row[row > 0.0][-1])
            for row, free in zip(self._rows(model), self.free, strict=True)
        ]
        tilts = [] if self._has_all_rows else [tilts_of(model).ravel()]
        return np.concatenate([*odds, *tilts, self.case.case.encode(model.parameters)])

    @property
    def _has_all_rows(self):
        return isinstance(self.durations, CategoricalDurations | None)

    def decode(self, vector):
        rows = []
        for like, free in zip(self._rows(self.model), self.free, strict=True):
            row, odds, vector = np.zeros_like(like), vector[: len(free)], vector[len(free) :]
            row[like > 0.0] = softmax(np.append(odds, 0.0))
            rows.append(row)
        lasting = {}
        if not self._has_all_rows:
            n = tilts_of(self.model).size
            tilts, vector = vector[:n].reshape(len(self.model.start), -1), vector[n:]
            lasting = {"table": tilted(tilts, self.model.table.shape[1])}
        family, like = self.model.family, self.model.parameters
        parameters = self.case.case.decode(vector, like)
        if isinstance(self.model, MixtureModel):
            return MixtureModel(family, rows[0], parameters)
        n = 1 + len(self.model.transmat)
        if rows[n:]:
            lasting = {"table": np.array(rows[n:])}
        chain = {"start": rows[0], "transmat": np.array(rows[1:n]), **lasting}
        return replace(self.model, parameters=parameters, **chain)

    def identified(self, model):
        """What the distribution depends on."""
        rows = [*self._rows(model), *getattr(model, "table", ())]
        return np.concatenate(rows), self.case.case.identified(model.parameters)


def tilts_of(model):
    """Logarithms of a tilt, and of a shape of negative binomial durations, of each state."""
    table, s = model.table, np.arange(1.0, model.table.shape[1])
    ratios = s * table[:, 1:] / table[:, :-1]
    if isinstance(model.durations, PoissonDurations):
        return np.log(ratios[:, :1])
    tilts = ratios[:, 1:2] - ratios[:, :1]
    return np.log(np.hstack([tilts, ratios[:, :1] / tilts]))


def tilted(tilts, n_durations):
    i = np.arange(n_durations - 1.0)
    steps = tilts[:, :1] - np.log(1.0 + i)
    if tilts.shape[1] > 1:
        steps = steps + np.log(np.exp(tilts[:, 1:]) + i)
    return softmax(np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1), axis=1)


class TransducerCoordinates:
    """Log-odds of the operations against the end."""

    def __init__(self, model):
        self.operations = model.operations

    def encode(self, model):
        return np.log(model.probabilities[:-1] / model.probabilities[-1])

    def decode(self, vector):
        return EditTransducer(self.operations, softmax(np.append(vector, 0.0)))

    def identified(self, model):
        return model


class DynamicalCoordinates:
    """Linear maps and offsets as they are, covariances by the logarithms of their roots.

    Parameters
    ----------
    model : LinearDynamicalModel
    names : sequence of str, default=PARAMETERS
        Those that move; the others stay as the model has them.
    """

    def __init__(self, model, names=PARAMETERS):
        self.model, self.names = model, names
        shapes = {
            "initial__covariance": Full(),
            "transitions__covariance": model.transitions.family.shape,
            "emissions__covariance": model.emissions.family.shape,
        }
        self.covariances = {name: regression_codes(shape) for name, shape in shapes.items()}

    def encode(self, model):
        parts = []
        for name in self.names:
            encode, _ = self.covariances.get(name, (np.ravel, None))
            parts.append(encode(value(model, name)[None]))
        return np.concatenate(parts)

    def decode(self, vector):
        values = {}
        for name in self.names:
            like = value(self.model, name)
            encode, decode = self.covariances.get(name, (np.ravel, np.reshape))
            n = len(encode(like[None]))
            values[name], vector = decode(vector[:n], (1, *like.shape))[0], vector[n:]
        return changed(self.model, **values)

    def identified(self, model):
        return tuple(value(model, name) for name in PARAMETERS)


def minimiser(objective, start):
    """Minimise a smooth function, to where central differences can hardly tell any more."""
    found = minimize(objective, start, jac="2-point", options={"gtol": 1e-5})
    for _ in range(3):
        options = {"gtol": 1e-8, "hess_inv0": 0.5 * (found.hess_inv + found.hess_inv.T)}
        found = minimize(objective, found.x, jac="3-point", options=options)
        if found.success or found.nit == 0:
            break
    return found.x

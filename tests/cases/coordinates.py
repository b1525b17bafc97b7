"""Unconstrained coordinates of models, in which a numerical minimiser can move."""

from dataclasses import replace

import numpy as np
from scipy.special import softmax

from cases.dynamical import PARAMETERS, changed, value
from cases.family_cases import regression_codes
from sklearn_onlineem.families import Full
from sklearn_onlineem.models.edit_transducer import EditTransducer
from sklearn_onlineem.models.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.mixture import MixtureModel


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
        # One probability of each row is what the others leave.
        self.free = [np.flatnonzero(row > 0.0)[:-1] for row in self._rows(model)]

    def _rows(self, model):
        if isinstance(model, MixtureModel):
            return [model.weights]
        return [model.start, *model.transmat, *getattr(model, "table", ())]

    def encode(self, model):
        odds = [
            np.log(row[free] / row[row > 0.0][-1])
            for row, free in zip(self._rows(model), self.free, strict=True)
        ]
        return np.concatenate([*odds, self.case.case.encode(model.parameters)])

    def decode(self, vector):
        rows = []
        for like, free in zip(self._rows(self.model), self.free, strict=True):
            row, odds, vector = np.zeros_like(like), vector[: len(free)], vector[len(free) :]
            row[like > 0.0] = softmax(np.append(odds, 0.0))
            rows.append(row)
        family, like = self.model.family, self.model.parameters
        parameters = self.case.case.decode(vector, like)
        if isinstance(self.model, MixtureModel):
            return MixtureModel(family, rows[0], parameters)
        n = 1 + len(self.model.transmat)
        lasting = {"table": np.array(rows[n:])} if rows[n:] else {}
        chain = {"start": rows[0], "transmat": np.array(rows[1:n]), **lasting}
        return replace(self.model, parameters=parameters, **chain)

    def identified(self, model):
        """What the distribution depends on."""
        return np.concatenate(self._rows(model)), self.case.case.identified(model.parameters)


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

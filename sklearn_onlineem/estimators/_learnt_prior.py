"""What one estimator has learnt as the prior of another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_onlineem.em.settings import check_number
from sklearn_onlineem.estimators._initialiser import Initialiser
from sklearn_onlineem.estimators._parameters import are_same
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics

__all__ = ["LearntPrior"]


@dataclass(frozen=True, eq=False)
class LearntPrior:
    """A fitted model as a prior: its own statistics, and what they count for.

    It is what `as_prior` of estimators returns, and what their parameter `prior` takes. Learning
    starts from its model, so that components keep their numbers.

    Parameters
    ----------
    made_by : str
        Class of the estimator.
    structure : dict
        Its parameters that shape the model.
    n_features : int
    model : Model
    statistics : Statistics
        Those of the model itself, per observation.
    weight : float
        Observations that it counts for.
    """

    made_by: str
    structure: dict
    n_features: int
    model: Model
    statistics: Statistics
    weight: float

    @classmethod
    def of(cls, fitted, weight):
        """Return what an estimator has learnt, to count for so many observations.

        Raises
        ------
        ValueError
            If the weight is no number above 0.
        """
        check_number("weight", weight, 0.0, math.inf)
        state = fitted._fitted.state
        names = fitted._structural_parameters
        structure = dict(zip(names, fitted._fitted.structure, strict=True))
        statistics, n_features = state.own_statistics, fitted.n_features_in_
        made_by = type(fitted).__name__
        return cls(made_by, structure, n_features, state.model, statistics, float(weight))

    @property
    def pseudo_statistics(self):
        """The statistics of as many observations as it counts for."""
        return self.statistics.scale(self.weight)

    def check(self, estimator):
        """Raise ValueError unless an estimator has a model of the same shape, and no other start.

        Parameters
        ----------
        estimator : OnlineEM
        """
        if type(estimator).__name__ != self.made_by:
            raise ValueError(f"prior was learnt by a {self.made_by}.")
        for name, value in self.structure.items():
            if not are_same(value, getattr(estimator, name)):
                now = getattr(estimator, name)
                raise ValueError(f"prior was learnt with {name}={value!r}, and it is now {now!r}.")
        for name in estimator._start_parameters():
            if not are_same(estimator._defaults[name], getattr(estimator, name)):
                raise ValueError(
                    f"{name} has no say beside a prior that was learnt: its model is the start."
                )

    def __repr__(self):
        return f"LearntPrior({self.made_by}, weight={self.weight:g})"


@dataclass(frozen=True)
class LearntStart(Initialiser):
    """The start that a learnt prior is."""

    prior: LearntPrior

    def given(self, data):
        if data.n_features != self.prior.n_features:
            raise ValueError(
                f"X has {data.n_features} features, and prior was learnt from"
                f" {self.prior.n_features}."
            )
        return self.prior.model

    def estimated(self, data, random_state):
        raise AssertionError("a learnt prior is a start by itself")

    def stream_model(self, data, random_state):
        return self.given(data), None

"""Initialiser of Kalman filters: from given arrays and data to a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem.estimators._initialiser import Initialiser
from sklearn_onlineem.estimators._warnings import warn_user
from sklearn_onlineem.estimators.kalman._parameters import RELATIVE_FLOOR, System
from sklearn_onlineem.families.gaussian import variance_floor
from sklearn_onlineem.models.linear_dynamical_start import START_STATES, filled

__all__ = ["SystemInitialiser"]

# Pseudo-rows of a stream's start, by parameters of the model per feature.
_START_SHARE = 0.2


@dataclass(frozen=True)
class SystemInitialiser(Initialiser):
    """States that are guessed from the rows, and the regressions that they stand for.

    Parameters
    ----------
    system : System
    init : str
        A key of `START_STATES`.
    """

    system: System
    init: str

    def given(self, data):
        system = self.system
        known = system.known(data.n_features)
        if not system.learnt() <= set(known):
            return None
        if system.reg_covar == "relative":
            floor = RELATIVE_FLOOR * np.diag(known["observation_covariance"])
        else:
            floor = np.full(data.n_features, float(system.reg_covar))
        return system.model(known, floor)

    def estimated(self, data, random_state):
        system, k = self.system, self.system.n_states
        if data.n_rows < k:
            raise ValueError(
                f"at least n_dim_state={k} rows are needed to start from, got"
                f" n_samples={data.n_rows}. Pass a larger (first) batch, or initial values of all"
                " arrays that are learnt."
            )
        X, begins = filled(data)
        if len(X) > 1 and (X == X[0]).all():
            warn_user("All rows are alike.", ConvergenceWarning)
        arrays = system.start_arrays(X, begins, START_STATES[self.init], random_state)
        reg_covar = None if system.reg_covar == "relative" else system.reg_covar
        return system.model(arrays, variance_floor(X, None, reg_covar))

    def stream_model(self, data, random_state):
        # The start counts for a few rows, lest the first batch be learnt by heart.
        model = self.estimated(data, random_state)
        share = _START_SHARE * model.observations_needed(data)
        return model, share * model.own_statistics(data)

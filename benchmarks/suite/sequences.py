"""EM passes of hidden Markov models and Kalman filters: many sequences, short ones, and one."""

import numpy as np

from sklearn_onlineem import CategoricalHMM, GaussianHMM, KalmanFilter

LENGTHS = {"many": [100] * 200, "short": [4] * 5_000, "one": [20_000]}


class HiddenMarkovPass:
    """One pass of batch EM, and the best path."""

    params = (["diag", "full", "symbols"], [4, 32], list(LENGTHS))
    param_names = ("emissions", "n_states", "sequences")

    def setup(self, emissions, n_states, sequences):
        rng = np.random.default_rng(0)
        common = {"solver": "batch", "max_iter": 1, "tol": 0, "n_jobs": 1, "random_state": 0}
        if emissions == "symbols":
            self.X = rng.integers(20, size=(20_000, 1))
            self.model = CategoricalHMM(n_states, **common)
        else:
            self.X = rng.normal(size=(20_000, 4))
            self.model = GaussianHMM(n_states, covariance_type=emissions, **common)
        self.lengths = LENGTHS[sequences]
        self.model.fit(self.X, lengths=self.lengths)
        # The next fits do not start anew.
        self.model.set_params(warm_start=True)

    def time_fit(self, emissions, n_states, sequences):
        self.model.fit(self.X, lengths=self.lengths)

    def time_predict(self, emissions, n_states, sequences):
        self.model.predict(self.X, lengths=self.lengths)


class KalmanPass:
    """One pass of batch EM, and smoothed states."""

    params = (list(LENGTHS), [0.0, 0.1])
    param_names = ("sequences", "missing")

    def setup(self, sequences, missing):
        rng = np.random.default_rng(0)
        self.X, self.lengths = rng.normal(size=(20_000, 4)).cumsum(axis=0) / 10, LENGTHS[sequences]
        self.X[rng.random(self.X.shape) < missing] = np.nan
        self.model = KalmanFilter(
            3, solver="batch", max_iter=1, tol=0, n_jobs=1, random_state=0
        ).fit(self.X, lengths=self.lengths)
        self.model.set_params(warm_start=True)

    def time_fit(self, sequences, missing):
        self.model.fit(self.X, lengths=self.lengths)

    def time_smooth(self, sequences, missing):
        self.model.smooth(self.X, lengths=self.lengths)


class DefaultFit:
    """`fit` of many short sequences as users call it."""

    params = [GaussianHMM, KalmanFilter]
    param_names = ("model",)

    def setup(self, model):
        self.X = np.random.default_rng(0).normal(size=(20_000, 2))

    def time_fit(self, model):
        model(2, n_jobs=1, random_state=0, max_iter=2, tol=0).fit(self.X, lengths=[4] * 5_000)

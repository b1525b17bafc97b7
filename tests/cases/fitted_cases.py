"""Mixtures, hidden Markov models and transducers fitted to where EM stands still."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.testing import assert_allclose

from cases.chains import CHAINS, SegmentCase
from cases.coordinates import DynamicalCoordinates, coordinates
from cases.dynamical import PARAMETERS
from cases.mixture_cases import MIXTURES
from cases.transducers import TRANSDUCERS
from sklearn_onlineem import HMM, EditDistance, KalmanFilter, Mixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.diagnostics import standard_errors
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.families import (
    Bernoulli,
    BernoulliRegression,
    Categorical,
    CompoundDirichlet,
    Laplace,
    PoissonRegression,
    Wishart,
)
from sklearn_onlineem.families.tangents import tangents_of
from sklearn_onlineem.families.wishart import FixedDegreesWishart
from sklearn_onlineem.models.hidden_markov.durations import DURATIONS
from sklearn_onlineem.models.strings.operations import FullOperations
from sklearn_onlineem.models.terminations import EndState, GivenLength

_SEEDS = {
    Categorical: 3, Bernoulli: 3, BernoulliRegression: 4, FixedDegreesWishart: 6, Wishart: 6,
    CompoundDirichlet: 3, PoissonRegression: 4,
}  # fmt: skip
TERMINATIONS = {GivenLength: "given_length", EndState: "end_state"}
_COMPONENTS = [
    case
    for case in (*MIXTURES, *CHAINS)
    if tangents_of(case.case.family)
    # These have tests of their own: medians have no derivatives.
    and not isinstance(case.case.family, Laplace)
    and (case.is_mixture or case.termination in TERMINATIONS)
    # Parts of one component of a mixture may as well be those of another.
    and not (case.is_mixture and case.case.inner)
    # Without order in the rows, several probabilities of a bit are about as likely as one.
    and not (case.is_mixture and isinstance(case.case.family, BernoulliRegression))
    # Chains of few bits have probabilities of 0 or 1 at the maximum.
    and (case.is_mixture or not isinstance(case.case.family, Bernoulli))
]


@dataclass
class Still:
    """An estimator at a fixed point of EM, and the data that it was fitted to."""

    case: object
    estimator: object
    X: object

    @property
    def model(self):
        return self.estimator.model_

    @property
    def data(self):
        return self.estimator._input().read(self.X)

    @property
    def place(self):
        """Unconstrained coordinates, which know nothing of those under test."""
        return coordinates(self.case, self.model)

    def step(self, prior=()):
        """A step of batch EM as a function of vectors."""
        place, data = self.place, self.data
        return lambda x: place.encode(batch_step(place.decode(x), data, prior)[0])

    def attribute(self, name):
        """The value of a fitted attribute as a function of vectors."""
        place, view = self.place, {f"{part.name}_": part for part in self.model.parts}[name]
        return lambda x: view.get(place.decode(x))


EXACT = {"solver": "batch", "tol": 0.0, "reg_covar": 0.0, "max_iter": 700, "random_state": 0}
NOISES = ["transition_covariance", "observation_covariance"]


def simulated(rng, n_sequences, length, A, C, Q, R, start=0.0):
    """Sequences of a system, whose first state has unit covariance."""
    A, C, Q, R = (np.atleast_2d(matrix) for matrix in (A, C, Q, R))
    for _ in range(n_sequences):
        state, rows = start + rng.standard_normal(len(A)), []
        for _ in range(length):
            rows.append(C @ state + np.linalg.cholesky(R) @ rng.standard_normal(len(C)))
            state = A @ state + np.linalg.cholesky(Q) @ rng.standard_normal(len(A))
        yield np.array(rows)


def local_level(rng):
    X = list(simulated(rng, 1, 150, 1.0, 1.0, 0.5, 1.0))
    known = {"transition_matrices": [[1.0]], "observation_matrices": [[1.0]]}
    return KalmanFilter(1, em_vars=NOISES, **known), X


def autoregression_in_noise(rng):
    X = list(simulated(rng, 1, 300, 0.8, 1.0, 1.0, 0.3))
    learnt = ["transition_matrices", *NOISES]
    return KalmanFilter(1, em_vars=learnt, observation_matrices=[[1.0]]), X


def two_states_with_gaps(rng):
    """All that is about states is learnt, as the readings say which is which."""
    A = np.array([[0.7, 0.2], [-0.2, 0.6]])
    C = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    X = list(simulated(rng, 40, 8, A, C, [[0.5, 0.1], [0.1, 0.4]], 0.3 * np.eye(3), start=1.0))
    for rows in X:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    learnt = ["initial_state_mean", "initial_state_covariance", "transition_matrices", *NOISES]
    return (
        KalmanFilter(2, em_vars=learnt, observation_matrices=C, observation_covariance_type="diag"),
        X,
    )


def loadings(rng):
    """One factor of known dynamics, what each feature takes of it, and its level."""
    C = np.array([[1.0], [0.5], [-1.0]])
    X = list(simulated(rng, 5, 30, 0.5, C, 1.0, 0.4 * np.eye(3)))
    X = [rows + [3.0, 0.0, -1.0] for rows in X]
    return (
        KalmanFilter(
            1, em_vars=["observation_matrices", "observation_offsets", "observation_covariance"],
            transition_matrices=[[0.5]], transition_covariance=[[1.0]],
            observation_matrices=C, observation_covariance_type="spherical",
        ),
        X,
    )  # fmt: skip


def drift(rng):
    """A walk that drifts, with noise of the state on the diagonal."""
    X = list(simulated(rng, 4, 40, np.eye(2), np.eye(2), np.diag([0.3, 0.6]), np.eye(2)))
    X = [rows + 0.5 * np.arange(len(rows))[:, None] for rows in X]
    known = {"transition_matrices": np.eye(2), "observation_matrices": np.eye(2)}
    learnt = ["transition_offsets", "transition_covariance"]
    return KalmanFilter(2, em_vars=learnt, transition_covariance_type="diag", **known), X


@dataclass(frozen=True)
class SystemCase:
    """A Kalman filter that is not fitted, and sequences, by a function of a generator."""

    build: Callable

    is_mixture = False

    def __repr__(self):
        return self.build.__name__


SYSTEMS = [
    *map(SystemCase, (local_level, autoregression_in_noise, two_states_with_gaps, loadings, drift))
]


def learnt_names(model):
    """Names of what EM changes, as the cases write them."""
    pairs = (name.split("__") for name in PARAMETERS)
    return [f"{part}__{what}" for part, what in pairs if what in getattr(model, part).learnt]


class StillSystem(Still):
    @property
    def place(self):
        return DynamicalCoordinates(self.model, learnt_names(self.model))


STILL = [*_COMPONENTS, *TRANSDUCERS, *SYSTEMS]


@cache
def still(case):
    """Fit a model to data of another until nothing moves; once for all tests."""
    # For two bits and for codes, seeds 1 and 2 draw components that have maxima at the bounds, or
    # lead EM there; for matrices, seed 1 draws components that overlap, which take thousands of
    # passes, as those of documents by seeds 1, 2 and 4.
    if case in SYSTEMS:
        kalman, X = case.build(np.random.default_rng(0))
        found = StillSystem(case, kalman.set_params(**EXACT), X)
    elif case in TRANSDUCERS:
        found = _transducer(case)
    else:
        kinds = (kind for kind in _SEEDS if isinstance(case.case.family, kind))
        rng = np.random.default_rng(_SEEDS.get(next(kinds, None), 1))
        found = (_mixture if case.is_mixture else _chain)(case, rng)
    for _ in range(10):
        found.estimator.fit(found.X)
        x = found.place.encode(found.model)
        if case in SYSTEMS or np.abs(found.step()(x) - x).max() < 1e-12:
            break
    np.testing.assert_allclose(found.step()(x), x, rtol=0, atol=1e-9)
    return found


def _mixture(case, rng):
    X, _ = case.draw(rng, 2, 4).sample(500, rng)
    return Still(case, _estimator(Mixture, case, prior=None), X)


def _chain(case, rng):
    model = case.draw(rng, 2, 3)
    durations = {}
    if isinstance(case, SegmentCase):
        kinds = {kind: name for name, kind in DURATIONS.items()}
        durations = {
            "durations": kinds[type(case.durations)], "max_duration": model.table.shape[1],
            "left_censored": case.durations.left_censored,
        }  # fmt: skip
    else:
        stays = np.eye(2, model.transmat.shape[1])
        model = replace(model, transmat=0.5 * (model.transmat + stays))
    like = Sequences(Rows(np.empty((10, 0))), np.array([0, 10]))
    drawn = model.sample(60, rng, like)[0]
    X = np.split(drawn.X, drawn.offsets[1:-1])
    termination = TERMINATIONS[case.termination]
    return Still(case, _estimator(HMM, case, termination=termination, **durations), X)


def _transducer(case):
    """Of two known symbols, and the place of unknown ones."""
    settings = {"alphabet": "ab", "solver": "batch", "tol": 0.0, "random_state": 0}
    name = "full" if case.parametrization is FullOperations else "tied"
    start = {"match": 5.0, "mismatch": 2.0, "delete": 1.0, "insert": 2.0, "end": 2.0}
    truth = EditDistance(name, operations_init=start, max_iter=0, **settings).fit([("a", "b")])
    estimator = EditDistance(name, operation_prior=1.0, max_iter=300, warm_start=True, **settings)
    return Still(case, estimator, truth.sample(1000)[0])


def _estimator(kind, case, **settings):
    """One of which each fit goes on where the last one ended."""
    return kind(
        2, family=case.case.family, solver="batch", tol=0.0, max_iter=300, warm_start=True,
        random_state=0, **settings,
    )  # fmt: skip


def jacobian(function, x, step=1e-5):
    """Jacobian of a function of a vector, by central differences."""
    units = step * np.eye(len(x))
    columns = [(function(x + unit) - function(x - unit)) / (2.0 * step) for unit in units]
    return np.stack(columns, axis=-1)


def hessian(function, x, step=1e-3):
    """Second derivatives of a number, by central differences of fourth order along each pair."""
    units = step * np.eye(len(x))

    def second(along):
        near = function(x + along) + function(x - along)
        far = function(x + 2.0 * along) + function(x - 2.0 * along)
        return (16.0 * near - far - 30.0 * here) / 12.0

    here, n = function(x), len(x)
    own = np.array([second(unit) for unit in units])
    out = np.diag(own)
    for i in range(n):
        for j in range(i):
            out[i, j] = out[j, i] = 0.5 * (second(units[i] + units[j]) - own[i] - own[j])
    return out / step**2


def numerical_errors(found, names):
    """Errors of attributes by differences of log-likelihoods: as they are, and the sandwich's."""
    place, data, x = found.place, found.data, found.place.encode(found.model)

    def log_likelihoods(vector):
        return place.decode(vector).log_likelihood(data)

    curvature = -hessian(lambda vector: log_likelihoods(vector).sum(), x)
    # Some directions of the vectors change nothing.
    inverse = np.linalg.pinv(curvature, rcond=1e-7, hermitian=True)
    scores = jacobian(log_likelihoods, x)
    sandwich = inverse @ scores.T @ scores @ inverse
    for name in names:
        gradient = jacobian(found.attribute(name), x)
        yield (
            name,
            *(
                np.sqrt(np.einsum("...i,ij,...j->...", gradient, v, gradient))
                for v in (inverse, sandwich)
            ),
        )


def checked_errors(found):
    """Standard errors, which are those of differences; of several observations robust ones, too."""
    errors = standard_errors(found.estimator, found.X).errors
    has_robust = len(found.data) > 1
    robust = standard_errors(found.estimator, found.X, robust=True).errors if has_robust else {}
    for name, expected, sandwich in numerical_errors(found, errors):
        assert_allclose(errors[name], expected, rtol=1e-4, atol=1e-9, err_msg=name)
        # Of two states, each segment of one is followed by one of the other.
        is_known = name == "transmat_" and hasattr(found.model, "table")
        assert is_known or errors[name].max() > 0.0
        if has_robust:
            assert_allclose(robust[name], sandwich, rtol=1e-4, atol=1e-9, err_msg=name)
    return errors

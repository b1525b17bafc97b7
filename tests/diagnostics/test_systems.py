"""Standard errors and missing information of Kalman filters."""

from functools import cache

import numpy as np
import pytest
from cases.coordinates import DynamicalCoordinates
from cases.dynamical import PARAMETERS
from cases.fitted_cases import Still, checked_errors, hessian, jacobian
from sklearn.base import clone

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.diagnostics import forecast_moments, missing_information, standard_errors
from sklearn_onlineem.diagnostics._missing import missing_of
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.models.coordinates import coordinates_of
from sklearn_onlineem.models.linear_dynamical import unseen_changes

EXACT = {"solver": "batch", "tol": 0.0, "reg_covar": 0.0}
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


SYSTEMS = [local_level, autoregression_in_noise, two_states_with_gaps, loadings, drift]


def learnt_names(model):
    """Names of what EM changes, as the cases write them."""
    pairs = (name.split("__") for name in PARAMETERS)
    return [f"{part}__{what}" for part, what in pairs if what in getattr(model, part).learnt]


class StillSystem(Still):
    @property
    def place(self):
        return DynamicalCoordinates(self.model, learnt_names(self.model))


def converged(kalman, X):
    return kalman.set_params(max_iter=700, random_state=0, **EXACT).fit(X)


@cache
def still(build):
    """A Kalman filter at a fixed point of EM, and its data; once for all tests."""
    kalman, X = build(np.random.default_rng(0))
    found = StillSystem(None, converged(kalman, X), X)
    x = found.place.encode(found.model)
    np.testing.assert_allclose(found.step()(x), x, rtol=0, atol=1e-9)
    return found


def coordinates_at(found):
    return coordinates_of(found.model, found.model.e_step(found.data)[0])


@pytest.mark.parametrize("build", SYSTEMS)
def test_errors_are_those_of_the_numerical_hessian(build):
    found = still(build)
    assert set(checked_errors(found)) == {f"{name}_" for name in found.estimator.em_vars}


@pytest.mark.parametrize("build", SYSTEMS)
def test_errors_of_forecasts_are_those_of_the_numerical_hessian(build):
    found = still(build)
    place, data, x = found.place, found.data, found.place.encode(found.model)
    curvature = -hessian(lambda vector: place.decode(vector).log_likelihood(data).sum(), x)
    moves = jacobian(lambda vector: place.decode(vector).forecast(data, 3)[0], x)
    added = np.einsum("ntsi,ij,ntrj->ntsr", moves, np.linalg.inv(curvature), moves)
    means, covariances = found.estimator.forecast(found.X, 3, return_cov=True)
    found = forecast_moments(found.estimator, found.X, 3)
    np.testing.assert_array_equal(found[0], means)
    np.testing.assert_allclose(found[1] - covariances, added, rtol=1e-4, atol=1e-9)
    assert (added.diagonal(axis1=2, axis2=3) > 0.0).any()


@pytest.mark.parametrize("build", SYSTEMS)
def test_estimates_are_the_fitted_attributes(build):
    found = still(build)
    for name, value in standard_errors(found.estimator, found.X).estimates.items():
        np.testing.assert_array_equal(value, getattr(found.estimator, name))


@pytest.mark.parametrize("build", SYSTEMS)
def test_eigenvalues_are_those_of_the_jacobian_of_em(build):
    found = still(build)
    information = missing_information(found.estimator, found.X, n_values=4)
    step = jacobian(found.step(), found.place.encode(found.model))
    expected = np.sort(np.linalg.eigvals(step).real)[::-1][: len(information.eigenvalues)]
    np.testing.assert_allclose(information.eigenvalues, expected, rtol=0, atol=1e-7)
    assert information.rate > 0.05
    assert "1. 0." in information.summary() and "the system; parameters" in information.summary()
    for direction in information.directions:
        np.testing.assert_allclose(sum(direction.parts.values()), 1.0)


@pytest.mark.parametrize("build", SYSTEMS)
def test_complete_data_bring_unit_information(build, rng):
    found = still(build)
    coordinates, like = coordinates_at(found), found.model.e_step(found.data)[0]
    assert np.abs(coordinates.score(like)).max() < 1e-6 * len(found.data.X)
    v = rng.standard_normal(coordinates.shape)
    ahead, here, behind = (
        coordinates.moved(s * v).expected_log_likelihood(like) for s in (1e-3, 0.0, -1e-3)
    )
    np.testing.assert_allclose((2.0 * here - ahead - behind) / 1e-6, (v**2).sum(), rtol=1e-4)


def test_missing_information_is_symmetric(rng):
    found = still(two_states_with_gaps)
    coordinates = coordinates_at(found)
    missing = missing_of(coordinates, found.data)
    u, v = rng.standard_normal((2, *coordinates.shape))
    products = (u * missing.product(v)).sum(), (v * missing.product(u)).sum()
    np.testing.assert_allclose(*products, rtol=1e-6)


def test_units_of_rows_are_those_of_errors():
    found = still(local_level)
    scaled, X = clone(found.estimator), [1000.0 * rows for rows in found.X]
    found_errors = standard_errors(found.estimator, found.X).errors
    scaled.set_params(initial_state_covariance=[[1e6]])
    errors = standard_errors(converged(scaled, X), X).errors
    for name, value in errors.items():
        np.testing.assert_allclose(value, 1e6 * found_errors[name], rtol=1e-5)


def test_a_prior_narrows():
    found = still(local_level)
    prior = {"observation": {"covariance": 100.0, "degrees_of_freedom": 100.0}}
    informed = converged(clone(found.estimator).set_params(prior=prior), found.X)
    name = "observation_covariance_"
    errors, before = (
        standard_errors(estimator, found.X).errors[name]
        for estimator in (informed, found.estimator)
    )
    assert errors < 0.8 * before


@pytest.mark.parametrize("offset", [1e4, -1e8])
def test_offsets_cost_no_digits(offset):
    """The scores of moves that are small in units of rows far from 0."""
    kalman = still(local_level).estimator
    first = kalman.initial_state_mean_ + offset
    X = [rows + offset for rows in still(local_level).X]
    moved = converged(clone(kalman).set_params(initial_state_mean=first), X)
    expected = standard_errors(kalman, [rows - offset for rows in X]).errors
    for name, value in standard_errors(moved, X).errors.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4)


def test_lanczos_finds_the_eigenvalues_of_the_matrix(rng):
    """Of more coordinates than products make a matrix of: loadings of 30 features, and noise."""
    C = rng.standard_normal((30, 2))
    X = list(simulated(rng, 6, 15, 0.5 * np.eye(2), C, np.eye(2), np.eye(30)))
    kalman = KalmanFilter(
        2, transition_matrices=0.5 * np.eye(2), observation_matrices=C,
        em_vars=["observation_matrices", "observation_covariance"], solver="batch",
        observation_covariance_type="diag", reg_covar=0.0, tol=1e-6, max_iter=200,
    ).fit(X)  # fmt: skip
    data = kalman._input().read(X)
    coordinates = coordinates_of(kalman.model_, kalman.model_.e_step(data)[0])
    assert coordinates.shape == (1, 90)
    expected = np.linalg.eigvalsh(missing_of(coordinates, data).dense())[::-1][:5]
    found = missing_information(kalman, X, n_values=5, tol=1e-8)
    np.testing.assert_allclose(found.eigenvalues, expected, rtol=1e-6)


def test_measured_contraction(rng):
    """Of the error of the parameters, and of the gap of the log-likelihood."""
    found = still(autoregression_in_noise)
    place, data, x = found.place, found.data, found.place.encode(found.model)
    information = missing_information(found.estimator, found.X)
    model, top = place.decode(x + 0.01), found.model.e_step(data)[1]
    errors, gaps = [], []
    for _ in range(61):
        errors.append(np.linalg.norm(place.encode(model) - x))
        model, log_likelihood = batch_step(model, data)
        gaps.append(top - log_likelihood)
    for path, rate in [(errors, information.rate), (gaps, information.loss_rate)]:
        contraction = (path[60] / path[30]) ** (1 / 30)
        np.testing.assert_allclose(1.0 - contraction, 1.0 - rate, rtol=0.02)


# How many changes of the coordinates of two states are unseen, where this is learnt.
READ = ["observation_matrices"]
MOVES = ["transition_matrices", *NOISES]
FIRST = ["initial_state_mean", "initial_state_covariance"]
OFFSETS = ["transition_offsets", "observation_offsets"]
UNSEEN = {
    "nothing of the readings": (0, [*MOVES, *FIRST], {}),
    "a loading": (0, [*READ, "observation_covariance"], {}),
    "all of turned states": (4, [*MOVES, *FIRST, *READ], {}),
    "all but first states: rotations": (1, [*MOVES, *READ], {}),
    "all, with noise on the diagonal": (
        3, [*MOVES, *FIRST, *READ], {"transition_covariance_type": "diag"}
    ),
    "levels of states and readings": (2, [*OFFSETS, *FIRST, *NOISES], {}),
    "levels, first states known": (0, [*OFFSETS, *NOISES], {}),
    "all, levels, too": (6, [*MOVES, *FIRST, *READ, *OFFSETS], {}),
}  # fmt: skip


@pytest.mark.parametrize(("n_changes", "em_vars", "settings"), UNSEEN.values(), ids=UNSEEN)
@pytest.mark.parametrize("units", [1.0, 1e5])
def test_unseen_changes_are_those_along_which_no_sequence_scores(
    rng, n_changes, em_vars, settings, units
):
    A, C = np.array([[0.7, 0.2], [-0.1, 0.5]]), np.array([[1.0, 0.3], [0.2, 1.0], [0.5, 0.5]])
    X = list(simulated(rng, 60, 5, A, C, np.diag([0.5, 0.8]), 0.3 * np.eye(3)))
    kalman = KalmanFilter(
        2, transition_matrices=A, observation_matrices=C, em_vars=em_vars, max_iter=1,
        transition_covariance=np.diag([0.5, 0.8]), **settings, **EXACT,
    )  # fmt: skip
    model = kalman.fit(X).model_
    T = np.diag([1.0, units])
    scaled = type(model)(
        model.initial.in_coordinates(outputs=T),
        model.transitions.in_coordinates(inputs=np.linalg.inv(T), outputs=T),
        model.emissions.in_coordinates(inputs=np.linalg.inv(T)),
    )
    found, moved = unseen_changes(scaled, np.diag(T))
    assert found == n_changes
    names = [f"{part}__{what}" for part, what in moved]
    assert set(names) <= set(learnt_names(model)) and bool(names) == (n_changes > 0)
    data, place = kalman._input().read(X), DynamicalCoordinates(model, learnt_names(model))
    x = place.encode(model)
    scores = jacobian(lambda vector: place.decode(vector).log_likelihood(data), x)
    assert np.linalg.matrix_rank(scores, rtol=1e-7) == len(x) - n_changes


def test_what_is_not_determined_is_refused_by_name(rng):
    """States of which all is learnt may be turned as one likes."""
    X = list(simulated(rng, 20, 20, 0.5 * np.eye(2), np.eye(2), np.eye(2), np.eye(2)))
    kalman = KalmanFilter(2, max_iter=50, random_state=0, **EXACT).fit(X)
    message = "transition_matrices_.* observation_matrices_: .* space of 4 dimensions.*em_vars"
    with pytest.raises(ValueError, match=message):
        standard_errors(kalman, X)


def test_a_prior_may_determine_what_data_do_not(rng):
    X = list(simulated(rng, 1, 60, 0.8, 1.0, 1.0, 0.3))
    learnt = ["transition_matrices", "transition_covariance", "observation_matrices"]
    first = ["initial_state_mean", "initial_state_covariance"]
    prior = {
        "observation": {"matrix": [[1.0]], "matrix_precision": 50.0},
        "initial": {"covariance": 1.0, "degrees_of_freedom": 5.0},
    }

    def fitted(em_vars, prior=None, **known):
        return converged(KalmanFilter(1, em_vars=em_vars, prior=prior, **known), X)

    errors = standard_errors(fitted([*learnt, *first], prior), X).errors
    assert errors["observation_matrices_"] > 0.0 < errors["initial_state_covariance_"]
    with pytest.raises(ValueError, match="initial_state_covariance_ is not .*, got 1 and 1"):
        standard_errors(fitted([*learnt, *first]), X)
    # A prior of the noise of rows does not say how large the states are.
    noise = {"observation": {"covariance": 0.3, "degrees_of_freedom": 5.0}}
    learnt += ["observation_covariance"]
    free = {"initial_state_covariance": [[0.0]]}
    with pytest.raises(ValueError, match="do not determine .*observation_matrices_: changes"):
        standard_errors(fitted(learnt, noise, **free), X)


def test_noise_without_a_density_is_refused(rng):
    kalman, X = local_level(rng)
    kalman.set_params(em_vars=["transition_matrices"], transition_covariance=[[0.0]])
    with pytest.raises(ValueError, match="noise of the transitions has no density"):
        standard_errors(converged(kalman, X), X)

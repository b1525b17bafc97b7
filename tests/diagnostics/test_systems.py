"""Standard errors and missing information of Kalman filters."""

import numpy as np
import pytest
from cases.coordinates import DynamicalCoordinates
from cases.fitted_cases import (
    EXACT,
    NOISES,
    SYSTEMS,
    hessian,
    jacobian,
    learnt_names,
    local_level,
    simulated,
    still,
)
from sklearn.base import clone

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.diagnostics import forecast_moments, missing_information, standard_errors
from sklearn_onlineem.models.coordinates import coordinates_of
from sklearn_onlineem.models.kalman.linear_dynamical import unseen_changes


def coordinates_at(found):
    return coordinates_of(found.model, found.model.e_step(found.data)[0])


@pytest.mark.parametrize("case", SYSTEMS, ids=repr)
def test_errors_of_forecasts_are_those_of_the_numerical_hessian(case):
    found = still(case)
    place, data, x = found.place, found.data, found.place.encode(found.model)
    curvature = -hessian(lambda vector: place.decode(vector).log_likelihood(data).sum(), x)
    moves = jacobian(lambda vector: place.decode(vector).forecast(data, 3)[0], x)
    added = np.einsum("ntsi,ij,ntrj->ntsr", moves, np.linalg.inv(curvature), moves)
    means, covariances = found.estimator.forecast(found.X, 3, return_cov=True)
    found = forecast_moments(found.estimator, found.X, 3)
    np.testing.assert_array_equal(found[0], means)
    np.testing.assert_allclose(found[1] - covariances, added, rtol=1e-4, atol=1e-9)
    assert (added.diagonal(axis1=2, axis2=3) > 0.0).any()


@pytest.mark.parametrize("case", SYSTEMS, ids=repr)
def test_what_is_learnt_has_errors_and_parts_of_directions(case):
    found = still(case)
    errors = standard_errors(found.estimator, found.X).errors
    assert set(errors) == {f"{name}_" for name in found.estimator.em_vars}
    information = missing_information(found.estimator, found.X, n_values=4)
    assert "1. 0." in information.summary() and "the system; parameters" in information.summary()
    for direction in information.directions:
        np.testing.assert_allclose(sum(direction.parts.values()), 1.0)


@pytest.mark.parametrize("case", SYSTEMS, ids=repr)
def test_complete_data_bring_unit_information(case, rng):
    found = still(case)
    coordinates, like = coordinates_at(found), found.model.e_step(found.data)[0]
    assert np.abs(coordinates.score(like)).max() < 1e-6 * len(found.data.X)
    v = rng.standard_normal(coordinates.shape)
    ahead, here, behind = (
        coordinates.moved(s * v).expected_log_likelihood(like) for s in (1e-3, 0.0, -1e-3)
    )
    np.testing.assert_allclose((2.0 * here - ahead - behind) / 1e-6, (v**2).sum(), rtol=1e-4)


def test_units_of_rows_are_those_of_errors():
    found = still(SYSTEMS[0])
    scaled, X = clone(found.estimator), [1000.0 * rows for rows in found.X]
    found_errors = standard_errors(found.estimator, found.X).errors
    scaled.set_params(initial_state_covariance=[[1e6]])
    errors = standard_errors(scaled.fit(X), X).errors
    for name, value in errors.items():
        np.testing.assert_allclose(value, 1e6 * found_errors[name], rtol=1e-5)


@pytest.mark.parametrize("offset", [1e4, -1e8])
def test_offsets_cost_no_digits(offset):
    """The scores of moves that are small in units of rows far from 0."""
    kalman = still(SYSTEMS[0]).estimator
    first = kalman.initial_state_mean_ + offset
    X = [rows + offset for rows in still(SYSTEMS[0]).X]
    moved = clone(kalman).set_params(initial_state_mean=first).fit(X)
    expected = standard_errors(kalman, [rows - offset for rows in X]).errors
    for name, value in standard_errors(moved, X).errors.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4)


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
        2, transition_matrices=A, observation_matrices=C, em_vars=em_vars,
        transition_covariance=np.diag([0.5, 0.8]), **{**EXACT, **settings, "max_iter": 1},
    )  # fmt: skip
    model = kalman.fit(X).model_
    T = np.diag([1.0, units])
    scaled = type(model)(
        model.initial.in_coordinates(outputs=T),
        model.transitions.in_coordinates(inputs=np.linalg.inv(T), outputs=T),
        model.emissions.in_coordinates(inputs=np.linalg.inv(T)),
    )
    found, moved = unseen_changes(scaled, np.diag(T))
    assert found == unseen_changes(scaled, np.diag(T), counts=True)[0] == n_changes
    names = [f"{part}__{what}" for part, what in moved]
    assert set(names) <= set(learnt_names(model)) and bool(names) == (n_changes > 0)
    data, place = kalman._input().read(X), DynamicalCoordinates(model, learnt_names(model))
    x = place.encode(model)
    scores = jacobian(lambda vector: place.decode(vector).log_likelihood(data), x)
    assert np.linalg.matrix_rank(scores, rtol=1e-7) == len(x) - n_changes


def test_what_is_not_determined_is_refused_by_name(rng):
    """States of which all is learnt may be turned as one likes."""
    X = list(simulated(rng, 20, 20, 0.5 * np.eye(2), np.eye(2), np.eye(2), np.eye(2)))
    kalman = KalmanFilter(2, **{**EXACT, "max_iter": 50}).fit(X)
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
        return KalmanFilter(1, em_vars=em_vars, prior=prior, **EXACT, **known).fit(X)

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
        standard_errors(kalman.set_params(**EXACT).fit(X), X)


def test_readings_that_vary_in_size_tell_levels_of_rows_and_states_apart(rng):
    C, n, times = rng.uniform(0.5, 2.0, size=(30, 1, 1)), 40, np.arange(30)
    walks = 3.0 + 0.3 * rng.normal(size=(n, 30, 1)).cumsum(axis=1)
    X = list(C[:, 0] * walks + 1.0 + 0.1 * rng.normal(size=(n, 30, 1)))
    kalman = KalmanFilter(
        1, observation_matrices=C, transition_covariance=0.09, observation_covariance=0.01,
        initial_state_covariance=0.09, em_vars=["initial_state_mean", "observation_offsets"],
        **EXACT,
    ).fit(X)  # fmt: skip
    errors = standard_errors(kalman, X).errors
    c = C.ravel()
    covariance = 0.09 * np.outer(c, c) * (1.0 + np.minimum.outer(times, times)) + 0.01 * np.eye(30)
    G = np.column_stack([c, np.ones(30)])
    expected = np.sqrt(np.linalg.inv(n * G.T @ np.linalg.solve(covariance, G)).diagonal())
    found = errors["initial_state_mean_"], errors["observation_offsets_"]
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5)

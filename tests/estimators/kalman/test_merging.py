"""The states of Kalman filters that are merged: these may have any coordinates."""

import copy

import numpy as np
import pytest
from cases.comparing import assert_close
from cases.dynamical import changed
from numpy.testing import assert_allclose

from sklearn_onlineem import KalmanFilter, combine_estimators
from sklearn_onlineem.structure import Level


def sequences(rng, n, length=12):
    steps = rng.standard_normal((n, length, 2)).cumsum(axis=1)
    return list(steps + 0.5 * rng.standard_normal(steps.shape))


@pytest.fixture
def members(rng):
    """Filters with a common start that have learnt apart."""
    common = KalmanFilter(n_dim_state=2, random_state=0).partial_fit(sequences(rng, 20))
    return [copy.deepcopy(common).partial_fit(sequences(rng, 10, n)) for n in (5, 20)]


def moved(model, T):
    """The same distribution of the rows, with states T h."""
    inverse = np.linalg.inv(T)
    return changed(
        model,
        initial__offset=T @ model.initial.offset,
        initial__covariance=T @ model.initial.covariance @ T.T,
        transitions__matrix=T @ model.transitions.matrix @ inverse,
        transitions__offset=T @ model.transitions.offset,
        transitions__covariance=T @ model.transitions.covariance @ T.T,
        emissions__matrix=model.emissions.matrix @ inverse,
    )


def test_other_coordinates_are_aligned_to_those_of_the_reference(members, rng):
    a, b = members
    expected = b.model_.aligned_to(a.model_)
    T = rng.standard_normal((2, 2)) + 2.0 * np.eye(2)
    assert_close(moved(b.model_, T).aligned_to(a.model_), expected, rtol=1e-8)
    data = a._input().read(sequences(rng, 4))
    assert_allclose(expected.log_likelihood(data), b.model_.log_likelihood(data), rtol=1e-8)


def test_merging_undoes_other_coordinates(members, rng):
    a, b = members
    expected = combine_estimators([a, b], align=True)
    state = b._fitted.state
    # By default also where that hardly reduces the divergence.
    like = a._fitted.state.lengths
    aligned = b.model_.aligned_to(a.model_, like)
    least = 1.05 * aligned.kl_divergence(a.model_, like)
    scaled = (moved(aligned, c * np.eye(2)) for c in np.linspace(1.0, 2.0, 101))
    near = next(model for model in scaled if model.kl_divergence(a.model_, like) > least)
    for model in (moved(state.model, rng.standard_normal((2, 2)) + 2.0 * np.eye(2)), near):
        b._fitted = b._fitted._replace(state=state._replace(model=model))
        for align in (True, "auto"):
            found = combine_estimators([a, b], align=align)
            assert_close(found.model_, expected.model_, rtol=1e-8)


def test_states_that_nothing_reads_cannot_be_aligned(members):
    a, b = members
    state = b._fitted.state
    blind = changed(
        state.model, emissions__matrix=np.array([[1.0, 0.0]] * 2), transitions__matrix=np.eye(2)
    )
    b._fitted = b._fitted._replace(state=state._replace(model=blind))
    with pytest.raises(ValueError, match="the emissions do not determine their coordinates"):
        combine_estimators([a, b], align=True)


def test_levels_keep_their_coordinates(rng):
    kalman = KalmanFilter(structure=[Level()], observation_covariance_type="diag")
    members = [kalman.fit(sequences(rng, 10)), copy.deepcopy(kalman).fit(sequences(rng, 10))]
    merged = combine_estimators(members)
    assert merged.model_.diffuse.all()
    assert_close(merged.transition_matrices_, np.eye(2))
    with pytest.raises(ValueError, match="and so their coordinates"):
        combine_estimators(members, align=True)

"""Chains that cannot end are refused where they would be drawn."""

import numpy as np
import pytest

from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState, GivenLength

START = np.array([1.0, 0.0, 0.0])
LOOP = np.array([[0.5, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def with_ends(moves, ends):
    return np.column_stack([moves * (1.0 - np.array(ends))[:, None], ends])


@pytest.mark.parametrize(
    ("termination", "transmat"),
    [
        (EndState(), with_ends(LOOP, [0.1, 0.0, 0.5])),
        (EndState(), with_ends(np.eye(3), [0.0, 0.5, 0.5])),
        (AbsorbingStates((2,)), np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])),
        (AbsorbingStates((2,)), np.array([[0.3, 0.3, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])),
    ],
)
def test_a_chain_without_a_way_to_the_end_is_refused(termination, transmat):
    with pytest.raises(ValueError, match="would never end"):
        termination.sample_states(START, transmat, 5, np.random.default_rng(0))


def test_states_that_are_never_reached_need_no_way_to_the_end():
    transmat = with_ends(np.eye(3), [0.5, 0.0, 0.0])
    offsets, states = EndState().sample_states(START, transmat, 5, np.random.default_rng(0))
    assert len(offsets) == 6 and not states.any()


MASKED = np.ma.masked_array([0.5, 0.5], mask=[True, True])
WITH_END = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])


@pytest.mark.parametrize(
    ("start", "transmat"),
    [
        (MASKED, WITH_END),
        ([0.5, 0.5], np.ma.masked_less(WITH_END, 0.4)),
        ([0.5, np.nan], WITH_END),
        ([1.5, -0.5], WITH_END),
        ([0.0, 0.0], WITH_END),
        ([0.5, 0.5], -WITH_END),
        ([0.5, 0.5], np.inf * WITH_END),
        ([0.5, 0.5], 1e308 * np.ones((2, 3))),
        ([0.5, 0.3, 0.2], WITH_END),
        ([[0.5, 0.5]], WITH_END),
        ([0.5, 10**400], WITH_END),
        ([0.5, 0.5], np.array([[0.0, 0.0, 0.5], [0.5, 0.0, 0.5]])),
    ],
)
def test_what_is_no_weight_is_refused(start, transmat):
    with pytest.raises(ValueError, match=r"start|transmat|never end"):
        EndState().sample_states(start, transmat, 3, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("start", "transmat"), [(MASKED, np.eye(2)), ([0.5, 0.5], -np.eye(2)), ([0.5, 0.5], WITH_END)]
)
def test_weights_are_looked_at_where_lengths_are_given_too(start, transmat):
    like, rng = LengthDistribution((np.array([3]), np.ones(1))), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"start|transmat"):
        GivenLength().sample_states(start, transmat, 3, rng, like)


def test_weights_need_not_add_up_to_1():
    tiny = np.array([[5e-324, 0.0, 0.5], [0.0, 5e-324, 0.5]])
    _, states = EndState().sample_states([5e-324, 0.0], tiny, 3, np.random.default_rng(0))
    assert not states.any()


@pytest.mark.parametrize(
    ("termination", "transmat"),
    [
        (EndState(), [[0.5, 0.5 - 1e-9, 1e-9], [0.5, 0.5 - 1e-9, 1e-9]]),
        (EndState(), [[0.5, 0.5, 5e-324], [0.5, 0.5, 1e-17]]),
        (AbsorbingStates((1,)), [[2.0**31, 1.0], [1.0, 2.0**31]]),
        (AbsorbingStates((1,)), [[1.0 - 1e-9, 1e-9], [0.0, 1.0]]),
    ],
)
def test_sequences_of_millions_of_rows_are_refused(termination, transmat):
    with pytest.raises(ValueError, match="rows on average"):
        termination.sample_states([1.0, 0.0], np.array(transmat), 1, np.random.default_rng(0))


def test_long_sequences_are_drawn():
    transmat = np.array([[0.9999, 0.0, 1e-4], [0.0, 1.0, 0.0]])
    offsets, _ = EndState().sample_states([1.0, 0.0], transmat, 500, np.random.default_rng(0))
    assert np.diff(offsets).mean() == pytest.approx(1e4, rel=0.2)

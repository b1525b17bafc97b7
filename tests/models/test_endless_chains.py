"""Chains that cannot end are refused where they would be drawn."""

import numpy as np
import pytest

from sklearn_onlineem.models.terminations import AbsorbingStates, EndState

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

"""Chains that cannot end are refused where they would be drawn."""

import numpy as np
import pytest
from cases.refusals import assert_refused_call, rows_of

from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.models import terminations
from sklearn_onlineem.models.terminations import EndState

START = np.array([1.0, 0.0, 0.0])
LOOP = np.array([[0.5, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def with_ends(moves, ends):
    return np.column_stack([moves * (1.0 - np.array(ends))[:, None], ends])


MASKED = np.ma.masked_array([0.5, 0.5], mask=[True, True])
WITH_END = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
RNG, LIKE = np.random.default_rng(0), LengthDistribution((np.array([3]), np.ones(1)))
REFUSED = """
EndState().sample_states(START, with_ends(*each), 5, RNG)
    for each in ((LOOP, [0.1, 0.0, 0.5]), (np.eye(3), [0.0, 0.5, 0.5])) -> would never end
AbsorbingStates((2,)).sample_states(START, np.array(each), 5, RNG)
    for each in ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
    [[0.3, 0.3, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) -> would never end
EndState().sample_states(each, WITH_END, 3, RNG) for each in (MASKED, [0.5, np.nan], [1.5, -0.5],
    [0.0, 0.0], [0.5, 0.3, 0.2], [[0.5, 0.5]], [0.5, 10**400]) -> start|transmat|never end
EndState().sample_states([0.5, 0.5], each, 3, RNG) for each in (np.ma.masked_less(WITH_END, 0.4),
    -WITH_END, np.inf * WITH_END, 1e308 * np.ones((2, 3)),
    np.array([[0.0, 0.0, 0.5], [0.5, 0.0, 0.5]])) -> start|transmat|never end
# Weights are looked at where lengths are given, too.
GivenLength().sample_states(MASKED, np.eye(2), 3, RNG, LIKE) -> start
GivenLength().sample_states([0.5, 0.5], each, 3, RNG, LIKE) for each in (-np.eye(2), WITH_END) ->
    transmat
# Sequences of millions of rows.
EndState().sample_states([1.0, 0.0], np.array(each), 1, RNG)
    for each in ([[0.5, 0.5 - 1e-9, 1e-9], [0.5, 0.5 - 1e-9, 1e-9]],
    [[0.5, 0.5, 5e-324], [0.5, 0.5, 1e-17]]) -> rows on average
AbsorbingStates((1,)).sample_states([1.0, 0.0], np.array(each), 1, RNG)
    for each in ([[2.0**31, 1.0], [1.0, 2.0**31]], [[1.0 - 1e-9, 1e-9], [0.0, 1.0]]) ->
    rows on average
"""


@pytest.mark.parametrize(("call", "words"), rows_of(REFUSED))
def test_chains_without_an_end_and_what_is_no_weight_are_refused(call, words):
    assert_refused_call(call, words, {**vars(terminations), **globals()})


def test_states_that_are_never_reached_need_no_way_to_the_end():
    transmat = with_ends(np.eye(3), [0.5, 0.0, 0.0])
    offsets, states = EndState().sample_states(START, transmat, 5, np.random.default_rng(0))
    assert len(offsets) == 6 and not states.any()


def test_weights_need_not_add_up_to_1():
    tiny = np.array([[5e-324, 0.0, 0.5], [0.0, 5e-324, 0.5]])
    _, states = EndState().sample_states([5e-324, 0.0], tiny, 3, np.random.default_rng(0))
    assert not states.any()


def test_long_sequences_are_drawn():
    transmat = np.array([[0.9999, 0.0, 1e-4], [0.0, 1.0, 0.0]])
    offsets, _ = EndState().sample_states([1.0, 0.0], transmat, 500, np.random.default_rng(0))
    assert np.diff(offsets).mean() == pytest.approx(1e4, rel=0.2)

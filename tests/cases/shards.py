"""The modes of learning from shards, and passes of batch EM without them."""

import math

import pytest

from cases.comparing import assert_identical
from sklearn_onlineem.em import Batch
from sklearn_onlineem.em.stages.base import Stream

MODES = [
    {"mode": "batch"},
    {"mode": "synchronous", "sync_every": 2},
    {"mode": "asynchronous"},
    {"mode": "synchronous", "combine": "averaging"},
]
all_modes = pytest.mark.parametrize(
    "mode", MODES, ids=lambda m: f"{m['mode']}-{m.get('combine', '')}"
)


def assert_same_fit(found, expected):
    """Learners have ended with the same bits."""
    assert_identical(found.estimator_.model_, expected.estimator_.model_)


def batch_pass(estimator, data):
    """Take one iteration of batch EM; return the log-likelihood before it."""
    fitted, forgetting = estimator._fitted, Stream(lambda t: math.inf)
    size = fitted.state.size_of(data)
    state = fitted.state.after(Batch()._learn(fitted.state, data, forgetting, total_size=size))
    estimator._fitted = fitted._replace(state=state)
    return state.step.log_likelihood

"""The modes of learning from shards, and passes of batch EM without them."""

import math

import pytest

from sklearn_onlineem.em import Batch

MODES = [
    {"mode": "batch"},
    {"mode": "synchronous", "sync_every": 2},
    {"mode": "asynchronous"},
    {"mode": "synchronous", "combine": "averaging"},
]
all_modes = pytest.mark.parametrize(
    "mode", MODES, ids=lambda m: f"{m['mode']}-{m.get('combine', '')}"
)


def batch_pass(estimator, data):
    """Take one iteration of batch EM; return the log-likelihood before it."""
    fitted = estimator._fitted
    size = fitted.state.size_of(data)
    update = Batch()._stepped(fitted.state, data, math.inf, size, size)
    state = fitted.state.after(update)
    estimator._fitted = fitted._replace(state=state)
    return state.step.log_likelihood

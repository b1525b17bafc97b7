"""Challengers: models of a sample of all rows, which may replace the model of a stream."""

import math

import numpy as np

from sklearn_onlineem._errors import ours
from sklearn_onlineem.em.outliers import Gate
from sklearn_onlineem.em.state import FORGOTTEN
from sklearn_onlineem.estimators._stream_start import random_state_of, settled_model

# How many times the rows of the last trial lead to the next one; pseudo-observations of the present
# model for the challenger that begins from it, in units of those that determine a model.
_GROWTH, _SHARE = 1.5, 0.2


def with_sample(estimator, state, data):
    """Return the state after a batch, with a sample that has it; a challenger may have taken over.

    `data` is None if all of its rows are outliers. ValueError if a sample of this size cannot begin
    now, or if the batch continues a sequence, which is not whole.
    """
    size, sample = estimator._solver().sample, state.sample
    if size is None:
        return state._replace(sample=None)
    if sample is None:
        raise ValueError(
            f"solver.sample={size} needs a stream that began with it, by partial_fit. Set another"
            " solver to go on."
        )
    if sample.size == 0 or data is None:
        # It was dropped.
        return state
    if size != sample.size:
        raise ValueError(
            f"solver.sample is {sample.size} in this stream, and cannot become {size}."
        )
    if not hasattr(data, "X") or getattr(data, "before", None) is not None:
        raise ValueError("solver.sample needs rows, documents, or sequences that are whole.")
    sample = sample.after(data)
    if sample.n_rows >= sample.next_trial:
        # The first rows have just made the start.
        is_start = sample.next_trial == 0
        sample = sample._replace(next_trial=math.ceil(_GROWTH * sample.n_rows))
        if not is_start and sample.is_judge.any():
            state = _challenged(estimator, state, sample)
    return state._replace(sample=sample)


def _challenged(estimator, state, sample):
    """Return the state with the model that explains the judges best, by a standard error."""
    is_judge = sample.is_judge
    judges, learners = (sample.kept[np.flatnonzero(some)] for some in (is_judge, ~is_judge))
    if not judges.total_weight > 0.0 < learners.total_weight:
        return state
    seed = (*state.seed, state.n_rows)
    pseudo_statistics = state.own_statistics.scale(_SHARE * state.observations_needed)
    starts = [(state.model, pseudo_statistics)]
    try:
        starts.append(estimator._start().stream_model(learners, random_state_of(seed)))
    except ours(ValueError):  # as of rows without a variance
        pass
    weights = getattr(judges, "sample_weight", None)
    of_present, best, gain = state.model.log_likelihood(judges), None, 0.0
    for model, statistics in starts:
        start = estimator._state_of(model, learners, seed)
        try:
            challenger = settled_model(estimator, start, learners, statistics)
        except ours(ValueError):
            continue
        gains = challenger.log_likelihood(judges) - of_present
        mean = np.average(gains, weights=weights)
        error = math.sqrt(np.average((gains - mean) ** 2, weights=weights) / len(gains))
        if mean > max(gain, error):
            best, gain = challenger, mean
    if best is None:
        return state
    # Its components are others.
    step, gate = state.step._replace(kl_divergence=math.nan), state.gate
    if gate is not None:
        left_out, gate = gate.left_out, Gate.of_start(best, learners, gate.n_left_out)
        gate = gate._replace(left_out=left_out)
    return state._replace(model=best, step=step, gate=gate, decay=state.decay + FORGOTTEN)

"""The start of a stream: made anew from its first rows, which are kept until it is final."""

import copy
import math
from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.loop import Progress, run
from sklearn_onlineem.em.outliers import Gate, far_away
from sklearn_onlineem.em.schedules import PowerDecay
from sklearn_onlineem.em.solvers import Auto, Online
from sklearn_onlineem.em.state import Opening
from sklearn_onlineem.em.stopping import LikelihoodStopping, StandardErrorStopping
from sklearn_onlineem.models.coordinates import has_coordinates
from sklearn_onlineem.statistics import combine

# Rows of a model that tells how many are kept, and most rows that are.
_FEW_ROWS, _MOST_ROWS = 256, 1 << 14
# How many times the rows of the latest start make it anew.
_GROWTH = 1.5
# Passes of batch EM from a start of few rows; and most passes from one of a quarter of the rows
# that are kept, and from the last one. Online EM needs fewer.
_PASSES, _SETTLING_PASSES, _LAST_PASSES, _LAST_ONLINE_PASSES = 3, 20, 100, 10


def learn_first(estimator, data, before):
    """Return the state after first data of a stream, the data that it learnt, and those after it.

    The start depends on the first rows alone, not on how they are cut into batches. With few of
    them it is regularised by pseudo-statistics; from a quarter of the rows that are kept on it is
    settled by batch EM, and from all of them also by split and merge steps. It is made anew when
    there are half as many rows more; batches between take online steps.

    `before` is the state with the `Opening` so far, or None for the first batch.
    """
    initialiser, solver = estimator._start(), estimator._solver()
    if before is None:
        seed, known = estimator._drawn_seed(), estimator._known_model(data)
        model = initialiser.given(data) if known is None else known
        if model is not None:
            state = estimator._state_of(model, data, seed)._replace(is_known=known is not None)
            return solver.step(state, data, estimator._schedule(state)), data, None
        opening = Opening((), 0, _size(estimator, initialiser, data), 0)
    else:
        seed, opening = before.seed, before.kept
    n_rows = opening.n_rows + data.n_rows
    n_needed = min(math.ceil(solver.start_rows * opening.size), _MOST_ROWS)
    is_last = n_rows >= n_needed
    if not is_last:
        # Users may overwrite their batch.
        batches = (*opening.batches, copy.deepcopy(data))
        opening = opening._replace(batches=batches, n_rows=n_rows)
        if n_rows < _GROWTH * opening.n_started:
            since = before._replace(kept=opening.kept)
            state = solver.step(since, data, estimator._schedule(before))
            opening = opening._replace(kept=state.kept)
            return state._replace(kept=opening, recent=()), data, None
    else:
        batches = (*opening.batches, data)
    kept, rest = batches[0].followed_by(batches[1:]), None
    initialiser = initialiser.for_symbols_of(kept)
    if n_rows > n_needed > 0:
        n_first = kept.observations_of(n_needed)
        kept, rest = kept[:n_first], kept[n_first:]
    usual, n_outliers = kept, 0
    if solver.skips_outliers and _may_lack_rows(estimator, kept):
        rows = far_away(kept)
        usual, n_outliers = kept.without(rows) if len(rows) else kept, len(rows)
    model, pseudo_statistics = initialiser.stream_model(usual, random_state_of(seed))
    start, n_passes = estimator._state_of(model, usual, seed), _PASSES
    in_batches = estimator._settling_batch(len(kept)) < len(kept)
    if n_needed > 0 and (in_batches or n_needed <= 4 * kept.n_rows):
        pseudo_statistics, n_passes = initialiser.lasting(pseudo_statistics), 1
        starts = [start]
        if is_last and (model := initialiser.further(usual, _as_in_fit(estimator, seed))):
            starts.append(start._replace(model=model))
        settled = [
            settled_model(estimator, one, usual, pseudo_statistics, is_last) for one in starts
        ]
        if len(settled) > 1:
            settled.sort(key=lambda model: -model.e_step(usual)[1])
        start = start._replace(model=settled[0])
    start = start._replace(kept=opening.kept)
    state = solver.start(start, usual, pseudo_statistics, n_passes)
    if before is not None:
        state = _after(before, state, data, rest)
    elif n_outliers:
        state = state._replace(n_rows=kept.n_rows, step=state.step._replace(n_rows=kept.n_rows))
    if solver.skips_outliers:
        state = state._replace(gate=Gate.of_start(state.model, usual, n_outliers))
    if not is_last:
        opening = opening._replace(batches=(kept,), n_started=kept.n_rows, kept=state.kept)
        state = state._replace(kept=opening)
    return state, usual, rest or None


def _may_lack_rows(estimator, data):
    """Return whether a start can be made without some rows."""
    if isinstance(data, Sequences):
        return estimator.__sklearn_tags__().input_tags.allow_nan
    return isinstance(data, Rows)


def _after(before, state, data, rest):
    """Return the state of a new start as one after another; it counts what was read since."""
    n_seen, n_rows = data.total_weight, data.n_rows
    if rest:
        n_seen, n_rows = n_seen - rest.total_weight, n_rows - rest.n_rows
    n_rows += before.n_rows
    log_likelihood = before.model.e_step(data)[1]
    # Components are others than before.
    step = state.step._replace(log_likelihood=log_likelihood, kl_divergence=math.nan, n_rows=n_rows)
    n_steps, n_seen = before.n_steps + 1, before.n_seen + n_seen
    decay = before.decay + state.decay
    return state._replace(n_steps=n_steps, n_seen=n_seen, n_rows=n_rows, step=step, decay=decay)


def random_state_of(seed):
    """Return the generator of each start, so that it depends on the rows alone."""
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


def _as_in_fit(estimator, seed):
    """Return a generator of the draws of `fit`, if they can be repeated."""
    given = estimator.random_state
    return check_random_state(given) if isinstance(given, Integral) else random_state_of(seed)


def _size(estimator, initialiser, data):
    """Return the size of the model in components; 0 if the start is of the first batch alone."""
    if not estimator._keeps_first_rows or not isinstance(getattr(estimator, "init", ""), str):
        return 0.0
    few = data[: data.observations_of(_FEW_ROWS)]
    model, _ = initialiser.stream_model(few, random_state_of((0,)))
    n_components = getattr(model, "n_components", 1)
    return max(n_components, model.n_parameters() / (3.0 * max(1, data.n_features)))


def settled_model(estimator, start, data, pseudo_statistics, is_last=True):
    """Return the model of a start after batch EM towards the maximum."""

    def stopping(is_exact=True):
        # As `fit` does by default: the parameters of its end are of `fit` alone.
        if is_exact and has_coordinates(start.model):
            return StandardErrorStopping(data.total_weight, start.model.n_parameters())
        return LikelihoodStopping(estimator._approximate_tol)

    terms = [(1.0, term) for term in (start.prior, pseudo_statistics) if term is not None]
    progress = Progress(start._replace(prior=combine(terms) if terms else None))
    plan = estimator._plan(start, data, ())
    n_batch = estimator._settling_batch(len(data))
    plan = replace(plan, rate_is_chosen=False, batch_size=n_batch, stopping=stopping)
    solver, n_passes = estimator._solver(), _LAST_PASSES if is_last else _SETTLING_PASSES
    solver.check(start)
    if n_batch < len(data):
        plan = replace(plan, schedule=PowerDecay(1.0, 0.6))
        solver, n_passes = Online(), _LAST_ONLINE_PASSES if is_last else _PASSES
    else:
        solver = Auto(split_merge=is_last)
    run(solver.passes(progress, data, plan), progress, n_passes)
    return progress.state.model

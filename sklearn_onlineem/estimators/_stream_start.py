"""The start of a stream: made anew from its first rows, which are kept until it is final."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

from sklearn_onlineem._python import ours
from sklearn_onlineem.data import Batch
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.loop import Progress, run
from sklearn_onlineem.em.schedules import PowerDecay
from sklearn_onlineem.em.solvers import Auto, Online
from sklearn_onlineem.em.stages.base import Stream
from sklearn_onlineem.em.stages.opening import FirstRows, Opening
from sklearn_onlineem.em.stages.outliers import SkipOutliers, far_away
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.stopping import LikelihoodStopping, StandardErrorStopping
from sklearn_onlineem.estimators._known import known_model
from sklearn_onlineem.estimators._start import likeliest
from sklearn_onlineem.estimators.learning import drawn_seed, plan_of, schedule_of, state_of
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.coordinates import has_coordinates
from sklearn_onlineem.statistics import combine

# Rows of a model that tells how many are kept.
_FEW_ROWS = 256
# Passes of batch EM from a start of few rows; and most passes from one of a quarter of the rows
# that are kept, and from the last one. Online EM needs fewer.
_PASSES, _SETTLING_PASSES, _LAST_PASSES, _LAST_ONLINE_PASSES = 3, 20, 100, 10
# Pseudo-observations of the present model for the challenger that begins from it, in units of those
# that determine a model.
_SHARE = 0.2


@dataclass
class StreamStarts:
    """Starts of the models of a stream, by the parameters of an estimator.

    `learnt` is the batch of the latest start; `rest` follows it, and has symbols of the same model.
    """

    estimator: object
    learnt: Batch | None = None
    rest: Batch | None = None

    @property
    def has_classes(self) -> bool:
        """Whether components stand for classes, whose numbers stay."""
        return getattr(self.estimator, "semi_supervised", False)

    def steps(self, progress: Progress, data: Batch) -> list[tuple[State | None, State, Batch]]:
        """Take the steps of a batch; return the states before and after each, and what it learnt.

        Without a state the first one is a start, or that of a given model; there is none before.
        """
        estimator, solver, made = self.estimator, self.estimator._solver(), []
        own, rest = solver.stage(Opening), data
        opening = own or Opening(0)
        if progress.state is None:
            progress.state, rest = self._begin(solver, opening, data)
            if progress.state.step is not None:
                made.append((None, progress.state, self.learnt))
                progress.take(progress.state)
        while rest is not None:
            before, self.learnt = progress.state, None
            part, rest = opening.cut(before.carry.get(Opening.name), rest)
            self.rest = rest
            learn = solver.stream(before)
            stream = Stream(schedule_of(estimator, before), solver.draws, self)
            if own and Opening.name in before.carry:
                state = opening.step(learn, before, part, stream)
            else:
                state = before.after(learn(before, part, stream), part.n_rows)
            made.append((before, state, part if self.learnt is None else self.learnt))
            progress.take(state)
        return made

    def _begin(self, solver, opening, data):
        """Return the state after a start from first data, and those of them that are left to learn.

        All are left if the start is given; the state has no `step` then.
        """
        estimator, initialiser = self.estimator, self.estimator._start()
        seed, known = drawn_seed(estimator.random_state), known_model(estimator, data)
        model = initialiser.given(data) if known is None else known
        if model is not None:
            state = state_of(estimator, model, data, seed, known is not None)
            return _begun(solver, state), data
        first = FirstRows(size=self._size(initialiser, data, opening) if opening.rows else 0.0)
        part, self.rest = opening.cut(first, data)
        return opening.anew(first.with_batch(part), self, seed), self.rest

    def started(self, kept: Batch, seed: tuple[int, ...], n_needed: int) -> State:
        """Return the state after a start from first rows, as after one update.

        With few of them it is regularised by pseudo-statistics; from a quarter of the rows that are
        kept on it is settled by batch EM, and from all of them also by split and merge steps.
        """
        estimator = self.estimator
        initialiser, solver = estimator._start(), estimator._solver()
        later = () if self.rest is None else (self.rest,)
        initialiser = initialiser.for_symbols_of(kept.followed_by(later) if later else kept)
        is_last, usual, n_left_out = kept.n_rows >= n_needed, kept, 0
        # Starts of sequences need values for rows that are left out.
        may_lack_rows = isinstance(kept, Rows) or (
            isinstance(kept, Sequences) and estimator.__sklearn_tags__().input_tags.allow_nan
        )
        if may_lack_rows and solver.stage(SkipOutliers) is not None:
            rows = far_away(kept)
            usual, n_left_out = kept.without(rows) if len(rows) else kept, len(rows)
        model, pseudo_statistics = initialiser.stream_model(usual, random_state_of(seed))
        start, n_passes = state_of(estimator, model, usual, seed), _PASSES
        in_batches = estimator._n_in_batch(kept, settles=True) < len(kept)
        if n_needed > 0 and (in_batches or n_needed <= 4 * kept.n_rows):
            pseudo_statistics, n_passes = initialiser.lasting(pseudo_statistics), 1
            models, given = [model], estimator.random_state
            if is_last:
                # Draws are those of `fit`, if they can be repeated.
                is_number = isinstance(given, Integral)
                rng = check_random_state(given) if is_number else random_state_of(seed)
                if model := initialiser.further(usual, rng):
                    models.append(model)
            models = [
                self._settled(start._replace(model=one), usual, pseudo_statistics, is_last)
                for one in models
            ]
            start = start._replace(model=likeliest(models, lambda model: model.e_step(usual)[1]))
        state = solver.start(start, usual, pseudo_statistics, n_passes)
        if n_left_out:
            step = state.step._replace(n_rows=kept.n_rows)
            state = state.counting(n_rows=kept.n_rows)._replace(step=step)
        self.learnt = usual
        return _begun(solver, state, usual, n_left_out, is_last)

    def challengers(self, state: State, data: Batch, seed: tuple[int, ...]) -> Iterator[Model]:
        """Yield models of data, settled by batch EM from the present one and from a new start."""
        estimator, share = self.estimator, _SHARE * state.constants.observations_needed
        starts = [(state.model, state.own_statistics.scale(share))]
        try:
            starts.append(estimator._start().stream_model(data, random_state_of(seed)))
        except ours(ValueError):  # as of rows without a variance
            pass
        for model, statistics in starts:
            try:
                start = state_of(estimator, model, data, seed)
                settled = self._settled(start, data, statistics)
            except ours(ValueError):
                continue
            yield settled

    def _size(self, initialiser, data, opening):
        """Return the size of a model in components; 0 if its start is of the first batch alone."""
        estimator = self.estimator
        starts_anew = estimator._online.keeps_first_rows
        if not (starts_anew and isinstance(getattr(estimator, "init", ""), str)):
            return 0.0
        few, _ = opening.cut(FirstRows(size=_FEW_ROWS / opening.rows), data)
        model, _ = initialiser.stream_model(few, random_state_of((0,)))
        n_components, n_parameters = getattr(model, "n_components", 1), model.n_parameters()
        # A structure has many states, which two rows each determine, and few variances.
        least = max(1, min(n_components, n_parameters), n_components / 50.0)
        return max(least, n_parameters / (3.0 * max(1, data.n_features)))

    def _settled(self, start, data, pseudo_statistics, is_last=True):
        """Return the model of a start after batch EM towards the maximum."""
        estimator = self.estimator

        def stopping(is_exact=True):
            # By default rules: the parameters that end a fit are for `fit` alone.
            if is_exact and has_coordinates(start.model):
                return StandardErrorStopping(data.total_weight, start.model.n_parameters())
            return LikelihoodStopping(estimator._online.tol)

        terms = [(1.0, term) for term in (start.prior, pseudo_statistics) if term is not None]
        progress = Progress(start._replace(prior=combine(terms) if terms else None))
        plan = plan_of(estimator, start, data, ())
        n_batch = estimator._n_in_batch(data, settles=True)
        plan = replace(plan, rate_is_chosen=False, batch_size=n_batch, stopping=stopping)
        estimator._solver().check(start)
        solver, n_passes = Auto(split_merge=is_last), _LAST_PASSES if is_last else _SETTLING_PASSES
        if n_batch < len(data):
            plan = replace(plan, schedule=PowerDecay(1.0, 0.6))
            solver, n_passes = Online(), _LAST_ONLINE_PASSES if is_last else _PASSES
        run(solver.passes(progress, data, plan), progress, n_passes)
        return progress.state.model


def _begun(solver, state, data=None, n_left_out=0, is_final=True):
    """Return the state after a start, with what the stages remember of it."""
    for stage in solver.stream_stages():
        carry = stage.begin(state, data, n_left_out, is_final)
        state = state if carry is None else state.carrying(stage.name, carry)
    return state


def random_state_of(seed):
    """Return the generator of each start, so that it depends on the rows alone."""
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))

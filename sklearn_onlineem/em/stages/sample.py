"""A bounded uniform sample of the observations of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem._checks import check_count
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.stages.base import EStep, Inner, Stage, Stream
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.outliers import SkipOutliers, without_outliers
from sklearn_onlineem.em.state import Carry, State, Update

# One of so many observations judges, and the others teach.
_JUDGES = 5
# Second part of the seed, so that the draws are not those of steps.
_STREAM = 1
# How many times the rows of the last trial lead to the next one.
_GROWTH = 1.5


@dataclass(frozen=True)
class Sample(Carry):
    """Uniform sample of all observations of a stream so far.

    Each observation has a uniform key, and those with the largest keys are kept, with their
    weights. How many come until the next one that is kept is drawn, so that others cost no draws.
    The sample does not depend on how the stream is cut into batches.

    References
    ----------
    Efraimidis & Spirakis, "Weighted random sampling with a reservoir", Information Processing
    Letters 2006 (algorithm A-ExpJ, here of equal weights).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.em.stages.sample import Sample
    >>> X = np.arange(10_000.0)[:, None]
    >>> sample = Sample(1000, (0,)).after(Rows(X[:5000])).after(Rows(X[5000:]))
    >>> len(sample.kept), 4500 < sample.kept.X.mean() < 5500
    (1000, np.True_)
    """

    # Largest number of observations, and the seed of the draws.
    size: int
    seed: tuple[int, ...]
    # The sample, in no order, and logarithms of its keys.
    kept: Batch | None = None
    keys: Floats = field(default_factory=lambda: np.empty(0))
    # Observations until the next one that is kept, itself included, once there are `size`.
    ahead: int = 0
    n_draws: int = 0
    n_rows: int = 0
    # Number of rows at which challengers are tried next.
    next_trial: int = 0

    def after(self, data: Batch) -> Self:
        """Return the sample after more observations."""
        n, n_before = len(data), len(self.keys)
        if n_before == self.size and n < self.ahead:
            return replace(self, ahead=self.ahead - n, n_rows=self.n_rows + data.n_rows)
        bits = np.random.PCG64((*self.seed, _STREAM))
        rng = np.random.Generator(bits.advance(self.n_draws))
        # The first ones are all kept.
        begin = min(n, self.size - n_before)
        keys = np.append(self.keys, np.log1p(-rng.random(begin)))
        ahead, n_draws = self.ahead, self.n_draws + begin
        # Numbers of observations, those of `data` after those before.
        places = np.arange(n_before + begin)
        if len(keys) == self.size:
            if begin:
                ahead, n_draws = _jump(keys, rng), n_draws + 1
            while ahead <= n - begin:
                begin += ahead
                slot = int(keys.argmin())
                # Above the smallest key.
                least = math.exp(keys[slot])
                keys[slot] = math.log(least + (1.0 - least) * (1.0 - rng.random()))
                places[slot] = n_before + begin - 1
                ahead, n_draws = _jump(keys, rng), n_draws + 2
            ahead -= n - begin
        kept = data if self.kept is None else self.kept.concatenate([self.kept, data])
        # They may be views of a batch, which users may overwrite.
        n_rows = self.n_rows + data.n_rows
        return replace(
            self, kept=kept[places], keys=keys, ahead=ahead, n_draws=n_draws, n_rows=n_rows
        )

    @property
    def n_kept(self) -> int:
        return 0 if self.kept is None else self.kept.n_rows

    def restarted(self, state, n_rows, share):
        return Sample(self.size, (*state.seed, state.counters.n_rows))

    def with_model(self, model, state):
        return Sample(self.size, (*state.seed, state.counters.n_rows))

    def due(self) -> tuple[Sample, bool]:
        """Return the sample, and whether challengers are tried now."""
        if self.n_rows < self.next_trial:
            return self, False
        # The first rows have just made the start.
        is_start = self.next_trial == 0
        after = replace(self, next_trial=math.ceil(_GROWTH * self.n_rows))
        return after, not is_start and bool(after.is_judge.any())

    @property
    def is_judge(self) -> NDArray[np.bool]:
        """Which of the observations that are kept judge."""
        order = np.random.default_rng((*self.seed, _STREAM + 1)).permutation(self.size)
        return (order < self.size // _JUDGES)[: len(self.keys)]


# The sample of a stream that goes on without one.
NO_SAMPLE = Sample(0, ())


def without_sample(state: State) -> State:
    """Return the state of a stream that goes on without its sample, if it has one."""
    name = Challenge.name
    return state.carrying(name, NO_SAMPLE) if name in state.carry else state


def _jump(keys, rng):
    """Return how many observations come until the next one that is kept, itself included."""
    return max(1, math.ceil(math.log1p(-rng.random()) / keys.min()))


@dataclass(frozen=True)
class Challenge(Stage):
    """A uniform sample of all observations of a stream teaches and judges challengers.

    Whenever the stream is half as long again, one of them may take the place of the model, see
    :class:`~sklearn_onlineem.em.Online`.

    Parameters
    ----------
    size : int
        Largest number of observations that are kept, at least 10.
    """

    size: int
    name = "sample"

    def __post_init__(self):
        check_count("sample", self.size, least=10)

    def begin(
        self, state: State, data: Batch | None, n_left_out: int, is_final: bool
    ) -> Carry | None:
        begun = Sample(self.size, state.seed)
        if data is None or not is_final:
            return begun if is_final else None
        self._check(begun, data)
        return begun.after(data).due()[0]

    def step(
        self, inner: Inner, state: State, batch: Batch, stream: Stream, found: EStep | None = None
    ) -> Update:
        sample, update = state.carry.get(self.name), inner(state, batch, stream, found)
        if sample is None and Opening.name in state.carry:
            # It begins from the rows of the final start.
            return update
        usual = without_outliers(update.carry, batch)
        # It may have been dropped.
        if sample is None or (sample.size > 0 and usual is not None):
            self._check(sample, usual)
            sample, tries = sample.after(usual).due()
            if tries:
                _challenge(update, sample, state, batch.n_rows, stream)
        update.carry[self.name] = sample
        return update

    def _check(self, sample, data):
        if sample is None:
            raise ValueError(
                f"solver.sample={self.size} needs a stream that began with it, by partial_fit. Set"
                " another solver to go on."
            )
        if self.size != sample.size:
            raise ValueError(
                f"solver.sample is {sample.size} in this stream, and cannot become {self.size}."
            )
        if not hasattr(data, "X") or getattr(data, "before", None) is not None:
            raise ValueError("solver.sample needs rows, documents, or sequences that are whole.")


def _challenge(update, sample, state, n_rows, stream):
    """Give an update the model that explains the judges best, by a standard error."""
    is_judge = sample.is_judge
    judges, learners = (sample.kept[np.flatnonzero(some)] for some in (is_judge, ~is_judge))
    if not judges.total_weight > 0.0 < learners.total_weight:
        return
    weights, seed = getattr(judges, "sample_weight", None), state.counters.n_rows + n_rows
    of_present, best, gain = update.model.log_likelihood(judges), None, 0.0
    lengths = state.lengths_with(update.data)
    state = state._replace(model=update.model, merged=None, lengths=lengths)
    for challenger in stream.starts.challengers(state, learners, (*state.seed, seed)):
        gains = challenger.log_likelihood(judges) - of_present
        mean = np.average(gains, weights=weights)
        error = math.sqrt(np.average((gains - mean) ** 2, weights=weights) / len(gains))
        if mean > max(gain, error):
            best, gain = challenger, mean
    if best is not None:
        update.model, update.is_new = best, True
        if gate := update.carry.get(SkipOutliers.name):
            update.carry[SkipOutliers.name] = gate.of_start(best, learners)

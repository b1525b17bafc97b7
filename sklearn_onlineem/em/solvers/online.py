"""Online EM."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from sklearn_onlineem._checks import check_bool, check_count
from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.stages.base import Stage, Stream
from sklearn_onlineem.em.step import Exact, Inertia

_SETTINGS_OF_STAGES = "start_rows", "sample", "skips_outliers", "reinitialises", "follows_levels"


@dataclass(frozen=True)
class Online(Solver):
    """Online EM: passes over shuffled mini-batches, by the learning rates.

    The stopping rule uses the log-likelihood of each batch before the model learns from it. A
    weight repeats an observation also for `skips_outliers`, as the nearest whole number from 1 up;
    the settings about rows that are kept do not depend on weights.

    Parameters
    ----------
    average_from : int, default=None
        First pass of a fit whose iterates are averaged: the fit returns the maximiser of the mean
        of their own statistics (Polyak-Ruppert). None: the last iterate, as of streams.
    inertia : Inertia, default=Exact()
        The old model's own statistics, or an estimate of them, `Sampled`.
    reinitialises : bool, default=True
        Whether empty components of a mixture, states of a hidden Markov model or topics may be
        reinitialised in a stream; a warning says if those of a nominal family cannot. While there
        are some, the last 500 of each 3,200 rows are kept. False for sources that return to what
        they were, as by day and by night, and where no rows must be kept.
    start_rows : int, default=100
        First rows or documents of a stream that are kept, for each component, and more where a
        component has more than three parameters for each column. As they come, the start is made
        anew from all of them; at last it is settled by batch EM with split and merge steps, of
        topics by passes of online EM, and they are dropped. 0: it is made from the first batch.
    skips_outliers : bool, default=True
        Whether rows of a stream that are far too surprising are left out of learning, with one
        warning: those whose surprise, -log p(row), is above the 99 % quantile of the latest 1,000
        rows by a hundred times its distance from the median (a hundred nats, if that is less); if
        fewer than 3 % of 300 rows are, and not half of the last 20 as surprising, but for a factor
        of 2, as rows of a rare cluster are. Models of sequences take such rows as missing.
    follows_levels : bool, default=True
        Whether a stream of a Kalman filter follows its source to a new level, and bounds the
        eigenvalues of the transitions.
    sample : int, default=None
        Size of a uniform sample of all rows, documents or whole sequences, for streams that are
        sorted, not for sources that drift. *The estimator holds these rows*, and so does its
        pickle: `sample_` shows them, and `drop_sample` forgets them; merges and callbacks go on
        without. Whenever a stream is half as long again, four fifths of the sample make two
        challengers, by batch EM from the present model and from a new start. One takes its place if
        it explains the last fifth better, by more than a standard error. None: no sample.
    stages : tuple of Stage, default=None
        The stages of a stream, the outermost first, in place of those that the five settings before
        name: values of `em.stages`, or of a class of your own. (): a step is eq. (3) and nothing
        else.

    References
    ----------
    Amid & Warmuth, UAI 2020, eq. (3); Cappe & Moulines, JRSS-B 2009, section 4.1 (averaging).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.em import Online
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([1.0, 20.0], size=(3000, 1)))
    >>> mixture = PoissonMixture(
    ...     2, solver=Online(average_from=2), eta0=1.0, batch_size=100, random_state=0)
    >>> np.sort(mixture.fit(X).means_.ravel()).round()
    array([ 1., 20.])
    """

    average_from: int | None = None
    inertia: Inertia = Exact()
    reinitialises: bool = True
    start_rows: int = 100
    skips_outliers: bool = True
    follows_levels: bool = True
    sample: int | None = None
    stages: tuple[Stage, ...] | None = None

    def __post_init__(self):
        for name in ("reinitialises", "skips_outliers", "follows_levels"):
            check_bool(name, getattr(self, name))
        check_count("start_rows", self.start_rows, least=0)
        check_count("average_from", self.average_from, optional=True)
        check_count("sample", self.sample, least=10, optional=True)
        if not isinstance(self.inertia, Inertia):
            raise ValueError(f"inertia must be Exact() or Sampled(...), got {self.inertia!r}.")
        if self.stages is None:
            return
        named = [x for x in _SETTINGS_OF_STAGES if getattr(self, x) != getattr(Online, x)]
        if named:
            raise ValueError(f"stages are all stages: leave {named[0]} of Online at its default.")
        is_tuple = isinstance(self.stages, tuple)
        if not is_tuple or not all(isinstance(stage, Stage) for stage in self.stages):
            raise ValueError(f"stages must be a tuple of stages or None, got {self.stages!r:.60}.")

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        settled, stream = plan.stopping(is_exact=False), Stream(plan.schedule)

        def learn(state, batch):
            return state.after(self._learn(state, batch, stream, total_size=size_of_all))

        for number in count(1):
            before, size_of_all = progress.state.model, progress.state.size_of(data)
            log_likelihood = self._shuffled_pass(progress, data, plan, learn, number)
            state = progress.state
            divergence = state.model.kl_divergence(before, like=state.lengths)
            is_last = settled(log_likelihood, divergence)
            yield log_likelihood, is_last and state.model.n_active == before.n_active

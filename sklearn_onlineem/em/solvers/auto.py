"""What `fit` does by default: online passes, split and merge steps, then batch EM."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice

from sklearn_onlineem._checks import check_bool, check_count
from sklearn_onlineem._python import ours
from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.solvers.batch import Batch
from sklearn_onlineem.em.solvers.online import Online
from sklearn_onlineem.em.solvers.split_merge import PASSES, SplitMerge
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.stopping import never
from sklearn_onlineem.models.capabilities import SplitsAndMerges

# Chosen by benchmarks/real_data/split_merge.py (benchmarks/README.md); what they are is told below.
_COMPONENTS, _MANY_ROWS, _FEW_VALUES, _TURNS, _BATCHES = 5, 16_000, 10, 6, 8
# ... by benchmarks/real_data/chain_starts.py, for hidden Markov models.
_STATES, _STARTS, _TRIAL = 3, 3, 20


@dataclass(frozen=True)
class Auto(Solver):
    """Online EM if the user has chosen a rate; else an online pass, then batch EM to the maximum.

    Mixtures of at least 5 components take :class:`~sklearn_onlineem.em.SplitMerge` steps on the
    way. With fewer than 16,000 rows, or 10 values for each parameter, they take 6 turns before: an
    online pass in 8 mini-batches, then batch EM, as many passes as after a step. With fewer than
    16,000 rows there are two starts, and the likelier one after the turns goes on. With more
    parameters than rows there are no steps, and the number of values alone decides on turns.

    Hidden Markov models of at least 3 states have three starts, and the likeliest after 20 passes
    goes on.

    There is one start, and neither steps nor turns, with more parameters than values; where
    components have their places, by start values, labels, a learnt prior, or the model that a fit
    continues; with priors that remove components; and with ``tol=0``. Data of one batch, and fits
    that continue, take no online pass but those of turns. If turns lead to a cluster without a
    covariance, batch EM goes on from the start.

    Parameters
    ----------
    online_passes : int, default=1
        Passes in mini-batches before batch EM, at least 1.
    split_merge : bool, default=True
        Whether components may be split and merged, passes may take turns, and several starts may be
        tried.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.em import Auto
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([1.0, 20.0], size=(3000, 1)))
    >>> mixture = PoissonMixture(2, solver=Auto(online_passes=2), batch_size=1500, random_state=0)
    >>> [bool(np.isinf(step.eta)) for step in mixture.fit(X).history_[:6]]
    [False, False, False, False, True, True]
    """

    online_passes: int = 1
    split_merge: bool = True

    def __post_init__(self):
        check_count("online_passes", self.online_passes)
        check_bool("split_merge", self.split_merge)

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        if plan.rate_is_chosen:
            yield from Online().passes(progress, data, plan)
            return
        start, n, is_new = progress.state, len(data), plan.bound_before == -math.inf
        steps_pay = takes_turns = False
        is_mixture = isinstance(start.model, SplitsAndMerges)
        if is_new and is_mixture and self._may_move(start, data, plan):
            n_parameters = start.model.n_parameters()
            steps_pay = 0 < n_parameters <= n
            takes_turns = steps_pay and n < _MANY_ROWS
            takes_turns |= n * data.n_features < _FEW_VALUES * n_parameters
        climbs = (SplitMerge(n_components="fixed") if steps_pay else Batch()).passes
        size = min(plan.batch_size, -(-n // _BATCHES)) if takes_turns else plan.batch_size
        n_turns = _TURNS if takes_turns else int(is_new and n > size)
        endless = replace(plan, batch_size=size, stopping=never)
        try:
            for _ in range(n_turns):
                yield from islice(Online().passes(progress, data, endless), self.online_passes)
                if takes_turns:
                    yield from islice(Batch().passes(progress, data, endless), PASSES)
                    # Rates start again.
                    progress.state = progress.state.counting(size=0.0)
            yield from climbs(progress, data, plan)
        except ours(ValueError):
            # Without a floor small mini-batches may lead to clusters without a covariance.
            if not takes_turns or progress.is_calling:
                raise
            progress.state = progress.state._replace(model=start.model)
            yield from climbs(progress, data, plan)

    def trial(self, state: State, data: Observations, plan: Plan) -> tuple[int, int | None]:
        if plan.rate_is_chosen or plan.max_iter == 0 or not self._may_move(state, data, plan):
            return 1, None
        if not isinstance(state.model, SplitsAndMerges):
            return _STARTS, _TRIAL
        return (2, _TURNS * (self.online_passes + PASSES)) if len(data) < _MANY_ROWS else (1, None)

    def _may_move(self, state, data, plan):
        """Return whether components are several, with values enough and no places of their own."""
        model, is_mixture = state.model, isinstance(state.model, SplitsAndMerges)
        if model.n_components < (_COMPONENTS if is_mixture else _STATES):
            return False
        is_free = self.split_merge and not plan.start_is_given and plan.stopping().tol > 0.0
        if not is_free or model.n_parameters() > data.n_rows * data.n_features:
            return False
        if not is_mixture:
            return data.labels is None
        try:
            model.check_split_merge(state.prior, data, fixed=True)
        except ours(ValueError):
            return False
        return True

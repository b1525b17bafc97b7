"""What `fit` does by default: online passes, split and merge steps, then batch EM."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice

from sklearn_onlineem._errors import ours
from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.settings import check_bool, check_count
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.solvers.batch import Batch
from sklearn_onlineem.em.solvers.online import Online
from sklearn_onlineem.em.solvers.split_merge import SplitMerge
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.stopping import Never
from sklearn_onlineem.models.capabilities import SplitsAndMerges

# Fewest components with which steps pay, and rows from which on one start without turns is enough.
# Chosen by benchmarks/real_data/split_merge.py, as the other numbers are.
_COMPONENTS, _MANY_ROWS = 5, 16_000
# With more parameters than rows, values for each parameter below which turns pay, and below which
# they do not: full covariances are singular then, and EM settles at once. Turns, passes of batch EM
# in each of them, and mini-batches in its online passes.
_FEW_VALUES, _TOO_FEW_VALUES, _TURNS, _PASSES, _BATCHES = 10, 2, 6, 5, 8


@dataclass(frozen=True)
class Auto(Solver):
    """Online EM if the user has chosen a rate; else an online pass, then batch EM to the maximum.

    The online pass comes most of the way, and batch EM then converges in fewer passes than online
    EM would, to a local maximum that it certifies, see :class:`~sklearn_onlineem.em.Batch`. Data of
    at most one batch, but for the turns below, and fits that continue another fit use batch EM
    only.

    Mixtures of at least 5 components, and of at most as many parameters as rows, take
    :class:`~sklearn_onlineem.em.SplitMerge` steps before batch EM has converged, which keep the
    number of components. With fewer than 16,000 rows, an online pass in mini-batches of an eighth
    of the rows and 5 passes of batch EM take turns before, six times: the small batches lead out of
    poor optima. So they do with more parameters than rows, if there are 2 to 10 values for each. If
    they lead to a cluster without a covariance, batch EM goes on from the start instead. With
    16,000 rows or more one fit is then better than the best of ten plain ones. With fewer,
    ``n_init="auto"`` takes two starts, and the one that is likelier after its turns goes on alone,
    which is as good. There is one start, and there are neither steps nor turns, where components
    have their places, by given start values, labels, a learnt prior, or the model that a fit
    continues; with priors that remove components; with fewer than 2 values for each parameter, as
    full covariances of fewer rows than columns, with which EM settles at once; and with ``tol=0``.

    Parameters
    ----------
    online_passes : int, default=1
        Passes in mini-batches before batch EM, at least 1.
    split_merge : bool, default=True
        Whether components may be split and merged, passes may take turns, and few rows take two
        starts.

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
        may_move = is_new and self._may_regroup(start, data, plan)
        n_parameters = start.model.n_parameters() if may_move else 0
        steps_pay = 0 < n_parameters <= n
        climbs = (SplitMerge(n_components="fixed") if steps_pay else Batch()).passes
        takes_turns = steps_pay and n < _MANY_ROWS
        takes_turns |= n * data.n_features < _FEW_VALUES * n_parameters
        size = min(plan.batch_size, -(-n // _BATCHES)) if takes_turns else plan.batch_size
        n_turns = _TURNS if takes_turns else int(is_new and n > size)
        if n_turns:  # or the generator is not needed
            never = {"stopping": lambda is_exact=True: Never(), "seed": plan.rng}
            endless = replace(plan, batch_size=size, **never)
        try:
            for _ in range(n_turns):
                yield from islice(Online().passes(progress, data, endless), self.online_passes)
                if takes_turns:
                    yield from islice(Batch().passes(progress, data, endless), _PASSES)
                    # Rates start again.
                    progress.state = progress.state._replace(size_seen=0.0)
            yield from climbs(progress, data, plan)
        except ours(ValueError):
            # Without a floor small mini-batches may lead to clusters without a covariance.
            if not takes_turns or progress.is_calling:
                raise
            progress.state = progress.state._replace(model=start.model)
            yield from climbs(progress, data, plan)

    def trials(self, state: State, data: Observations, plan: Plan) -> tuple[int, int]:
        is_open = len(data) < _MANY_ROWS and not plan.rate_is_chosen and plan.max_iter != 0
        if is_open and self._may_regroup(state, data, plan):
            return 2, _TURNS * (self.online_passes + _PASSES)
        return 1, 0

    def _may_regroup(self, state, data, plan):
        """Return whether the components of a fit are several, and have no places of their own."""
        model, is_open = state.model, self.split_merge and not plan.start_is_given
        if not isinstance(model, SplitsAndMerges) or model.n_components < _COMPONENTS:
            return False
        n_parameters, n_values = model.n_parameters(), len(data) * data.n_features
        if n_parameters > len(data) and _TOO_FEW_VALUES * n_parameters > n_values:
            return False
        try:
            model.check_split_merge(state.prior, data, fixed=True)
            return is_open and plan.stopping().tol > 0.0
        except ours(ValueError):
            return False

"""What `fit` does by default: an online pass, split and merge steps, then batch EM."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice

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

__all__ = ["Auto"]

# Fewest components with which steps pay, and starts by rows: three below the first number, two
# below the second. Chosen by benchmarks/real_data/split_merge.py.
_COMPONENTS, _FEW_ROWS, _MANY_ROWS = 5, 4096, 16_000


@dataclass(frozen=True)
class Auto(Solver):
    """Online EM if the user has chosen a rate; else an online pass, then batch EM to the maximum.

    The online pass comes most of the way, and batch EM then converges in fewer passes than online
    EM would. Data of at most one batch, and fits that continue another one, use batch EM only.

    Mixtures of at least 5 components, and of at most as many parameters as rows, take
    :class:`~sklearn_onlineem.em.SplitMerge` steps before batch EM has converged, which keep the
    number of components. With 16,000 rows or more one fit is then better than the best of ten
    without them. With fewer rows, ``n_init="auto"`` keeps the best of two starts, and of three with
    fewer than 4,096: that is about as good as the best of ten. There is one start, and there are no
    steps, where components have their places, by given start values, labels, a learnt prior, or the
    model that a fit continues; with priors that remove components; and with ``tol=0``.

    Parameters
    ----------
    online_passes : int, default=1
        Passes in mini-batches before batch EM, at least 1.
    split_merge : bool, default=True
        Whether components may be split and merged, and few rows take several starts.

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
        is_new = plan.bound_before == -math.inf
        if is_new and len(data) > plan.batch_size:
            without_end = replace(plan, stopping=lambda is_exact: Never(), seed=plan.rng)
            online = Online().passes(progress, data, without_end)
            yield from islice(online, self.online_passes)
        may_move = self.split_merge and is_new and _may_regroup(progress.state, data, plan)
        may_move = may_move and len(data) >= progress.state.model.n_parameters()
        batch = SplitMerge(n_components="fixed") if may_move else Batch()
        yield from batch.passes(progress, data, plan)

    def n_starts(self, state: State, data: Observations, plan: Plan) -> int:
        may_start_anew = self.split_merge and not plan.rate_is_chosen and plan.max_iter != 0
        if len(data) >= _MANY_ROWS or not (may_start_anew and _may_regroup(state, data, plan)):
            return 1
        return 3 if len(data) < _FEW_ROWS else 2


def _may_regroup(state, data, plan):
    """Return whether the components of a fit are several, and have no places of their own."""
    model = state.model
    if plan.start_is_given or not plan.stopping().tol > 0.0:
        return False
    if not isinstance(model, SplitsAndMerges) or model.n_components < _COMPONENTS:
        return False
    try:
        model.check_split_merge(state.prior, data, fixed=True)
    except ValueError:
        return False
    return True

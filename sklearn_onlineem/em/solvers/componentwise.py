"""Generalised EM of mixtures: one component at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver, has_settled
from sklearn_onlineem.models.capabilities import ComponentUpdates
from sklearn_onlineem.models.component_steps import check_order

__all__ = ["Componentwise"]


@dataclass(frozen=True)
class Componentwise(Solver):
    r"""Generalised EM of a mixture: a step refreshes one component and its weight.

    .. math::
        w_k &\leftarrow \frac{c_k}{c_k + \sum_{j \ne k} c_j}, \qquad
        w_j \leftarrow w_j \, \frac{1 - w_k^\text{new}}{1 - w_k^\text{old}}, \\
        \theta_k &\leftarrow \arg\max_\theta \sum_n r_{nk} \log p(x_n \mid \theta) + \log p(\theta)

    with the counts :math:`c_k = \sum_n r_{nk} + \alpha_k - 1`. The others keep the ratios of their
    weights, and the next step has responsibilities of the mixture as it is now: of all log
    densities, only those of the component are computed anew. A pass is a step for each component
    that has any weight, and no step lowers the likelihood, or the posterior. Fixed points are those
    of batch EM, and with one component a pass is one of batch EM. Streams take online steps.

    It needs fewer passes than batch EM, which cost several times as much, so that batch EM takes
    less time nearly always; see :ref:`componentwise` for when not. Log densities are kept: a double
    for each row and component.

    Parameters
    ----------
    order : {"gain", "cyclic"}, default="gain"
        Which component is next. "gain": that of which most is expected, which is what its own last
        step gained in the bound of EM, and one K-th of what others have gained since then; the
        first pass takes all in turn. "cyclic": each pass takes all in turn.

    Raises
    ------
    ValueError
        If `order` is none of these; in a fit, if the model is no mixture.

    Notes
    -----
    In expectation over a component that is drawn at random, a step raises the bound by at least
    :math:`c = 1/K` of what a step of batch EM would, and with the weights as one more block by
    :math:`c = 1/(K + 1)`: so bounds on the convergence of EM hold for K times, or K + 1 times, as
    many steps. There is no such c where weights are never refreshed, and none where components
    share a parameter: with a tied covariance each step takes a mean, under the covariance as it is,
    and each pass ends with a step of batch EM besides.

    With ``weight_concentration_prior`` at 0 or below, and ``order="cyclic"``, this is the algorithm
    of Figueiredo & Jain: a component whose rows are too few has no weight after its turn, and the
    next one has its rows.

    References
    ----------
    Kunstner, Kumar & Schmidt, "Homeomorphic-Invariance of EM: Non-Asymptotic Convergence in KL
    Divergence for Exponential Families via Mirror Descent", AISTATS 2021, on generalised EM;
    Celeux, Chrétien, Forbes & Mkhadri, "A component-wise EM algorithm for mixtures", JCGS 2001;
    Figueiredo & Jain, "Unsupervised learning of finite mixture models", PAMI 2002, section 4.

    Examples
    --------
    Of eight components two overlap, which is where most of the passes go:

    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.em import Batch, Componentwise
    >>> rng = np.random.default_rng(0)
    >>> centres = np.array([[0.0], [1.0], [12.0], [24.0], [36.0], [48.0], [60.0], [72.0]])
    >>> X = rng.normal(size=(4000, 1)) + rng.choice(centres, size=4000)
    >>> for solver in (Batch(), Componentwise("cyclic"), Componentwise()):
    ...     mixture = GaussianMixture(8, solver=solver, init=centres, tol=1e-6).fit(X)
    ...     print(mixture.n_iter_, round(mixture.score(X), 4))
    29 -3.3431
    26 -3.3431
    13 -3.3431
    """

    order: str = "gain"
    requires = ComponentUpdates

    def __post_init__(self):
        check_order(self.order)

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        settled, state = plan.stopping(), progress.state
        steps = self._required(state.model).component_steps(data, state.prior, self.order)
        while True:
            log_likelihood = steps.sweep()
            state = progress.state
            size = state.size_of(data)
            progress.take(state.after(steps.model(), math.inf, log_likelihood, data, size))
            yield log_likelihood, has_settled(settled, progress.state.step)

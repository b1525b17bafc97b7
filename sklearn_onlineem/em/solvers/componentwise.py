"""Generalised EM of mixtures: one component at a time."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.models.capabilities import ComponentUpdates


@dataclass(frozen=True)
class Componentwise(Solver):
    r"""Generalised EM of a mixture: a step updates one component and its weight.

    .. math::
        w_k &\leftarrow \frac{c_k}{c_k + \sum_{j \ne k} c_j}, \qquad
        w_j \leftarrow w_j \, \frac{1 - w_k^\text{new}}{1 - w_k^\text{old}}, \\
        \theta_k &\leftarrow \arg\max_\theta \sum_n r_{nk} \log p(x_n \mid \theta) + \log p(\theta)

    with the counts :math:`c_k = \sum_n r_{nk} + \alpha_k - 1`. The next step uses the
    responsibilities of the new mixture. A pass is a step for each active component; no step lowers
    the likelihood, or the posterior, and fixed points are those of batch EM. Batch EM usually takes
    less time, see :ref:`componentwise`. Log densities are kept: a double for each row and
    component.

    Parameters
    ----------
    order : {"gain", "cyclic"}, default="gain"
        The order of components. "gain": next is the component with the largest expected gain, which
        is the gain of its last step in the bound of EM, plus one K-th of what others have gained
        since; the first pass takes all in turn. "cyclic": each pass takes all in turn.

    Raises
    ------
    ValueError
        If `order` is none of these; in a fit, if the model is no mixture.

    Notes
    -----
    In expectation over a component drawn at random, a step raises the bound by at least 1/K of a
    step of batch EM, or 1/(K + 1) with the weights as one more block: bounds on the convergence of
    EM hold for as many times the steps. With a tied covariance a step updates a mean, under the old
    covariance, and each pass ends with a step of batch EM.

    References
    ----------
    Kunstner, Kumar & Schmidt, "Homeomorphic-Invariance of EM: Non-Asymptotic Convergence in KL
    Divergence for Exponential Families via Mirror Descent", AISTATS 2021, theorem 1; Celeux,
    Chrétien, Forbes & Mkhadri, "A component-wise EM algorithm for mixtures", JCGS 2001; Figueiredo
    & Jain, "Unsupervised learning of finite mixture models", PAMI 2002, section 4 (the case of
    "cyclic" with a prior concentration of the weights of 0 or below).

    Examples
    --------
    Of eight components two overlap, and take most of the passes:

    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.em import Batch, Componentwise
    >>> rng = np.random.default_rng(0)
    >>> centres = np.array([[0.0], [1.0], [12.0], [24.0], [36.0], [48.0], [60.0], [72.0]])
    >>> X = rng.normal(size=(4000, 1)) + rng.choice(centres, size=4000)
    >>> for solver in (Batch(acceleration=None), Componentwise("cyclic"), Componentwise()):
    ...     mixture = GaussianMixture(8, solver=solver, init=centres, tol=1e-6).fit(X)
    ...     print(mixture.n_iter_, round(mixture.score(X), 4))
    29 -3.3431
    26 -3.3431
    13 -3.3431
    """

    order: str = "gain"
    requires = ComponentUpdates

    def __post_init__(self):
        if not isinstance(self.order, str) or self.order not in ("gain", "cyclic"):
            raise ValueError(f"order must be 'gain' or 'cyclic', got {self.order!r}.")

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        settled, state = plan.stopping(), progress.state
        steps = self._required(state.model).component_steps(data, state.prior, self.order)
        for model, log_likelihood in steps:
            progress.take(progress.state.after_pass(model, log_likelihood, data))
            step = progress.state.step
            is_last = settled(log_likelihood, step.kl_divergence) and step.n_components is None
            yield log_likelihood, is_last

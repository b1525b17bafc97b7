"""Batch EM with split and merge steps, which keep or find the number of components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sklearn_onlineem._checks import check_count
from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Generator
from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.solvers.batch import Batch
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.models.capabilities import SplitsAndMerges
from sklearn_onlineem.statistics import Statistics

# Steps begin when a pass of EM gains less, and those of a fixed number of components end when the
# last ones have gained less, in nats per row.
_NEARLY_SETTLED, _LEAST_GAIN = 1e-2, 2e-3
# Passes of EM after each, and after what else leads out of an optimum.
PASSES = 5


def split_merge_step(
    model: SplitsAndMerges,
    data: Observations,
    rng: Generator,
    prior: Sequence[tuple[float, Statistics]] = (),
    price: float | None = None,
    n_merges: int = 0,
) -> tuple[SplitsAndMerges, float, float] | None:
    """Merge or split components, or both, and take some passes of EM.

    Return the new model, the mean log-likelihood of the data *under the old one*, and the gain of
    the criterion per observation, or None if no step raises it. The criterion is the likelihood
    times the prior; without a fixed number of components, the likelihood at the price of the
    parameters.

    Batch EM of `model` has nearly converged. `prior` are terms of `batch_step`; `price` and
    `n_merges` are those of `SplitsAndMerges.split_merge_steps`.
    """

    def criterion(model, log_likelihood):
        if price is not None:
            return log_likelihood - price * model.n_parameters()
        return log_likelihood + sum(a * model.expected_log_likelihood(s) for a, s in prior)

    log_likelihood = None
    for new in model.split_merge_steps(data, rng, prior, price, n_merges):
        if log_likelihood is None:
            log_likelihood = model.e_step(data)[1]
        try:
            for _ in range(PASSES):
                new, _ = batch_step(new, data, prior)
        except ours(ValueError):
            # Some rows determine no parameters.
            continue
        gain = criterion(new, new.e_step(data)[1]) - criterion(model, log_likelihood)
        if gain > 0.0:
            return new, log_likelihood, gain
    return None


@dataclass(frozen=True)
class SplitMerge(Solver):
    r"""Batch EM with split and merge steps: out of local optima, and to the number of components.

    With ``n_components="fixed"`` their number stays: two components are merged, and another one is
    split, as where two share one cluster and a third one has two. After some passes of batch EM it
    tries triples whose split gains most and whose merge loses least, by EM of these components and
    of those that overlap them, on a sample of the rows. Triples are taken that gain 0.002 nats a
    row, and half a nat for each parameter of a component, and leave no component with less than
    four values for each of its parameters. Five passes of EM follow, and all is kept if that raises
    the likelihood of all rows, times the prior. When it does not, or by less than 0.002 nats, batch
    EM goes on until `tol`.

    With ``n_components="free"``, the default, `n_components` of the estimator is the largest
    number; unused components have a weight of exactly 0, and `n_components_` counts the others. It
    tries the merges that lose the least on the sample, then the splits that gain most. Five passes
    of EM follow each, and it is kept if that raises

    .. math:: \sum_n \log p(x_n) - \tfrac{1}{2} \, \text{parameters} \times \log N,

    which is Schwarz's criterion (BIC) times -1/2, with N the total weight of the rows.

    Passes are those of batch EM, and the steps that are kept. Streams take online steps, and keep
    their components. See :ref:`number_of_components`.

    Parameters
    ----------
    n_merges : int, default=8
        Merges to try before splits, at least 1; another number requires ``n_components="free"``.
    n_components : {"free", "fixed"}, default="free"
        Whether the steps change the number of components.

    Raises
    ------
    ValueError
        In a fit, if the model is no mixture, or components are known; if the number is free, and a
        prior gives weight to all components; or if it is fixed, and a prior removes components.

    References
    ----------
    Ueda, Nakano, Ghahramani & Hinton, "SMEM algorithm for mixture models", Neural Computation 2000
    (a fixed number); Figueiredo & Jain, "Unsupervised learning of finite mixture models", PAMI 2002
    (from many components down); Schwarz, "Estimating the dimension of a model", 1978.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.em import SplitMerge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2)) + rng.choice([-8.0, 0.0, 8.0], size=(600, 1))
    >>> mixture = GaussianMixture(9, solver=SplitMerge(), random_state=0).fit(X)
    >>> mixture.n_components_, np.sort(mixture.weights_).round(2)
    (3, array([0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.31, 0.32, 0.36]))

    From two means in one cluster, and one between the two others:

    >>> stuck = {"covariance_type": "tied", "means_init": [[-9.0, -8.0], [-7.0, -8.0], [4.0, 4.0]]}
    >>> for solver in ["batch", SplitMerge(n_components="fixed")]:
    ...     mixture = GaussianMixture(3, solver=solver, **stuck).fit(X)
    ...     print(round(mixture.score(X), 1))
    -4.9
    -3.9
    """

    n_merges: int = 8
    n_components: str = "free"
    requires = SplitsAndMerges
    # A cluster that comes up is none.
    skips_outliers = False

    def __post_init__(self):
        check_count("n_merges", self.n_merges)
        if self.n_components not in ("free", "fixed"):
            raise ValueError(f"n_components must be 'free' or 'fixed', got {self.n_components!r}.")
        if self.n_components == "fixed" and self.n_merges != SplitMerge.n_merges:
            raise ValueError(
                f"n_merges={self.n_merges!r} requires n_components='free', got 'fixed'."
            )

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        is_free, state = self.n_components == "free", progress.state
        self._required(state.model).check_split_merge(state.prior, data, fixed=not is_free)
        size, gain, before = state.size_of(data), math.inf, -math.inf
        own = (_price(data), self.n_merges) if is_free else ()
        for log_likelihood, _ in Batch(None).passes(progress, data, plan):
            yield log_likelihood, False
            if not log_likelihood - before > _NEARLY_SETTLED:
                break
            before = log_likelihood
        while gain > (0.0 if is_free else _LEAST_GAIN):
            state = progress.state
            found = split_merge_step(state.model, data, plan.rng, state.prior_terms(size), *own)
            if found is None:
                break
            model, log_likelihood, gain = found
            progress.take(state.after_pass(model, log_likelihood, data))
            yield log_likelihood, False
        yield from Batch().passes(progress, data, plan)

    def score(self, progress: Progress, data: Observations) -> float:
        score = super().score(progress, data)
        if self.n_components == "fixed":
            return score
        return score - _price(data) * progress.state.model.n_parameters()


def _price(data):
    """Return what a parameter costs by half the BIC, in nats per observation."""
    return 0.5 * math.log(data.total_weight) / data.total_weight

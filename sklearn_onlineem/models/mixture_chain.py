"""Chains of draws of the components of all rows: collapsed Gibbs sampling of mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families._collapsed import drawn_proportions
from sklearn_onlineem.families.capabilities import PosteriorPredictives, require
from sklearn_onlineem.models.capabilities import Chain
from sklearn_onlineem.statistics import combine

if TYPE_CHECKING:
    from sklearn_onlineem.models.mixture import MixtureModel, MixtureStatistics

__all__ = ["MixtureChain"]

# One-hot components of so many numbers are looked at a time.
_BLOCK_VALUES = 1 << 20


class MixtureChain(Chain["MixtureModel"]):
    r"""Components of all rows, which each sweep draws anew.

    .. math::
        p(z_i = k \mid \text{rest}) \propto (n_k + \alpha_k) \,
        p(x_i \mid \text{prior + rows of } k \text{ without } i)

    Weights and parameters are integrated out. Rows whose component is known keep it: they are
    counted with the prior.

    Parameters
    ----------
    model : MixtureModel
        Where to begin: components are drawn from its posterior.
    data : Rows
        Without weights other than 1.
    prior : MixtureStatistics
        Pseudo-statistics of a proper prior of weights and parameters.
    rng : numpy.random.Generator
        Of the first components.
    dispersed : bool, default=False
        Whether to begin away from the model: with components drawn as if each had one of the rows.

    Raises
    ------
    ValueError
        If there is no prior, or an improper one, or rows have weights, or the family has no
        posterior predictive in closed form.

    References
    ----------
    Neal, "Markov chain sampling methods for Dirichlet process mixture models", JCGS 2000,
    algorithm 3; Zaheer, Wick, Kottur & Tristan, "Comparing Gibbs, EM and SEM for MAP Inference in
    Mixture Models".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixture import MixtureModel, MixtureStatistics
    >>> from sklearn_onlineem.models.mixture_chain import MixtureChain
    >>> model = MixtureModel(Poisson(), np.array([0.5, 0.5]), np.array([[1.0], [9.0]]))
    >>> data = Rows(np.array([[0.0], [2.0], [9.0], [13.0]]))
    >>> rates = Poisson().prior_statistics(2, n_features=1, shape=1.0, rate=0.1)
    >>> prior, rng = MixtureStatistics(np.zeros(2), rates), np.random.default_rng(0)
    >>> chain = MixtureChain(model, data, prior, rng)
    >>> chain.align_to(model)
    >>> for _ in range(20):
    ...     _ = chain.sweep(rng)
    ...     chain.average_in()
    >>> chain.labels, chain.shares()
    (array([0, 0, 1, 1], dtype=int32), array([0.5, 0.5]))
    >>> chain.model().parameters.round(1)
    array([[ 0.9],
           [10.3]])
    >>> MixtureChain.pooled([chain]).weights.round(1), chain.draw(rng).n_components
    (array([0.5, 0.5]), 2)
    """

    has_draws = True

    def __init__(
        self,
        model: MixtureModel,
        data: Rows,
        prior: MixtureStatistics | None,
        rng: np.random.Generator,
        dispersed: bool = False,
    ) -> None:
        _check(model.family, data, prior)
        self._model, self._data, self._n_rows = model, data, len(data)
        known = np.zeros(len(data), bool) if data.labels is None else data.labels >= 0
        self._is_hidden, self._rows, self._given = ~known, data, prior
        if known.any():
            self._rows, rows = data[np.flatnonzero(~known)], data[np.flatnonzero(known)]
            self._given = combine([(1.0, prior), (1.0, self._statistics(rows, rows.labels))])
        self._concentration = self._given.counts + 1.0
        self._n_given = self._given.counts - prior.counts
        self._reference, self._n_averaged, self._sum = None, 0, None
        log_density = self._log_predictives(rng) if dispersed else self._log_posteriors()
        self._labels = self._drawn(log_density, rng)

    # ------------------------------------------------------------------------------------- start

    def _log_posteriors(self):
        """Yield log joint densities of blocks of rows under the model."""
        log_weights = self._model.log_weights
        for block in self._blocks(self._rows):
            log_density = self._model.family.log_density(self._model.parameters, block.X)
            yield log_density + log_weights

    def _log_predictives(self, rng):
        """Yield log densities of blocks of rows, where each component has one of the rows."""
        n, n_components = len(self._rows), self._model.n_components
        if n == 0:
            return
        chosen = rng.choice(n, n_components, replace=n < n_components)
        own = self._statistics(self._rows[chosen], np.arange(n_components))
        statistics = combine([(1.0, self._given), (1.0, own)]).emissions
        for block in self._blocks(self._rows):
            yield self._model.family.predictive_log_density(statistics, block.X)

    def _drawn(self, log_densities, rng):
        labels = [np.empty(0, np.intc)]
        for log_density in log_densities:
            # A row that is under no component is under any of them.
            log_density[np.isneginf(log_density).all(axis=1)] = 0.0
            highest = log_density.max(axis=1, keepdims=True)
            cumulated = np.cumsum(np.exp(log_density - highest, dtype=float), axis=1)
            points = rng.random((len(cumulated), 1)) * cumulated[:, -1:]
            labels.append((cumulated <= points).sum(axis=1).astype(np.intc))
        return np.minimum(np.concatenate(labels), np.intc(self._model.n_components - 1))

    def _blocks(self, rows):
        step = max(1, _BLOCK_VALUES // self._model.n_components)
        for start in range(0, len(rows), step):
            yield rows[start : start + step]

    # -------------------------------------------------------------------------------------- chain

    def sweep(self, rng: np.random.Generator) -> float:
        # The log-likelihood is the log predictive density of rows given the others.
        if not len(self._rows):
            return float(self.model().log_likelihood(self._data).mean())
        return self._model.family.collapsed_sweep(
            self._given.emissions, self._rows.X, self._labels, self._concentration,
            rng.random(len(self._rows)),
        )  # fmt: skip

    @property
    def labels(self) -> Integers:
        """Components of all rows as they are now, an ndarray of intc of shape (n_rows,)."""
        labels = self._labels.copy()
        if len(labels) < self._n_rows:
            labels = self._data.labels.astype(np.intc)
            labels[self._is_hidden] = self._labels
        return labels

    def shares(self) -> Floats:
        return (self._n_given + self._counts(self._labels)) / self._n_rows

    def _counts(self, labels):
        return np.bincount(labels, minlength=self._model.n_components).astype(float)

    def _statistics(self, rows, labels):
        """Statistics of rows in components, as sums over rows."""
        family, n_components = self._model.family, self._model.n_components
        like, terms, start = self._model.own_statistics(), [], 0
        for block in self._blocks(rows):
            own = labels[start : start + len(block)]
            start += len(block)
            one_hot = np.zeros((len(own), n_components))
            one_hot[np.arange(len(own)), own] = 1.0
            emissions = family.expected_statistics(block.X, one_hot, n_threads=rows.n_threads)
            terms.append((1.0, type(like)(self._counts(own), emissions)))
        return combine(terms) if terms else like.scale(0.0)

    def _model_of(self, evidence):
        """Return the mode given evidence as sums over rows."""
        share = 1.0 / self._n_rows
        return self._model.m_step(combine([(share, self._given), (share, evidence)]))

    # ----------------------------------------------------------------------------------- averages

    def align_to(self, reference: MixtureModel) -> None:
        """Number components in averages and draws as in a model.

        Parameters
        ----------
        reference : MixtureModel
            With as many components of the same family.
        """
        self._reference = reference

    def average_in(self) -> None:
        """Let the present components, numbered as in the reference, be part of an average.

        The reference is the model of the first of them, unless the chain was aligned to one.
        """
        evidence = self._statistics(self._rows, self._labels)
        present = self._model_of(evidence)
        if self._reference is None:
            self._reference = present
        numbers = np.argsort(present.order_in(self._reference))
        if (numbers != np.arange(len(numbers))).any():
            evidence = self._statistics(self._rows, numbers[self._labels])
        terms = [] if self._sum is None else [(1.0, self._sum)]
        self._sum = combine([*terms, (1.0, evidence)])
        self._n_averaged += 1

    def model(self) -> MixtureModel:
        """Return the model of the present components, or of the average if there is one."""
        if self._n_averaged:
            return self.pooled([self])
        return self._model_of(self._statistics(self._rows, self._labels))

    @staticmethod
    def pooled(chains: Sequence[MixtureChain]) -> MixtureModel:
        """Return the model of the average over the sweeps of chains aligned to one model.

        Parameters
        ----------
        chains : list of MixtureChain
            At least one; each has averaged at least one sweep in.
        """
        share = 1.0 / sum(chain._n_averaged for chain in chains)
        return chains[0]._model_of(combine([(share, chain._sum) for chain in chains]))

    def draw(self, rng: np.random.Generator) -> MixtureModel:
        """Return weights and parameters drawn given the present components, as a model.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where random numbers come from.
        """
        total = combine([(1.0, self._given), (1.0, self._statistics(self._rows, self._labels))])
        weights = drawn_proportions(total.counts + 1.0, rng)
        family = self._model.family
        parameters = family.draw_from_posterior(total.emissions, rng)
        drawn = type(self._model)(family, weights, parameters)
        return drawn if self._reference is None else drawn.aligned_to(self._reference)


def _check(family, data, prior):
    require(family, PosteriorPredictives)
    if prior is None:
        raise ValueError(
            "collapsed Gibbs sampling integrates parameters out under a proper prior: set prior=,"
            " and weight_concentration_prior= for the shares of the components."
        )
    if not (prior.counts > -1.0).all():
        raise ValueError(
            "the prior of the weights is improper: set weight_concentration_prior= above 0."
        )
    if data.sample_weight is not None and not (data.sample_weight == 1.0).all():
        raise ValueError(
            "sample_weight must be None, or 1, where components are drawn for all rows together."
        )

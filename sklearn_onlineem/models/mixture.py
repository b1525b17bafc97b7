"""Mixtures of the components of one family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import xlogy

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem._kernels._responsibilities import (
    joint_divergence,
    log_weights,
    merge_counts,
    normalise,
    weights_from_counts,
)
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem._values import take
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import Family
from sklearn_onlineem.families._family import NO_LABELS, NOTHING
from sklearn_onlineem.families.capabilities import (
    HiddenVariables,
    PosteriorMeans,
    PosteriorPredictives,
    require,
)
from sklearn_onlineem.models._matching import matching
from sklearn_onlineem.models._model import Model
from sklearn_onlineem.models.capabilities import (
    ComponentUpdates,
    Move,
    NewtonSteps,
    SampledChains,
    SplitsAndMerges,
)
from sklearn_onlineem.models.component_steps import ComponentSteps
from sklearn_onlineem.models.mixture_chain import MixtureChain
from sklearn_onlineem.models.mixture_moves import check_moves, structural_moves
from sklearn_onlineem.models.stream_moves import restructured, revived
from sklearn_onlineem.statistics import Statistics, combine

__all__ = ["MixtureModel", "MixtureStatistics"]

# Python looks for Ctrl-C between chunks, so a chunk should take well below a second.
_CHUNK_ROWS = 1 << 16
_POSTERIOR_ROWS = 1 << 12


@dataclass(frozen=True)
class MixtureStatistics(Statistics):
    """Expected statistics of a mixture.

    Parameters
    ----------
    counts : ndarray of shape (n_components,)
        Expected share of each component.
    emissions : Statistics
        The family's statistics, of all components.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.models.mixture import MixtureStatistics
    >>> from sklearn_onlineem.statistics import Sums
    >>> half = MixtureStatistics(np.array([1.0]), Sums(np.array([1.0]), np.array([[6.0]])))
    >>> half.scale(2.0).counts, half.merge(1.0, half, 3.0).emissions.total
    (array([2.]), array([[24.]]))
    >>> MixtureStatistics.sum_of([(1.0, half), (0.5, half)]).counts
    array([1.5])
    """

    counts: Floats
    emissions: Statistics

    def merge(self, a: float, other: MixtureStatistics, b: float) -> MixtureStatistics:
        counts = np.empty_like(self.counts)
        merge_counts(a, self.counts, b, other.counts, counts)
        return MixtureStatistics(counts, self.emissions.merge(a, other.emissions, b))

    @classmethod
    def sum_of(cls, terms: Sequence[tuple[float, MixtureStatistics]]) -> MixtureStatistics:
        return cls.sum_by_field(terms)

    def scale(self, a: float) -> MixtureStatistics:
        return MixtureStatistics(float(a) * self.counts, self.emissions.scale(a))


@dataclass(frozen=True)
class MixtureModel(
    Model[Rows, MixtureStatistics],
    ComponentUpdates,
    NewtonSteps,
    SampledChains,
    SplitsAndMerges,
):
    r"""A mixture, :math:`p(x) = \sum_k w_k \, p(x \mid \theta_k)`.

    Parameters
    ----------
    family : Family
        What components are.
    weights : ndarray of shape (n_components,)
        Non-negative, adding up to 1.
    parameters : object
        The family's parameters of all components.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixture import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([0.5, 0.5]), np.array([[1.0], [9.0]]))
    >>> model.posterior(Rows(np.array([[0.0], [12.0]]))).round(3)
    array([[1., 0.],
           [0., 1.]])
    """

    family: Family
    weights: Floats
    parameters: object

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @cached_property
    def n_survivors(self) -> int:
        return int(np.count_nonzero(self.weights))

    @property
    def log_weights(self) -> Floats:
        logs = np.empty(len(self.weights))
        log_weights(self.weights, logs)
        return logs

    def e_step(
        self, data: Rows, rng: np.random.Generator | None = None
    ) -> tuple[MixtureStatistics, float]:
        log_weights, total_weight = self.log_weights, data.total_weight
        terms, log_likelihood, e_step = [], 0.0, self.family.e_step
        if rng is not None:
            e_step = partial(_sampled_e_step, self.family, rng)
        chunks = data.chunks(_CHUNK_ROWS)
        for chunk in chunks:
            share = chunk.total_weight / total_weight
            if share > 0.0:
                counts, emissions, chunk_log_likelihood = e_step(
                    self.parameters, log_weights, chunk
                )
                terms.append((share, MixtureStatistics(counts, emissions)))
                log_likelihood += share * chunk_log_likelihood
        return terms[0][1] if len(chunks) == 1 else combine(terms), log_likelihood

    def own_statistics(self, like: Rows | None = None) -> MixtureStatistics:
        emissions = self.family.own_statistics(self.parameters, self.weights)
        return MixtureStatistics(self.weights, emissions)

    def m_step(self, statistics: MixtureStatistics) -> MixtureModel:
        weights = np.empty(len(self.weights))
        if not weights_from_counts(statistics.counts, self.weights, weights):
            weights = self.weights
        parameters = self.family.m_step(statistics.emissions, self.parameters)
        return MixtureModel(self.family, weights, parameters)

    def expected_log_likelihood(self, statistics: MixtureStatistics) -> float:
        emitted = self.family.expected_log_density(self.parameters, statistics.emissions)
        # Those from which a prior has taken the weight have left the model.
        stays = (self.weights > 0.0) | (statistics.counts > 0.0)
        return float(xlogy(statistics.counts, self.weights)[stays].sum() + emitted)

    @property
    def is_conjugate(self) -> bool:
        return self.family.is_conjugate

    def masses(self, statistics: MixtureStatistics) -> Floats:
        return self.family.masses(statistics.emissions)

    def n_parameters(self) -> int:
        """Return the number of free parameters, of components that have any weight."""
        family = self.family
        shared = family.n_shared_parameters(self.parameters)
        own = (family.n_parameters(self.parameters) - shared) // self.n_components
        return shared + self.n_survivors * (own + 1) - 1

    def mean_form(self, prior: MixtureStatistics) -> MixtureStatistics:
        if not (prior.counts > -1.0).all():
            raise ValueError(
                "the posterior of the weights has no mean: set weight_concentration_prior= above 0."
            )
        require(self.family, PosteriorMeans)
        return MixtureStatistics(prior.counts + 1.0, self.family.mean_form(prior.emissions))

    def predictive_log_likelihood(self, data: Rows, statistics: MixtureStatistics) -> Floats:
        """Return the log posterior predictive density of each row, an ndarray of shape (n_rows,).

        Parameters
        ----------
        data : Rows
            Observations.
        statistics : MixtureStatistics
            Pseudo-statistics of the prior plus evidence, as sums over rows.

        Raises
        ------
        ValueError
            If the family has none in closed form, or a posterior is improper.
        """
        shares, out = statistics.counts + 1.0, np.empty(len(data))
        if not (shares >= 0.0).all():
            raise ValueError(
                "the posterior of the weights is improper: set weight_concentration_prior= above 0."
            )
        require(self.family, PosteriorPredictives)
        log_shares = np.log(shares / shares.sum())
        for start in range(0, len(data), _POSTERIOR_ROWS):
            block = data[start : start + _POSTERIOR_ROWS]
            log_joint = self.family.predictive_log_density(statistics.emissions, block.X)
            log_joint = np.ascontiguousarray(log_joint + log_shares)
            normalise(log_joint, NOTHING, NO_LABELS, NOTHING, out[start : start + len(block)])
        return out

    def structural_moves(
        self, data: Rows, n_merges: int, prior: MixtureStatistics | None = None
    ) -> Iterator[MixtureModel]:
        return structural_moves(self, data, n_merges, prior)

    def check_moves(self, prior: MixtureStatistics | None) -> None:
        check_moves(prior)

    def revived(self, data: Rows) -> Move | None:
        return revived(self, data)

    def restructured(self, data: Rows, n_remembered: float, n_merges: int) -> Move | None:
        return restructured(self, data, n_remembered, n_merges)

    def observations_needed(self, data: Rows) -> float:
        return max(1, self.family.n_parameters(self.parameters)) / self.family.numbers_in(data)

    def newton_step(self, data: Rows) -> tuple[MixtureModel, float, bool]:
        # The family's own; only a single component has one.
        if self.n_components > 1 or not hasattr(self.family, "likelihood_step"):
            raise ValueError(f"{type(self).__name__} {NewtonSteps.lacking}.")
        parameters, log_likelihood, is_last = self.family.likelihood_step(self.parameters, data)
        return MixtureModel(self.family, self.weights, parameters), log_likelihood, is_last

    def log_likelihood(self, data: Rows) -> Floats:
        out = np.empty(len(data))
        for _ in self._posterior_blocks(data, out):
            pass
        return out

    def posterior(self, data: Rows) -> Floats:
        """Return the responsibilities, an ndarray of shape (n_rows, n_components).

        Parameters
        ----------
        data : Rows
            Observations; labels are not looked at.
        """
        out = np.empty((len(data), self.n_components), dtype=data.dtype)
        for start, responsibilities in self._posterior_blocks(data, np.empty(len(data))):
            out[start : start + len(responsibilities)] = responsibilities
        return out

    def _posterior_blocks(self, data, log_likelihoods):
        for start in range(0, len(data), _POSTERIOR_ROWS):
            block = data[start : start + _POSTERIOR_ROWS]
            log_joint = self.family.log_density(self.parameters, block.X)
            log_joint += self.log_weights.astype(log_joint.dtype)
            out = log_likelihoods[start : start + len(block)]
            normalise(log_joint, NOTHING, NO_LABELS, NOTHING, out)
            yield start, log_joint

    def kl_divergence(self, other: MixtureModel, like: Rows | None = None) -> float:
        divergences = self.family.kl_divergence(self.parameters, other.parameters)
        return max(0.0, joint_divergence(self.weights, other.weights, divergences))

    def order_in(self, reference: MixtureModel) -> Integers:
        """Return the own component that is the reference's component j, for each j.

        Parameters
        ----------
        reference : MixtureModel
            With as many components of the same family.
        """
        divergences = self.family.divergences(
            self.parameters, reference.parameters, self.n_components
        )
        return matching(self.weights, reference.weights, divergences)

    def aligned_to(self, reference: MixtureModel, like: Rows | None = None) -> MixtureModel:
        order = self.order_in(reference)
        if (order == np.arange(len(order))).all():
            return self
        parameters = take(self.parameters, order)
        return MixtureModel(self.family, self.weights[order], parameters)

    def sample(
        self, n: int, rng: np.random.Generator, like: Rows | None = None
    ) -> tuple[Floats, Integers]:
        components = rng.choice(self.n_components, size=n, p=self.weights)
        if like is None:
            return self.family.sample(self.parameters, components, rng), components
        return self.family.sample_like(self.parameters, components, like.X, rng), components

    def chain(
        self,
        data: Rows,
        prior: MixtureStatistics | None,
        rng: np.random.Generator,
        collapsed: bool = True,
        dispersed: bool = False,
    ) -> MixtureChain | None:
        return MixtureChain(self, data, prior, rng, dispersed) if collapsed else None

    def component_steps(
        self, data: Rows, prior: MixtureStatistics | None = None, order: str = "gain"
    ) -> ComponentSteps:
        return ComponentSteps(self, data, prior, order)

    def pseudo_data(self, n: int, rng: np.random.Generator, like: Rows | None = None) -> Rows:
        return Rows(self.sample(n, rng, like)[0], n_threads=1 if like is None else like.n_threads)


def _sampled_e_step(family, rng, parameters, log_weights, rows):
    """The E-step with all hidden variables drawn."""
    if isinstance(family, HiddenVariables):
        return family.sampled_e_step(parameters, log_weights, rows, rng)
    return family.e_step(parameters, log_weights, rows, rng.random(len(rows)))

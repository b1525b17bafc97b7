"""Mixtures of the components of one family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import numpy as np
from scipy.special import xlogy

from sklearn_onlineem._checks import shares_as_given
from sklearn_onlineem._kernels._responsibilities import (
    joint_divergence,
    log_weights,
    normalise,
    weights_from_counts,
)
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem._values import components, quick, take
from sklearn_onlineem.data.rows import Rows, Wanted, task
from sklearn_onlineem.families import Family
from sklearn_onlineem.families._collapsed import drawn_proportions
from sklearn_onlineem.families._e_step import drawn_from, e_step_in_blocks, log_density_of
from sklearn_onlineem.families._word_tables import TableField, WordTable
from sklearn_onlineem.families.capabilities import (
    HiddenVariables,
    PosteriorMeans,
    PosteriorPredictives,
    require,
)
from sklearn_onlineem.families.parts import Part
from sklearn_onlineem.models._model import Model, check_order, divergences, matching
from sklearn_onlineem.models.capabilities import (
    Chain,
    ComponentUpdates,
    NewtonSteps,
    Reinitialises,
    RowLikelihoods,
    SampledChains,
    SplitMergeStep,
    SplitsAndMerges,
)
from sklearn_onlineem.models.coordinates import FAMILY_NODE, Coordinates, shares_node
from sklearn_onlineem.models.fixed import Fixed
from sklearn_onlineem.models.mixtures.component_steps import ComponentSteps
from sklearn_onlineem.models.split_merge import (
    EMPTY_SHARE,
    emptied,
    has_labels,
    reinitialised,
    split_merge_steps,
)
from sklearn_onlineem.statistics import Statistics, combine

# Python looks for Ctrl-C between chunks, so a chunk should take well below a second.
_CHUNK_ROWS = 1 << 16
_POSTERIOR_ROWS, _POSTERIOR_VALUES = 1 << 12, 1 << 22


@quick
@dataclass(frozen=True)
class MixtureStatistics(Statistics):
    """Expected statistics of a mixture.

    Parameters
    ----------
    counts : ndarray of shape (n_components,)
        Expected share of each component.
    emissions : Statistics
        The family's statistics, of all components.
    """

    counts: Floats
    emissions: Statistics


def _put_weights(model, values):
    return replace(model, weights=shares_as_given("weights_", values))


@quick
@dataclass(frozen=True)
class MixtureModel(
    RowLikelihoods,
    Model[Rows, MixtureStatistics],
    ComponentUpdates,
    NewtonSteps,
    SampledChains,
    Reinitialises,
    SplitsAndMerges,
):
    r"""A mixture, :math:`p(x) = \sum_k w_k \, p(x \mid \theta_k)`.

    Parameters
    ----------
    family : Family
        Family of the components.
    weights : ndarray of shape (n_components,)
        Non-negative, adding up to 1.
    parameters : object
        The family's parameters of all components.
    fixed : Fixed, default=None
        Entries that the M-step leaves as they are. None: all are learnt.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixtures.mixture import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([0.5, 0.5]), np.array([[1.0], [9.0]]))
    >>> model.posterior(Rows(np.array([[0.0], [12.0]]))).round(3)
    array([[1., 0.],
           [0., 1.]])
    """

    coordinates = Coordinates
    nodes = shares_node("weights", "weights", "counts"), FAMILY_NODE

    family: Family
    weights: Floats
    parameters: object = TableField("array_T")
    fixed: Fixed | None = None

    own_parts = (Part("weights", "probability", "k", attrgetter("weights"), _put_weights),)

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @property
    def n_active(self) -> int:
        weights = self.weights
        # Mostly all are, which takes less time to see.
        return len(weights) if weights[weights.argmin()] > 0.0 else int(np.count_nonzero(weights))

    @property
    def log_weights(self) -> Floats:
        logs = np.empty(len(self.weights))
        log_weights(self.weights, logs)
        return logs

    def e_step(
        self, data: Rows, rng: Generator | None = None, log_likelihoods: Floats | None = None
    ) -> tuple[MixtureStatistics, float]:
        e_step = self._e_step
        if data.n_rows > _CHUNK_ROWS:
            slices = (slice(i, i + _CHUNK_ROWS) for i in range(0, len(data), _CHUNK_ROWS))
            parts, e_step = zip(slices, data.chunks(_CHUNK_ROWS), strict=True), self.e_step
        elif data.has_gaps:
            parts = data.by_completeness()
        else:
            return e_step(data, rng, log_likelihoods)
        terms, log_likelihood, total_weight = [], 0.0, data.total_weight
        for numbers, part in parts:
            out = None if log_likelihoods is None else np.full(len(part), np.nan)
            share = part.total_weight / total_weight
            if share > 0.0:
                statistics, of_part = e_step(part, rng, out)
                terms.append((share, statistics))
                log_likelihood += share * of_part
            if out is not None:
                log_likelihoods[numbers] = out
        return combine(terms), log_likelihood

    def _e_step(self, data, rng, log_likelihoods):
        """Return the E-step of rows that all are complete, or all have missing values."""
        family, parameters, log_weights = self.family, vars(self)["parameters"], self.log_weights
        wanted = Wanted(None if rng is None else rng.random(len(data)), log_likelihoods)
        if rng is not None and isinstance(family, HiddenVariables) and not data.has_gaps:
            statistics = partial(family.posterior_statistics, parameters, rng=rng)
            found = e_step_in_blocks(family, parameters, log_weights, data, wanted, statistics)
        else:
            found = family.e_step(parameters, log_weights, data, wanted)
        counts, emissions, log_likelihood = found
        if self.fixed is not None and np.isneginf(log_likelihood):
            raise ValueError(
                "Some rows are impossible under the model, because of zeros among fixed parameters."
            )
        if log_likelihoods is not None and data.sample_weight is not None:
            log_likelihoods[data.sample_weight == 0.0] = np.nan
        return MixtureStatistics(counts, emissions), log_likelihood

    def own_statistics(self, like: Rows | None = None) -> MixtureStatistics:
        emissions = self.family.own_statistics(vars(self)["parameters"], self.weights)
        return MixtureStatistics(self.weights, emissions)

    def m_step(self, statistics: MixtureStatistics) -> MixtureModel:
        weights = np.empty(len(self.weights))
        if not weights_from_counts(statistics.counts, self.weights, weights):
            weights = self.weights
        parameters = self.family.m_step(statistics.emissions, vars(self)["parameters"])
        fixed = self.fixed
        if fixed is not None:
            weights = fixed.shares("weights", weights, self.weights)
            if isinstance(parameters, WordTable):
                parameters = parameters.array_T
            parameters = fixed.parameters(parameters, self.parameters)
        return MixtureModel(self.family, weights, parameters, fixed)

    def expected_log_likelihood(self, statistics: MixtureStatistics) -> float:
        emitted = self.family.expected_log_density(self.parameters, statistics.emissions)
        # Components whose weight a prior has removed are no longer part of the model.
        stays = (self.weights > 0.0) | (statistics.counts > 0.0)
        return float(xlogy(statistics.counts, self.weights)[stays].sum() + emitted)

    @property
    def is_conjugate(self) -> bool:
        return self.family.is_conjugate

    def effective_counts(self, statistics: MixtureStatistics) -> Floats:
        return self.family.effective_counts(statistics.emissions)

    def n_parameters(self) -> int:
        fixed, is_active = self.fixed or Fixed(), self.weights > 0.0
        n_of_components = fixed.n_learnt(self.family, self.parameters, is_active)
        return n_of_components + fixed.n_free("weights", is_active)

    def mean_form(self, prior: MixtureStatistics) -> MixtureStatistics:
        if not (prior.counts > -1.0).all():
            raise ValueError(
                "the posterior of the weights has no mean: set weight_concentration_prior= above 0."
            )
        require(self.family, PosteriorMeans)
        return MixtureStatistics(prior.counts + 1.0, self.family.mean_form(prior.emissions))

    def predictive_log_likelihood(self, data: Rows, statistics: MixtureStatistics) -> Floats:
        """Return the log posterior predictive density of each row, an ndarray of shape (n_rows,).

        The statistics are pseudo-statistics of the prior plus evidence, as sums over rows.
        ValueError if the family has no predictive in closed form, or a posterior is improper.
        """
        shares, out = statistics.counts + 1.0, np.empty(len(data))
        if not (shares >= 0.0).all():
            raise ValueError(
                "the posterior of the weights is improper: set weight_concentration_prior= above 0."
            )
        require(self.family, PosteriorPredictives)
        if data.has_gaps:
            raise ValueError("posterior predictive densities need rows without missing values.")
        log_shares = np.log(shares / shares.sum())
        for start in range(0, len(data), _POSTERIOR_ROWS):
            block = data[start : start + _POSTERIOR_ROWS]
            log_joint = self.family.predictive_log_density(statistics.emissions, block.X)
            log_joint = np.ascontiguousarray(log_joint + log_shares)
            normalise(log_joint, task(log_likelihoods=out[start : start + len(block)]))
        return out

    def check_split_merge(
        self, prior: MixtureStatistics | None, data: Rows | None = None, fixed: bool = False
    ) -> None:
        self._check_all_learnt("split and merge steps change")
        if data is not None and has_labels(data):
            raise ValueError(
                "labels must be None: components with labelled rows cannot be merged or split."
            )
        counts = np.zeros(1) if prior is None else prior.counts
        if not fixed and (counts > 0.0).any():
            raise ValueError(
                "solver=SplitMerge() leaves components without weight, to which a"
                " weight_concentration_prior above 1 gives some. Take None, or at most 1."
            )
        if fixed and (counts < 0.0).any():
            raise ValueError(
                "solver=SplitMerge(n_components='fixed') keeps components, of which a"
                " weight_concentration_prior below 1 removes some. Take None, or at least 1."
            )

    def _check_all_learnt(self, what):
        if self.fixed is not None:
            raise ValueError(f"{what} all parameters, but params fixes some.")

    def split_merge_steps(
        self,
        data: Rows,
        rng: Generator,
        prior: Sequence[tuple[float, MixtureStatistics]] = (),
        price: float | None = None,
        n_merges: int = 0,
    ) -> Iterator[MixtureModel]:
        return split_merge_steps(self, data, rng, prior, price, n_merges)

    def has_empty(self, data: Rows) -> bool:
        # Mostly the lightest one has enough, which takes less time to see.
        if self.weights[self.weights.argmin()] * self.n_active >= EMPTY_SHARE:
            return False
        return self.fixed is None and bool(emptied(self.weights).any())

    def reinitialised(self, data: Rows) -> SplitMergeStep | None:
        return reinitialised(self, self.without_gaps(data))

    def observations_needed(self, data: Rows) -> float:
        return max(1, self.family.n_parameters(self.parameters)) / self.family.n_values(data)

    def newton_step(self, data: Rows) -> tuple[MixtureModel, float, bool]:
        # The family implements it for a single component.
        if self.n_components > 1 or not hasattr(self.family, "likelihood_step"):
            raise ValueError(f"{type(self).__name__} {NewtonSteps.lacking}.")
        parameters, log_likelihood, is_last = self.family.likelihood_step(self.parameters, data)
        return replace(self, parameters=parameters), log_likelihood, is_last

    def log_likelihood(self, data: Rows) -> Floats:
        out = np.empty(len(data))
        for _ in self.posterior_blocks(data, out):
            pass
        return out

    def posterior(self, data: Rows, log_likelihoods: Floats | None = None) -> Floats:
        """Return the responsibilities, an ndarray of shape (n_rows, n_components).

        Labels are ignored. `log_likelihoods`, (n_rows,), receives those of the rows.
        """
        out = np.empty((len(data), self.n_components), dtype=data.dtype)
        if log_likelihoods is None:
            log_likelihoods = np.empty(len(data))
        for start, responsibilities in self.posterior_blocks(data, log_likelihoods):
            out[start : start + len(responsibilities)] = responsibilities
        return out

    def most_probable(self, data: Rows) -> Integers:
        """Return the component with the largest responsibility for each row, without its label."""
        blocks = self.posterior_blocks(data, np.empty(len(data)))
        return np.concatenate([block.argmax(axis=1) for _, block in blocks])

    def completed(self, data: Rows) -> Floats:
        """Return the rows with expectations for missing values, (n_rows, n_features)."""
        if not data.has_gaps:
            return data.X.copy()
        return self.family.completed(self.parameters, data.X, self.posterior(data))

    def drawn(self, data: Rows, rng: Generator) -> Floats:
        """Return the rows with missing values drawn, (n_rows, n_features).

        A component is drawn for each row from its posterior, then its missing values given the
        observed ones.
        """
        if not data.has_gaps:
            return data.X.copy()
        components = drawn_from(self.posterior(data).cumsum(axis=1, dtype=np.float64), rng)
        return self.family.drawn(self.parameters, data.X, components, rng)

    def without_gaps(self, data: Rows, rng: Generator | None = None) -> Rows:
        """Return the data if all rows are complete, else with missing values drawn.

        Without `rng` they are the same at each call.
        """
        if not data.has_gaps:
            return data
        X = self.drawn(data, np.random.default_rng(0) if rng is None else rng)
        return Rows.unchecked(X, data.sample_weight, data.labels, data.n_threads)

    def log_joint(self, data: Rows) -> Floats:
        """Return log p(x_i, k), an ndarray of shape (n_rows, n_components), in nats."""
        log_joint = log_density_of(self.family, self.parameters, data)
        log_joint += self.log_weights.astype(log_joint.dtype)
        return log_joint

    def posterior_blocks(self, data: Rows, log_likelihoods: Floats) -> Iterator[tuple[int, Floats]]:
        """Yield the `posterior` by blocks of rows, each after the number of its first row.

        `log_likelihoods`, float64 of shape (n_rows,), receives log p(x_i), in nats.
        """
        n_rows = max(1, min(_POSTERIOR_ROWS, _POSTERIOR_VALUES // self.n_components))
        for start in range(0, len(data), n_rows):
            block = data[start : start + n_rows]
            log_joint = self.log_joint(block)
            out = log_likelihoods[start : start + len(block)]
            normalise(log_joint, task(log_likelihoods=out))
            yield start, log_joint

    def kl_divergence(self, other: MixtureModel, like: Rows | None = None) -> float:
        divergences = self.family.kl_divergence(vars(self)["parameters"], vars(other)["parameters"])
        return max(0.0, joint_divergence(self.weights, other.weights, divergences))

    def order_in(self, reference: MixtureModel, like: Rows | None = None) -> Integers:
        return matching(self.weights, reference.weights, divergences(self, reference))

    def renumbered(self, order: Integers) -> MixtureModel:
        self._check_all_learnt("renumbering moves")
        check_order(order, self.n_components)
        return MixtureModel(self.family, self.weights[order], take(self.parameters, order))

    def sample(self, n: int, rng: Generator, like: Rows | None = None) -> tuple[Floats, Integers]:
        components = rng.choice(self.n_components, size=n, p=self.weights)
        if like is None:
            return self.family.sample(self.parameters, components, rng), components
        return self.family.sample_like(self.parameters, components, like.X, rng), components

    def chain(
        self,
        data: Rows,
        prior: MixtureStatistics | None,
        rng: Generator,
        collapsed: bool = True,
        dispersed: bool = False,
    ) -> MixtureChain | None:
        if not collapsed:
            return None
        if data.has_gaps:
            raise ValueError("Gibbs sampling needs rows without missing values.")
        if self.n_parameters() == 0:
            raise ValueError("params fixes everything: Gibbs sampling has nothing to learn.")
        return MixtureChain(self, data, prior, rng, dispersed)

    def component_steps(
        self, data: Rows, prior: MixtureStatistics | None = None, order: str = "gain"
    ) -> ComponentSteps:
        self._check_all_learnt("componentwise EM learns")
        return ComponentSteps(self, data, prior, order)

    def pseudo_data(self, n: int, rng: Generator, like: Rows | None = None) -> Rows:
        X, components = self.sample(n, rng, like)
        known = known_if_inputs(self.family, components)
        return Rows(X, labels=known, n_threads=1 if like is None else like.n_threads)


def known_if_inputs(family: Family, hidden: Integers) -> Integers | None:
    """Return components of drawn rows if inputs, which have no density, tell of these, or None."""
    return hidden.astype(np.int32) if getattr(family, "n_inputs", 0) else None


# Numbers in a block of one-hot components.
_BLOCK_VALUES = 1 << 20


class MixtureChain(Chain[MixtureModel]):
    r"""Components of all rows, drawn by each sweep.

    .. math::
        p(z_i = k \mid \text{rest}) \propto (n_k + \alpha_k) \,
        p(x_i \mid \text{prior + rows of } k \text{ without } i)

    Weights and parameters are integrated out. Rows whose component is known keep it: they are
    counted with the prior. Parameters that are fixed are not integrated out: known weights replace
    :math:`n_k + \alpha_k`, all of them drawn anew for each sweep if only some are fixed; known
    parameters have their density. Averages number components as in the reference of `align_to`, or
    as in the model of the first of them; components with fixed parts keep their numbers. ValueError
    if the family has no posterior predictive in closed form.

    Parameters
    ----------
    model : MixtureModel
        The start: components are drawn from its posterior.
    data : Rows
        Without weights other than 1.
    prior : MixtureStatistics
        Pseudo-statistics of a proper prior of weights and parameters.
    rng : numpy.random.Generator
        Source of random numbers of the start.
    dispersed : bool, default=False
        Whether to start away from the model: from components that have one random row each.

    References
    ----------
    Neal, "Markov chain sampling methods for Dirichlet process mixture models", JCGS 2000,
    algorithm 3; Zaheer, Wick, Kottur & Tristan, "Comparing Gibbs, EM and SEM for MAP Inference in
    Mixture Models".
    """

    has_draws = True

    def __init__(
        self,
        model: MixtureModel,
        data: Rows,
        prior: MixtureStatistics | None,
        rng: Generator,
        dispersed: bool = False,
    ) -> None:
        require(model.family, PosteriorPredictives)
        fixed = Fixed() if model.fixed is None else model.fixed
        n_weights = fixed.n_free("weights", model.weights > 0.0)
        if model.n_parameters() == n_weights:
            # Weights alone are learnt, and no prior of the others is of account.
            counts = np.zeros(model.n_components) if prior is None else prior.counts
            own = model.family.own_statistics(model.parameters, np.ones(model.n_components))
            prior = MixtureStatistics(counts, own)
        elif prior is not None and n_weights == 0 and fixed.weights is not None:
            prior = replace(prior, counts=np.zeros(model.n_components))
        _check(data, prior)
        self._model, self._data, self._n_rows = model, data, len(data)
        self._fixed, self._family = fixed, model.family
        if model.fixed is not None:
            self._family = model.family.with_fixed(model.parameters, fixed.components)
        self._has_places = ~self._family.learns_all(model.n_components)
        if fixed.components is not None:
            self._has_places |= fixed.components
        if fixed.weights is not None and (not fixed.weights.all() or np.ptp(model.weights) > 0.0):
            self._has_places |= fixed.weights
        known = np.zeros(len(data), bool) if data.labels is None else data.labels >= 0
        self._is_hidden, self._rows, self._given = ~known, data, prior
        if known.any():
            self._rows, rows = data[np.flatnonzero(~known)], data[np.flatnonzero(known)]
            self._given = combine([(1.0, prior), (1.0, self._statistics(rows, rows.labels))])
        self._n_given = self._given.counts - prior.counts
        self._reference, self._n_averaged, self._sum = None, 0, None
        blocks = self._predictives(rng) if dispersed else self._posteriors()
        drawn = [drawn_from(np.cumsum(block, axis=1, dtype=float), rng) for block in blocks]
        self._labels = np.concatenate([np.empty(0), *drawn]).astype(np.intc)

    # ------------------------------------------------------------------------------------- start

    def _posteriors(self):
        for _, block in self._model.posterior_blocks(self._rows, np.empty(len(self._rows))):
            yield block

    def _predictives(self, rng):
        """Yield the posteriors of rows, by blocks, of components that have one random row each."""
        n, n_components, fixed = len(self._rows), self._model.n_components, self._fixed
        if n == 0:
            return
        chosen = rng.choice(n, n_components, replace=n < n_components)
        own = self._statistics(self._rows[chosen], np.arange(n_components))
        statistics = combine([(1.0, self._given), (1.0, own)]).emissions
        for block in self._blocks(self._rows):
            log_density = self._family.predictive_log_density(statistics, block.X)
            if fixed.components is not None:
                of_model = self._model.family.log_density(self._model.parameters, block.X)
                log_density = np.where(fixed.components, of_model, log_density)
            posterior = np.ascontiguousarray(log_density)
            normalise(posterior, task())
            yield posterior

    def _blocks(self, rows):
        step = max(1, _BLOCK_VALUES // self._model.n_components)
        for start in range(0, len(rows), step):
            yield rows[start : start + step]

    # -------------------------------------------------------------------------------------- chain

    def sweep(self, rng: Generator) -> float:
        # The log-likelihood is the log predictive density of rows given the others.
        if not len(self._rows):
            return float(self.model().log_likelihood(self._data).mean())
        model, fixed, learns_shares = self._model, self._fixed, self._fixed.weights is None
        shares = self._given.counts + 1.0 if learns_shares else self._weights(rng)
        of_fixed = None if fixed.components is None else (fixed.components, model.parameters)
        score = self._family.collapsed_sweep(
            self._given.emissions, self._rows.X, self._labels, shares, rng.random(len(self._rows)),
            learns_shares, of_fixed,
        )  # fmt: skip
        if not np.isfinite(score):
            raise ValueError("Some rows are impossible, because of zeros among fixed parameters.")
        return score

    def _weights(self, rng):
        """Return weights drawn given the present components; fixed ones are as they are."""
        concentration = self._counts(self._labels) + self._given.counts + 1.0
        drawn = drawn_proportions(concentration, rng)
        return self._fixed.shares("weights", drawn, self._model.weights)

    @property
    def labels(self) -> Integers:
        """Present components of all rows, an ndarray of intc of shape (n_rows,)."""
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
        """Number components in averages and draws as in a reference model.

        Parameters
        ----------
        reference : MixtureModel
            With as many components of the same family.
        """
        self._reference = reference

    def _order_of(self, model):
        """Return the component that matches each of the reference; places stay."""
        order, free = np.arange(model.n_components), np.flatnonzero(~self._has_places)
        if len(free) > 1:
            parts = (
                MixtureModel(
                    one.family, one.weights[free], components(one.parameters, free, len(order))
                )
                for one in (model, self._reference)
            )
            order[free] = free[next(parts).order_in(next(parts))]
        return order

    def average_in(self) -> None:
        evidence = self._statistics(self._rows, self._labels)
        present = self._model_of(evidence)
        if self._reference is None:
            self._reference = present
        numbers = np.argsort(self._order_of(present))
        if (numbers != np.arange(len(numbers))).any():
            evidence = self._statistics(self._rows, numbers[self._labels])
        terms = [] if self._sum is None else [(1.0, self._sum)]
        self._sum = combine([*terms, (1.0, evidence)])
        self._n_averaged += 1

    def model(self) -> MixtureModel:
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

    def draw(self, rng: Generator) -> MixtureModel:
        """Return weights and parameters drawn given the present components, as a model."""
        total = combine([(1.0, self._given), (1.0, self._statistics(self._rows, self._labels))])
        weights, model = self._weights(rng), self._model
        parameters = self._family.draw_from_posterior(total.emissions, rng)
        if self._fixed.components is not None:
            parameters = self._fixed.parameters(parameters, model.parameters)
        drawn = replace(model, weights=weights, parameters=parameters)
        if self._reference is None:
            return drawn
        order = self._order_of(drawn)
        return replace(drawn, weights=weights[order], parameters=take(parameters, order))


def _check(data, prior):
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

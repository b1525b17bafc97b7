"""The hidden Markov models that the laws of models run over."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from cases.enumeration import LogDensities, filtered_by_enumeration, logs
from cases.family_cases import FAMILIES, OTHER_FAMILIES, FamilyCase, case_of
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.families import (
    BernoulliRegression,
    Categorical,
    Full,
    Laplace,
    MixtureOf,
    Poisson,
    PoissonRegression,
)
from sklearn_onlineem.families.capabilities import Marginals
from sklearn_onlineem.models.fixed import Fixed
from sklearn_onlineem.models.hidden_markov.durations import (
    CategoricalDurations,
    NegativeBinomialDurations,
    PoissonDurations,
    SegmentDurations,
)
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel, HiddenMarkovStatistics
from sklearn_onlineem.models.hidden_markov.semi_markov import HiddenSemiMarkovModel
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState, GivenLength


def with_known(model, parts):
    """The same chain, of which start (s), transitions (t) or emissions (e) are not learnt."""
    masks = {"s": "weights", "t": "transmat", "e": "components"}
    shapes = {"s": model.start.shape, "t": model.transmat.shape, "e": model.start.shape}
    return replace(
        model, fixed=Fixed(**{masks[part]: np.ones(shapes[part], bool) for part in parts})
    )


@dataclass(frozen=True)
class ChainCase:
    """A hidden Markov model of one family's emissions; its data are sequences of 1 to 5 rows."""

    case: FamilyCase
    termination: type

    is_mixture = False
    has_labels = True
    has_time = True

    def __repr__(self):
        return f"{self.termination.__name__} chain of {self.case!r}"

    @property
    def is_quick(self):
        return self.case.is_quick

    @property
    def regular(self):
        """Whether the statistics of data are those of a model: lengths must not be given."""
        return self.termination is not GivenLength and self.case.regular

    def draw(self, rng, n_components=3, d=2):
        start = rng.dirichlet(np.full(n_components, 5.0))
        width = n_components + (self.termination is EndState)
        transmat, termination = rng.dirichlet(np.full(width, 2.0), n_components), self.termination
        if termination is AbsorbingStates:
            transmat[-1] = np.eye(n_components)[-1]
            termination = termination((n_components - 1,))
        else:
            termination = termination()
        parameters = self.case.draw(rng, n_components, d)
        return HiddenMarkovModel(self.case.family, start, transmat, parameters, termination)

    def data(self, rng, n, d=2, n_threads=1):
        lengths = rng.integers(1, 6, n)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        X = self.case.rows(rng, offsets[-1], d)
        return Sequences(Rows(X, n_threads=n_threads), offsets)

    def rich_data(self, rng, n):
        """Sequences with known states, where these forbid none."""
        data = self.data(rng, n)
        if self.termination is AbsorbingStates:
            return data
        labels = rng.integers(-1, 3, len(data.X)).astype(np.int32)
        return replace(data, rows=replace(data.rows, labels=labels))

    def with_gaps(self, data, rng):
        """Some rows are missing, and single values where the family takes that."""
        X = data.X.copy()
        X[rng.random(len(X)) < 0.2] = np.nan
        if isinstance(self.case.family, Marginals):
            X[rng.random(X.shape) < 0.2] = np.nan
        return replace(data, rows=replace(data.rows, X=X))

    def before(self, model, rng):
        """The distribution of a state that a sequence continues from."""
        weights = rng.dirichlet(np.ones(model.n_components))
        weights[list(getattr(model.termination, "states", ()))] = 0.0
        return weights / weights.sum()

    def labelled(self, data, states):
        return replace(data, rows=replace(data.rows, labels=states.astype(np.int32)))

    def single(self, data):
        return replace(data, rows=Rows(data.X.astype(np.float32)))

    def mean_log_likelihood(self, model, data):
        """By the definition, one step after the other, of all sequences at once."""
        n_states = model.n_components
        table, start = model.transmat[:, :n_states], logs(model.start)
        absorbing = np.zeros(n_states, dtype=bool)
        if self.termination is AbsorbingStates:
            absorbing[-1] = True
        ending = {
            GivenLength: np.zeros(n_states),
            EndState: logs(model.transmat[:, -1]),
            AbsorbingStates: logs(absorbing),
        }[self.termination]
        log_table = logs(np.where(absorbing[:, None], 0.0, table))
        log_densities = model.family.log_density(model.parameters, data.X)
        if data.rows.labels is not None:
            known = data.rows.labels[:, None]
            log_densities[(known >= 0) & (known != np.arange(n_states))] = -np.inf
        first, lengths = data.offsets[:-1], np.diff(data.offsets)
        alpha = start + log_densities[first]
        for t in range(1, lengths.max()):
            on = lengths > t
            moved = logsumexp(alpha[on][:, :, None] + log_table, axis=1)
            alpha[on] = moved + log_densities[first[on] + t]
        return logsumexp(alpha + ending, axis=1).mean()

    def prior(self, model, n_features, concentration):
        emissions = model.family.prior_statistics(
            model.n_components, n_features=n_features, **self.case.prior(n_features)
        )
        excess = concentration - 1.0
        return HiddenMarkovStatistics(
            np.full(model.n_components, excess), excess * (model.transmat > 0), emissions
        )

    def log_prior(self, model, concentration):
        possible = model.transmat[model.transmat > 0]
        excess = (concentration - 1.0) * (np.log(model.start).sum() + np.log(possible).sum())
        return excess + self.case.log_prior(model.family, model.parameters)

    def occupancies(self, evidence):
        """How often components are used, or states entered and left."""
        return np.append(evidence.start, evidence.transitions)


@dataclass(frozen=True)
class SegmentCase(ChainCase):
    """A hidden semi-Markov model, whose segments have up to 5 rows, as sequences."""

    durations: SegmentDurations = CategoricalDurations()

    @property
    def regular(self):
        # Durations that are met, and those with shapes, are no exponential families.
        is_curved = isinstance(self.durations, NegativeBinomialDurations)
        return super().regular and not (is_curved or self.durations.left_censored)

    def __repr__(self):
        begins = ", left-censored" if self.durations.left_censored else ""
        ends = "" if self.termination is GivenLength else f", {self.termination.__name__}"
        return f"{type(self.durations).__name__}{begins}{ends} of {self.case!r}"

    def draw(self, rng, n_components=3, d=2):
        chain = super().draw(rng, n_components, d)
        table = rng.dirichlet(np.full(5, 2.0), n_components)
        apart = np.where(np.eye(*chain.transmat.shape) > 0.0, 0.0, chain.transmat)
        if self.termination is AbsorbingStates:
            apart[-1], table[-1] = chain.transmat[-1], np.eye(5)[0]
        return HiddenSemiMarkovModel(
            chain.family,
            chain.start,
            apart / apart.sum(axis=1, keepdims=True),
            chain.parameters,
            chain.termination,
            durations=self.durations,
            table=self.durations.m_step(table, 0.3 * np.ones(n_components), table),
        )

    def before(self, model, rng):
        """The distribution of a state and of the rows of its segment."""
        return rng.dirichlet(np.ones(model.table.size))

    def mean_log_likelihood(self, model, data):
        """That of the hidden Markov model whose states are those of rows of segments."""
        states, chain = extended(model)
        densities = model.family.log_density(model.parameters, data.X)
        if data.rows.labels is not None:
            known = data.rows.labels[:, None]
            densities[(known >= 0) & (known != np.arange(model.n_components))] = -np.inf
        rows = Sequences(Rows(np.ascontiguousarray(densities[:, states])), data.offsets)
        return chain.log_likelihood(rows).mean()

    def prior(self, model, n_features, concentration):
        prior = super().prior(model, n_features, concentration)
        prior = model.chain_statistics(prior.start, prior.transitions, prior.emissions)
        return replace(prior, durations=(concentration - 1.0) * (model.table > 0.0))

    def log_prior(self, model, concentration):
        lasting = (concentration - 1.0) * np.log(model.table[model.table > 0.0]).sum()
        return super().log_prior(model, concentration) + lasting


def extended(model):
    """States (state, row of its segment, duration) of a hidden semi-Markov model, as a chain.

    The state of each of these, and the model of their log densities.
    """
    n_durations = model.table.shape[1]
    lasts = [(row, s) for s in range(1, n_durations + 1) for row in range(1, s + 1)]
    rows, durations = np.tile(np.array(lasts).T, model.n_components)
    states = np.repeat(np.arange(model.n_components), len(lasts))
    weights, is_first = model.table[states, durations - 1], rows == 1
    new = np.where(is_first, weights, 0.0)
    # A segment of an absorbing state has one row.
    final, ends = model.termination.final(model.transmat)[states], rows == durations
    moves = model.termination.transitions(model.transmat)
    transmat = np.where(ends[:, None], moves[states][:, states] * new, 0.0)
    goes_on = np.flatnonzero(rows < durations)
    transmat[goes_on, goes_on + 1] = 1.0
    if model.durations.left_censored:
        mean = model.table @ np.arange(1.0, n_durations + 1.0)
        new = weights / mean[states]
    termination = model.termination
    if isinstance(termination, EndState):
        transmat = np.column_stack([transmat, ends * final])
    elif isinstance(termination, AbsorbingStates):
        termination = AbsorbingStates(tuple(np.flatnonzero(ends * final)))
    chain = model.start[states] * new, np.ascontiguousarray(transmat), None, termination
    return states, HiddenMarkovModel(LogDensities(len(states)), *chain)


def filtered_by_definition(model, log_densities):
    """p(state | rows so far) of the rows of one sequence, by enumeration of all paths or rows."""
    if not isinstance(model, HiddenSemiMarkovModel):
        return filtered_by_enumeration(model, log_densities)
    states, chain = extended(model)
    rows = Rows(np.ascontiguousarray(log_densities[:, states]))
    filtered = chain.filtered(Sequences(rows, np.array([0, len(log_densities)])))
    return filtered @ np.eye(model.n_components)[states]


CHAINS = [
    *(ChainCase(case, GivenLength) for case in [*FAMILIES, *OTHER_FAMILIES]),
    *(
        ChainCase(case, termination)
        for termination in (EndState, AbsorbingStates)
        for case in map(case_of, (Full, Poisson, Categorical, Laplace))
    ),
    *(ChainCase(case_of(kind), GivenLength) for kind in (BernoulliRegression, PoissonRegression)),
    *(ChainCase(case_of(MixtureOf), termination) for termination in (GivenLength, EndState)),
    SegmentCase(case_of(Full), GivenLength, CategoricalDurations()),
    SegmentCase(case_of(Poisson), GivenLength, CategoricalDurations(left_censored=True)),
    SegmentCase(case_of(Poisson), GivenLength, PoissonDurations(left_censored=True)),
    SegmentCase(case_of(Poisson), GivenLength, NegativeBinomialDurations()),
    SegmentCase(case_of(Poisson), EndState, PoissonDurations()),
    SegmentCase(case_of(Full), EndState, PoissonDurations(left_censored=True)),
    SegmentCase(case_of(Poisson), AbsorbingStates, NegativeBinomialDurations()),
]

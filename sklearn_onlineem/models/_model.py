"""The contract of a model, from which solvers are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Generic, Self, TypeVar

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import rel_entr

from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem._values import Loaded, n_bytes, n_numbers, take
from sklearn_onlineem.data import Batch
from sklearn_onlineem.families.parts import PARAMETERS, Part
from sklearn_onlineem.statistics import Statistics, combine

# Data of a model, and its statistics.
Data = TypeVar("Data", bound=Batch)
Evidence = TypeVar("Evidence", bound=Statistics)


# Families may make their parts anew.
@lru_cache(maxsize=256)
def _lifted(part):
    def get(model):
        return part.get(model.family, model.parameters)

    def put(model, values):
        given = part.put(model.family, model.parameters, values)
        if part.has_floor:
            above = model.family.regularise(given)
            given = above if model.fixed is None else model.fixed.parameters(above, given)
        return replace(model, parameters=given)

    return part._replace(get=get, put=part.put and put)


class Model(Loaded, ABC, Generic[Data, Evidence]):
    """A model with hidden variables: a frozen value that holds its parameters.

    Statistics are averages per observation, jointly over hidden and visible variables. Two laws
    hold for each model, and are tested for all: ``m_step(own_statistics())`` is the identity, and
    the evidence of two batches adds up to that of both.

    Notes
    -----
    Methods take these:

    data : Batch
        Observations in the form that the model takes.
    statistics, prior : Statistics
        Evidence, pseudo-statistics of a conjugate prior, or a sum of them.
    other, reference : Model
        Of the same class, with as many components.
    like : Batch or Statistics or None
        Data, or the distribution of their lengths, where the model does not have one.
    order : ndarray of int of shape (n_components,)
        Old number of each component or state.
    n : int
        How many observations are drawn.
    rng : numpy.random.Generator
        Source of random numbers.
    log_likelihoods : ndarray of shape (n_rows,) or None
        Filled in with the log-likelihoods of the rows, in nats.
    """

    # Whether posteriors of hidden variables, and so likelihoods, have a closed form. If not,
    # expectations are approximate, and a lower bound replaces the log-likelihood everywhere.
    is_exact = True
    # Whether the E-step needs an `rng` even where it takes expectations.
    draws = False
    # Whether statistics have a fixed size, as the hyper-parameters of a posterior have.
    is_conjugate = True
    # Whether hidden variables are choices of one of `n_components`.
    has_components = True
    # Parameters as users know them, besides those of a family.
    own_parts: tuple[Part, ...] = ()

    @classmethod
    def _parts_of(cls, family=None):
        """Return the parameters that users know of models with a family, or with none."""
        if family is None:
            return cls.own_parts
        # A family may have start and transition probabilities, too.
        names = {part.name for part in cls.own_parts}
        parts = (part for part in family.parts if part.name not in names)
        return (*cls.own_parts, *(_lifted(part) for part in parts), PARAMETERS)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parameters as users know them."""
        parts = self._parts_of(getattr(self, "family", None))
        # Some say by the parameters whether they are learnt.
        return tuple(
            part._replace(kind=part.kind(self.parameters)) if callable(part.kind) else part
            for part in parts
        )

    @abstractmethod
    def e_step(self, data: Data, rng: Generator | None = None) -> tuple[Evidence, float]:
        """Return the expected statistics and the log-likelihood, weighted averages per observation.

        With `rng` hidden variables are drawn from their posterior instead of averaged over.
        """

    @abstractmethod
    def own_statistics(self, like: Data | Statistics | None = None) -> Evidence:
        """Return the expected statistics under the model itself."""

    @abstractmethod
    def m_step(self, statistics: Evidence) -> Self:
        """Return the model that maximises the statistics.

        They are evidence, or its sum with pseudo-statistics of a prior and own statistics of
        models.
        """

    @abstractmethod
    def log_likelihood(self, data: Data) -> Floats:
        """Return the log-likelihood of each observation, an ndarray of shape (n,), in nats."""

    @abstractmethod
    def kl_divergence(self, other: Self, like: Data | Statistics | None = None) -> float:
        """Return KL(self || other) jointly over hidden and visible variables, in nats."""

    @abstractmethod
    def sample(
        self, n: int, rng: Generator, like: Data | Statistics | None = None
    ) -> tuple[object, object]:
        """Draw n observations; return visible and hidden variables."""

    def pseudo_data(self, n: int, rng: Generator, like: Data | Statistics | None = None) -> Data:
        """Draw n observations in the form that `e_step` takes."""
        return self.sample(n, rng, like)[0]

    @abstractmethod
    def observations_needed(self, data: Data) -> float:
        """Return how many observations determine the model, for learning rates that adapt to it.

        Their values are compared with the parameters of the visible part.
        """

    def size_of(self, data: Data) -> float:
        """Return the size of a batch: rows for sequences of given lengths, else observations."""
        return data.total_weight

    @property
    def n_active(self) -> int | None:
        """Number of components with any weight; None for models that always use all."""
        return None

    def expected_log_likelihood(self, statistics: Evidence) -> float:
        r"""Return the log-likelihood of complete data that have these statistics, in nats.

        The M-step maximises it: :math:`Q(\theta) = \langle s, \theta \rangle - A(\theta)` if the
        complete data are an exponential family. It leaves out what does not depend on the
        parameters, so only differences between models have a meaning. For own statistics, these are
        the KL divergence. ValueError if the model does not implement it.
        """
        raise ValueError(
            f"{type(self).__name__} does not implement expected_log_likelihood, which its M-step"
            " maximises."
        )

    def n_parameters(self) -> int:
        """Return the number of free parameters."""
        return n_numbers(self)

    def effective_counts(self, statistics: Evidence) -> Floats | None:
        """Return the weight behind the statistics of each component, (n_components,), or None."""
        return None

    def mean_form(self, prior: Evidence) -> Evidence:
        """Return pseudo-statistics that lead to the posterior's mean, instead of its mode.

        ValueError is raised if the posterior of this conjugate prior has no mean.
        """
        raise ValueError(f"{type(self).__name__} has no posterior mean in closed form.")

    def aligned_to(self, reference: Self, like: Data | Statistics | None = None) -> Self:
        """Return the same distribution with hidden states numbered as in a reference."""
        order = self.order_in(reference, like)
        parameters = self.parameters
        if not (order == np.arange(len(order))).all():
            parameters = take(parameters, order)
        # Parts of components may have another order, too.
        parameters = self.family.aligned(parameters, reference.parameters)
        if parameters is self.parameters:
            return self
        return replace(self.renumbered(order), parameters=parameters)

    def order_in(self, reference: Self, like: Data | Statistics | None = None) -> Integers:
        """Return the own component or state that matches the reference's j, for each j.

        ValueError is raised if the model has no states that can be matched.
        """
        raise ValueError(f"{type(self).__name__} has no states that can be matched.")

    def renumbered(self, order: Integers) -> Self:
        """Return the same distribution with components or states in another order.

        It has the present numbers of those that come first, second, and so on; ValueError if these
        are not all numbers, or are fixed, as some of the parameters are.
        """
        raise ValueError(f"{type(self).__name__} has no states that can be renumbered.")

    def with_components_of(self, other: Self) -> Self:
        """Return this model with the components of another, and its own shares or transitions."""
        return replace(self, parameters=other.parameters)

    def __getstate__(self):
        # Cached properties are computed again.
        if not is_dataclass(self):
            return vars(self)
        return {f.name: self.__dict__[f.name] for f in fields(self)}

    def __sizeof__(self):
        # Dask places tasks by it.
        return n_bytes(self)


def by_weight(e_step, data, rng=None, log_likelihoods=None):
    """Return what an E-step that takes no weights makes of data that have them."""
    terms, total = [], 0.0
    for weight, rows, part in data.by_weight:
        own = () if log_likelihoods is None else (np.empty(len(rows)),)
        try:
            statistics, log_likelihood = e_step(part, rng, *own)
        except ours(ValueError):
            e_step(data.weighted(None), rng)  # Its message has the numbers of all sequences.
            raise
        if own:
            log_likelihoods[rows] = own[0]
        share = weight * len(part) / data.total_weight
        terms.append((share, statistics))
        total += share * log_likelihood
    return combine(terms), total


def divergences(p, q):
    """Return KL(p_i || q_j) of the components of two models of one family, (K, K), in nats."""
    n, family = p.n_components, p.family
    out, i = np.empty((n, n)), np.arange(n)
    for shift in range(n):
        j = (i + shift) % n
        other = take(q.parameters, j)
        out[i, j] = family.kl_divergence(family.aligned(p.parameters, other), other)
    return np.maximum(out, 0.0)


def matching(occupancy, reference_occupancy, divergences, *ends):
    r"""Return an order that numbers states as in a reference, by the least KL divergence to it.

    .. math:: \sum_j u_i \log(u_i / v_j) + u_i \mathrm{KL}_{ij}, \qquad i = i(j)

    where u and v are the occupancies, and KL those of own emissions i and the reference's j.
    `ends` are masks of both models, of states that must be matched with each other.
    """
    cost = rel_entr(occupancy[:, None], reference_occupancy)
    cost += np.where(occupancy[:, None] > 0.0, occupancy[:, None] * divergences, 0.0)
    if ends:
        cost[ends[0][:, None] != ends[1]] = np.inf
    possible = np.isfinite(cost)
    # A cost above all others together, and of their size, so that these keep their digits.
    forbidden = 2.0 * len(cost) * np.abs(cost[possible]).max(initial=1.0)
    return linear_sum_assignment(np.where(possible, cost, forbidden).T)[1]


def check_order(order, n):
    """Raise ValueError unless these are the numbers from 0 up to n, in any order."""
    if not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(
            f"order must have each of the numbers 0 to {n - 1} once, got {order!s:.60}."
        )

"""One step of EM, online or batch: sum evidence, inertia and priors, then maximise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from sklearn_onlineem._checks import check_count
from sklearn_onlineem._typing import Generator
from sklearn_onlineem.data import Batch
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, combine

AnyModel = TypeVar("AnyModel", bound=Model)
# Pairs of a weight and the statistics that it multiplies.
Terms: TypeAlias = Iterable[tuple[float, Statistics]]


class Inertia(Settings, ABC):
    """Regularisation of a step towards the old model, by its statistics or an estimate of them."""

    # Whether it needs a generator of random numbers.
    draws = False

    @abstractmethod
    def __call__(
        self, model: Model, like: Batch | LengthDistribution | None, rng: Generator | None = None
    ) -> Statistics:
        """Return the statistics of the old model, averages per observation.

        `like` is the batch, or the distribution of its lengths if the model does not have one.
        """


@dataclass(frozen=True)
class Exact(Inertia):
    """The expected statistics of the old model, in closed form."""

    def __call__(
        self, model: Model, like: Batch | LengthDistribution | None, rng: Generator | None = None
    ) -> Statistics:
        return model.own_statistics(like=like)


@dataclass(frozen=True)
class Sampled(Inertia):
    r"""Statistics of pseudo-observations, drawn from the old model in each step.

    .. math::
        E_\Theta[S] \approx \frac{1}{N'} \sum_{n'} E[S \mid v_{n'}, \Theta], \qquad
        v_{n'} \sim p(v \mid \Theta)

    It works for models whose divergence has no closed form: it needs only their `sample` and
    `e_step`. Its noise enters a step with weight 1 / (1 + eta), which tends to 1 as learning rates
    decay, so that fits of many passes drift away. Prefer `Exact`.

    Parameters
    ----------
    n_pseudo_samples : int, default=2000
        N', observations drawn in a step, at least 1.

    References
    ----------
    Amid & Warmuth, UAI 2020, eq. (6); its inner expectation should be under the old model, as here.
    """

    n_pseudo_samples: int = 2000
    draws = True

    def __post_init__(self):
        check_count("n_pseudo_samples", self.n_pseudo_samples)

    def __call__(
        self, model: Model, like: Batch | LengthDistribution | None, rng: Generator | None = None
    ) -> Statistics:
        return model.e_step(model.pseudo_data(self.n_pseudo_samples, rng, like=like))[0]


def online_step(
    model: AnyModel,
    data: Batch,
    eta: float,
    prior: Terms = (),
    rng: Generator | None = None,
    inertia: Callable[[Model, Batch], Statistics] = Exact(),
    found: tuple[Statistics, float] | None = None,
) -> tuple[AnyModel, float]:
    r"""Minimise the EM bound of a batch plus 1/eta times the joint KL divergence to the old model.

    .. math::
        \Theta^+ = \operatorname*{arg\,min}_{\tilde\Theta} U_\Theta(\tilde\Theta \mid \text{batch})
        + \tfrac{1}{\eta} \mathrm{KL}\big(p(h, v \mid \Theta) \,\|\, p(h, v \mid \tilde\Theta)\big)

    The minimiser is the M-step of a weighted sum of expected complete-data statistics. The step
    size of Cappe & Moulines is ``eta / (1 + eta)``.

    Parameters
    ----------
    model, data : Model, Batch
        The old model, and data in the form that its `e_step` takes.
    eta : float
        Learning rate, above 0. Infinity is a step of batch EM.
    prior : iterable of (float, Statistics), default=()
        Weights and pseudo-statistics of conjugate priors.
    rng : numpy.random.Generator, default=None
        If given, hidden variables are sampled instead of averaged over (stochastic EM).
    inertia : callable (model, data) -> Statistics, default=Exact()
        The old model's own statistics, or an estimate of them.
    found : (Statistics, float), default=None
        What the model's `e_step` has returned for the data; None: it is called.

    Returns
    -------
    new_model : Model
    log_likelihood : float
        Mean log-likelihood of the batch per observation, *under the old model*.

    References
    ----------
    Amid & Warmuth, UAI 2020, eq. (3); Cappe & Moulines, JRSS-B 2009, eq. (12).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.em.step import online_step
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixtures.mixture import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> new, log_likelihood = online_step(model, Rows(np.array([[4.0]])), eta=1.0)
    >>> new.parameters
    array([[3.]])
    """
    evidence, log_likelihood = model.e_step(data, rng=rng) if found is None else found
    regularisation = () if eta == math.inf else ((1.0 / eta, inertia(model, data)),)
    new_model = model.m_step(combine([(1.0, evidence), *regularisation, *prior]))
    return new_model, log_likelihood


def batch_step(
    model: AnyModel, data: Batch, prior: Terms = (), rng: Generator | None = None
) -> tuple[AnyModel, float]:
    """Take one iteration of batch EM: an online step that forgets the old model (eta = infinity).

    Parameters
    ----------
    model, data, prior, rng
        See `online_step`, for what is returned, too; `data` are all observations.
    """
    return online_step(model, data, math.inf, prior, rng)

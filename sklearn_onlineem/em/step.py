r"""One step of EM, online or batch: evidence plus inertia plus priors, then one M-step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import numpy as np

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.inertia import InertiaFunction, exact_inertia
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, combine

__all__ = ["batch_step", "online_step"]

AnyModel = TypeVar("AnyModel", bound=Model)
# Weights, and what they weigh.
Terms: TypeAlias = Iterable[tuple[float, Statistics]]


def online_step(
    model: AnyModel,
    data: Batch,
    eta: float,
    prior: Terms = (),
    rng: np.random.Generator | None = None,
    inertia: InertiaFunction = exact_inertia,
) -> tuple[AnyModel, float]:
    r"""Minimise the EM bound of a batch plus 1/eta times the joint KL divergence to the old model.

    .. math::
        \Theta^+ = \operatorname*{arg\,min}_{\tilde\Theta} U_\Theta(\tilde\Theta \mid \text{batch})
        + \tfrac{1}{\eta} \mathrm{KL}\big(p(h, v \mid \Theta) \,\|\, p(h, v \mid \tilde\Theta)\big)

    Both terms are linear in the expected statistics of the complete data, so the minimiser is the
    M-step of their weighted sum. The step size of Cappe & Moulines is ``eta / (1 + eta)``.

    Parameters
    ----------
    model : Model
        The old model.
    data : Batch
        A batch, in the form that the model's `e_step` takes.
    eta : float
        Learning rate, above 0. Infinity is a step of batch EM.
    prior : iterable of (float, Statistics), default=()
        Further terms of the sum: weights and pseudo-statistics of conjugate priors.
    rng : numpy.random.Generator, default=None
        If given, hidden variables are sampled instead of averaged over (stochastic EM).
    inertia : callable (model, data) -> Statistics, default=exact_inertia
        The old model's own statistics, or an estimate of them.

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
    >>> from sklearn_onlineem.em import online_step
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> new, log_likelihood = online_step(model, Rows(np.array([[4.0]])), eta=1.0)
    >>> new.parameters
    array([[3.]])
    """
    evidence, log_likelihood = model.e_step(data, rng=rng)
    regularisation = () if eta == math.inf else ((1.0 / eta, inertia(model, data)),)
    new_model = model.m_step(combine([(1.0, evidence), *regularisation, *prior]))
    return new_model, log_likelihood


def batch_step(
    model: AnyModel, data: Batch, prior: Terms = (), rng: np.random.Generator | None = None
) -> tuple[AnyModel, float]:
    """One iteration of batch EM: an online step that forgets the old model (eta = infinity).

    Parameters
    ----------
    model : Model
        The old model, under which hidden variables are averaged over.
    data : Batch
        All observations, in the form that the model's `e_step` takes.
    prior : iterable of (float, Statistics), default=()
        Weights and pseudo-statistics of conjugate priors.
    rng : numpy.random.Generator, default=None
        If given, hidden variables are sampled instead of averaged over (stochastic EM).

    Returns
    -------
    new_model : Model
    log_likelihood : float
        Mean log-likelihood per observation, *under the old model*.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> new, log_likelihood = batch_step(model, Rows(np.array([[4.0], [6.0]])))
    >>> new.parameters
    array([[5.]])
    """
    return online_step(model, data, math.inf, prior, rng)

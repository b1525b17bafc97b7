"""Statistics that are carried along: the hyper-parameters of a posterior."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch, LengthDistribution
from sklearn_onlineem.em.step import AnyModel, Terms
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, combine

__all__ = ["Carried", "carried_step"]


class Carried(NamedTuple):
    """Expected statistics of all observations so far, each under the model that met it.

    Attributes
    ----------
    mass : float
        Observations behind them, those that the start stands for among them.
    statistics : Statistics
        Averages per observation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.em import Carried
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> evidence, _ = model.e_step(Rows(np.array([[6.0]])))
    >>> carried = Carried.of_model(model, mass=3.0).with_more(1.0, evidence)
    >>> carried.mass, model.m_step(carried.total()).parameters
    (4.0, array([[3.]]))
    >>> prior = [(4.0, evidence)]
    >>> carried.keeping(0.5).mass, model.m_step(carried.total(prior)).parameters
    (2.0, array([[4.5]]))
    """

    mass: float
    statistics: Statistics

    @classmethod
    def of_model(cls, model: Model, mass: float, lengths: LengthDistribution | None = None) -> Self:
        """What a model stands for as a start that counts for so many observations.

        Parameters
        ----------
        model : Model
            The start.
        mass : float
            Observations that it counts for, above 0.
        lengths : LengthDistribution, default=None
            Of the sequences that it stands for, where lengths are not modelled.

        Returns
        -------
        carried : Carried
        """
        return cls(mass, model.own_statistics(lengths))

    def with_more(self, n: float, evidence: Statistics, kept: float = 1.0) -> Carried:
        """Return what is carried once the evidence of n observations is added to a share of it.

        Parameters
        ----------
        n : float
            Observations by their weights, above 0.
        evidence : Statistics
            Their expected statistics, averages per observation.
        kept : float, default=1.0
            Share of what is carried that is kept, in (0, 1].

        Returns
        -------
        carried : Carried
        """
        before = kept * self.mass
        mass = before + n
        return Carried(mass, combine([(n / mass, evidence), (before / mass, self.statistics)]))

    def keeping(self, share: float) -> Carried | None:
        """Return it with a share of its mass, or None if that is nothing.

        Parameters
        ----------
        share : float
            From 0 to 1.

        Returns
        -------
        carried : Carried or None
        """
        return self._replace(mass=share * self.mass) if share > 0.0 else None

    def total(self, prior: Terms = ()) -> Statistics:
        """Return the statistics per observation, with those of priors, terms of all together.

        Parameters
        ----------
        prior : iterable of (float, Statistics), default=()
            Weights, in observations, and pseudo-statistics.

        Returns
        -------
        statistics : Statistics
        """
        if not prior:
            return self.statistics
        terms = [(weight / self.mass, statistics) for weight, statistics in prior]
        return combine([(1.0, self.statistics), *terms])


def carried_step(
    model: AnyModel,
    data: Batch,
    carried: Carried,
    prior: Terms = (),
    kept: float = 1.0,
    rng: np.random.Generator | None = None,
) -> tuple[AnyModel, Carried, Floats | None, float]:
    r"""Add the expected statistics of a batch to those carried, and maximise.

    .. math::
        s^+ = \zeta s + \sum_n E[S \mid x_n, \Theta], \qquad
        \Theta^+ = \operatorname*{M}(s^+ + s_0)

    Where all hidden variables are known and nothing is forgotten, :math:`s^+ + s_0` are the
    hyper-parameters of the conjugate posterior, and the order of batches changes nothing.

    Parameters
    ----------
    model : Model
        The old model, under which the expectations are taken.
    data : Batch
        In the form that the model's `e_step` takes.
    carried : Carried
        The statistics of all batches before.
    prior : iterable of (float, Statistics), default=()
        Weights and pseudo-statistics whose sum is :math:`s_0`, which is not forgotten.
    kept : float, default=1.0
        The share of what is carried that is kept, :math:`\zeta`.
    rng : numpy.random.Generator, default=None
        If given, hidden variables are sampled instead of averaged over.

    Returns
    -------
    new_model : Model
    carried : Carried
        The new one.
    rates : ndarray of shape (n_components,) or None
        The share of the batch in each component's statistics: their learning rates.
    log_likelihood : float
        Mean log-likelihood of the batch per observation, *under the old model*.

    References
    ----------
    Brochu, de Freitas & Bao, "Owed to a Martingale: A Fast Bayesian On-Line EM Algorithm for
    Multinomial Models", 2004, eqs. (7)-(12); Sato, "Convergence of on-line EM algorithm", 2000
    (forgetting).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.em import Carried, carried_step
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> carried = Carried.of_model(model, mass=3.0)
    >>> new, carried, rates, _ = carried_step(model, Rows(np.array([[6.0]])), carried)
    >>> new.parameters, carried.mass, rates
    (array([[3.]]), 4.0, array([0.25]))
    """
    evidence, log_likelihood = model.e_step(data, rng=rng)
    n = data.total_weight
    carried = carried.with_more(n, evidence, kept)
    total = carried.total(prior)
    rates = _shares(model.masses(evidence), model.masses(total), n / carried.mass)
    return model.m_step(total), carried, rates, log_likelihood


def _shares(part, whole, scale):
    """Shares of a batch in what components stand for; 0 of a component that nothing stands for."""
    if part is None:
        return None
    return np.divide(scale * part, whole, out=np.zeros(len(whole)), where=whole > 0.0)

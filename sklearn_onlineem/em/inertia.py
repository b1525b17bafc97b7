r"""The inertia of an online step: the old model's own statistics, exact or from samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sklearn_onlineem.data import Batch, LengthDistribution
from sklearn_onlineem.em.settings import Settings, check_count
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics

__all__ = ["Exact", "Inertia", "Sampled", "SampledInertia", "exact_inertia"]

InertiaFunction: TypeAlias = Callable[[Model, Batch], Statistics]


def exact_inertia(model: Model, data: Batch | LengthDistribution) -> Statistics:
    """Return the expected statistics of the model itself, which models have in closed form.

    Parameters
    ----------
    model : Model
        The old model.
    data : object
        The batch, or the distribution of its lengths, where lengths are not modelled; else of no
        account.

    Returns
    -------
    statistics : Statistics
    """
    return model.own_statistics(like=data)


@dataclass(frozen=True)
class SampledInertia:
    r"""Statistics of pseudo-observations that are drawn from the old model.

    .. math::
        E_\Theta[S] \approx \frac{1}{N'} \sum_{n'} E[S \mid v_{n'}, \Theta], \qquad
        v_{n'} \sim p(v \mid \Theta)

    The posterior is that of the *old* model, from which the pseudo-observations come. This is the
    general way for models whose divergence has no closed form; it needs their `sample` and
    `e_step` alone. Its noise enters a step with weight 1 / (1 + eta), which tends to 1 as learning
    rates decay: with a fixed number of pseudo-observations an online pass is first as good as
    with the exact inertia, then stalls, and over many passes drifts away. Prefer `exact_inertia`.

    Parameters
    ----------
    n_pseudo_samples : int
        N', at least 1.
    rng : numpy.random.Generator
        Moves on with each call.

    References
    ----------
    Amid & Warmuth, UAI 2020, eq. (6), whose inner expectation should be under the old model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.em import SampledInertia, online_step
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> inertia = SampledInertia(100_000, np.random.default_rng(0))
    >>> new, _ = online_step(model, Rows(np.array([[4.0]])), eta=1.0, inertia=inertia)
    >>> new.parameters.round(1)
    array([[3.]])
    """

    n_pseudo_samples: int
    rng: np.random.Generator

    def __call__(self, model: Model, data: Batch) -> Statistics:
        pseudo_data = model.pseudo_data(self.n_pseudo_samples, self.rng, like=data)
        return model.e_step(pseudo_data)[0]


class Inertia(Settings, ABC):
    """Regularisation of a step towards the old model, as a setting of solvers.

    Attributes
    ----------
    draws : bool
        Whether it needs a generator of random numbers.
    """

    draws = False

    @abstractmethod
    def with_rng(self, rng: np.random.Generator | None) -> InertiaFunction:
        """Return the function (model, data) -> Statistics of one step.

        Parameters
        ----------
        rng : numpy.random.Generator or None
            Of the step; None where nothing is drawn.

        Returns
        -------
        inertia : callable (model, data) -> Statistics

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.data import Rows
        >>> from sklearn_onlineem.em import Exact, Sampled
        >>> from sklearn_onlineem.families import Poisson
        >>> from sklearn_onlineem.models import MixtureModel
        >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
        >>> rng, batch = np.random.default_rng(0), Rows(np.array([[4.0]]))
        >>> for inertia in (Exact(), Sampled(100_000)):
        ...     statistics = inertia.with_rng(rng)(model, batch)
        ...     print(model.m_step(statistics).parameters.round(1))
        [[2.]]
        [[2.]]
        """


@dataclass(frozen=True)
class Exact(Inertia):
    """The old model's own statistics, in closed form: `exact_inertia`."""

    def with_rng(self, rng: np.random.Generator | None) -> InertiaFunction:
        return exact_inertia


@dataclass(frozen=True)
class Sampled(Inertia):
    """Statistics of pseudo-observations that are drawn anew in each step: `SampledInertia`.

    Parameters
    ----------
    n_pseudo_samples : int, default=2000
        Observations drawn in a step, at least 1.

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import CompoundDirichlet
    >>> from sklearn_onlineem.em import Online, Sampled
    >>> X = np.random.default_rng(0).multinomial(20, [0.2, 0.3, 0.5], size=50)
    >>> solver = Online(inertia=Sampled(500))
    >>> model = CompoundDirichlet(solver=solver, random_state=0).partial_fit(X).partial_fit(X)
    >>> model.set_params(solver__inertia__n_pseudo_samples=100).solver
    Online(average_from=None, inertia=Sampled(n_pseudo_samples=100), revives=True)
    """

    n_pseudo_samples: int = 2000
    draws = True

    def __post_init__(self):
        check_count("n_pseudo_samples", self.n_pseudo_samples)

    def with_rng(self, rng: np.random.Generator | None) -> InertiaFunction:
        return SampledInertia(self.n_pseudo_samples, rng)

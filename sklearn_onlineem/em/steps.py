"""What updates leave on record, and what is read from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.em.schedules import step_size
from sklearn_onlineem.em.settings import check_count

__all__ = ["CarriedStep", "Restart", "Step", "StructuralStep", "has_settled", "record_of"]


def _certificate(step: AnyStep) -> float:
    r"""Certificate of the batch of a step, :math:`\mathrm{KL} / \gamma^2`.

    A step of size gamma moves the model by gamma times what a step of batch EM would, to first
    order, and divergences are squares of that.
    """
    square = step_size(step.eta) ** 2
    return step.kl_divergence / square if square > 0.0 else math.nan


class Step(NamedTuple):
    """Record of one update.

    Attributes
    ----------
    eta : float
        Learning rate; infinity for a step of batch EM.
    log_likelihood : float
        Mean log-likelihood of the batch per observation *before* the update, in nats.
    kl_divergence : float
        Joint KL(new model || old model), in nats per observation.
    n_rows : int
        Rows, or pairs of strings, that were read up to and including this update since the model
        began, in all passes over them: where it is on a learning curve.
    certificate : float
        Of the batch, whatever the rate: half the squared distance of its statistics from the
        model's, in nats per observation. NaN where the rate is too small to tell.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float
    n_rows: int

    @property
    def certificate(self) -> float:
        """Of the batch, whatever the rate, in nats per observation."""
        return _certificate(self)


class StructuralStep(NamedTuple):
    """Record of an update after which other components have any weight, or one has come back.

    Attributes
    ----------
    eta, log_likelihood, kl_divergence, n_rows, certificate
        As of `Step`.
    n_components : int
        Components that have any weight now.
    revived, half_of : int
        A component that had starved and has come back, and the one that was split; -1 if none.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float
    n_rows: int
    n_components: int
    revived: int = -1
    half_of: int = -1

    @property
    def certificate(self) -> float:
        """Of the batch, whatever the rate, in nats per observation."""
        return _certificate(self)


class CarriedStep(NamedTuple):
    """Record of one update of statistics that are carried along, of components.

    Attributes
    ----------
    eta, log_likelihood, kl_divergence, n_rows, certificate
        As of `Step`; eta is the size of the batch over what was carried before.
    component_rates : ndarray of shape (n_components,)
        Their own learning rates: the share of the batch in the statistics of each component.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float
    n_rows: int
    component_rates: Floats

    @property
    def certificate(self) -> float:
        """Of the batch, whatever the rate, in nats per observation."""
        return _certificate(self)


AnyStep: TypeAlias = Step | StructuralStep | CarriedStep


@dataclass(frozen=True)
class Restart:
    """What a callback returns to let learning rates begin anew, as the source has changed.

    The model stays. It counts from now on for the last `n_rows` rows only, so that it follows what
    comes as it would after so many; statistics that are carried along weigh as little. A schedule
    that is constant has nothing to begin, and a fit counts all of its data once it has ended.

    Parameters
    ----------
    n_rows : int, default=0
        Rows that still count; 0: none, as at the start of a stream.

    Raises
    ------
    ValueError
        If `n_rows` is no whole number from 0 up.

    Examples
    --------
    A model of two rates learns a batch in which one has doubled, as after ten rows:

    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.em import Restart
    >>> rng = np.random.default_rng(0)
    >>> def counted(means, n):
    ...     return rng.poisson(rng.choice(means, size=(n, 1)))
    >>> def surprised(step):
    ...     return step.log_likelihood < -5.0 and Restart(10)
    >>> for callbacks in [None, [surprised]]:
    ...     mixture = PoissonMixture(2, callbacks=callbacks, random_state=0)
    ...     for means in 50 * [[2.0, 20.0]] + 5 * [[2.0, 40.0]]:
    ...         mixture = mixture.partial_fit(counted(means, 100))
    ...     print(mixture.means_.ravel().round())
    [37.  2.]
    [ 2. 40.]
    """

    n_rows: int = 0

    def __post_init__(self):
        check_count("n_rows", self.n_rows, least=0)


def record_of(update, component_rates, model, new_model, moved=None):
    """Return the record of an update that took a model to a new one.

    Parameters
    ----------
    update : tuple
        eta, log_likelihood, kl_divergence and n_rows.
    component_rates : ndarray of shape (n_components,) or None
        Of statistics that are carried along.
    model, new_model : Model
    moved : Move, default=None
        The structural move that was made besides.
    """
    if component_rates is not None:
        return CarriedStep(*update, component_rates)
    n_survivors = new_model.n_survivors
    if moved is not None:
        return StructuralStep(*update, n_survivors, moved.revived, moved.half_of)
    if n_survivors != model.n_survivors:
        return StructuralStep(*update, n_survivors)
    return Step(*update)


def has_settled(rule, step):
    """Ask a stopping rule; nothing has settled while components lose their weight, one at a time.

    Parameters
    ----------
    rule : callable (log_likelihood, kl_divergence) -> bool
    step : Step or StructuralStep
    """
    is_satisfied = rule(step.log_likelihood, step.kl_divergence)
    return is_satisfied and not isinstance(step, StructuralStep)

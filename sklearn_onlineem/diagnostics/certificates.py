"""Certificates of convergence: the distance of a model from a fixed point of EM."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_onlineem.data import Batch
from sklearn_onlineem.diagnostics.reading import model_and_data, prior_of
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.coordinates import coordinates_of, has_coordinates
from sklearn_onlineem.statistics import Statistics, combine

# Most halvings of rates in the extrapolation to rate 0.
_MOST_HALVINGS = 20
# Smaller divergences have too few digits.
_LEAST_DIVERGENCE = 1e-12
_ROUNDING = 1e-15


@dataclass(frozen=True)
class Certificate:
    r"""Distance of a model from a fixed point of batch EM, in nats per observation.

    Parameters
    ----------
    certificate : float
        :math:`Q(\theta^+) - Q(\theta)`, the increase of the objective by the next M-step. If it is
        exact, this is not below 0, and 0 at fixed points only.
    natural_decrement : float
        :math:`\tfrac12 \nabla L' I^{-1} \nabla L`, half of the squared natural gradient.
    kl_divergence : float
        Joint :math:`\mathrm{KL}(\theta^+ \| \theta)`, as in `history_`.
    gain : float
        Increase of the mean log-likelihood by the iteration; with a prior, plus its log density
        over the number of observations.
    log_likelihood : float
        Mean log-likelihood before the iteration.
    n_observations : float
        Total weight of the data.
    n_parameters : int
        Free parameters of the model.
    m_step_error : float, default=0.0
        :math:`\max Q - Q(\theta^+)`, what the M-step leaves: where it is iterated, half of the
        squared natural gradient of Q after the last iteration; 0 where it is a formula.
    """

    certificate: float
    natural_decrement: float
    kl_divergence: float
    gain: float
    log_likelihood: float
    n_observations: float
    n_parameters: int
    m_step_error: float = 0.0

    @property
    def exact_certificate(self) -> float:
        r"""Certificate of an exact M-step, :math:`\max Q - Q(\theta)`, at most gain + M-step error.

        So the smallest of T iterations is at most the mean of gains and errors.
        """
        return self.certificate + self.m_step_error

    @property
    def ratio(self) -> float:
        """Certificate over natural decrement, near 1 near a fixed point; NaN if both are 0.

        With a prior worth m observations and n observations the limit is n / (n + m); with given
        lengths of sequences, near 1.
        """
        return self.certificate / self.natural_decrement if self.natural_decrement else math.nan

    @property
    def per_parameter(self) -> float:
        """Certificate of all data over the number of parameters.

        Sampling noise is half a nat; a model far below it has converged, unless EM is slow.
        """
        return self.n_observations * self.certificate / max(1, self.n_parameters)

    @property
    def posterior_divergence(self) -> float:
        """Gain less certificate: the mean KL divergence between posteriors, old to new."""
        return self.gain - self.certificate


def convergence_certificate(estimator: OnlineEM, X: object, **where: object) -> Certificate:
    r"""Return the distance of a fitted estimator from a fixed point of batch EM, or MAP, on X.

    The next iteration raises the likelihood L, and the objective Q of its M-step, by

    .. math::
        L(\theta^+) - L(\theta) \ge Q(\theta^+) - Q(\theta) = \mathrm{KL}(\theta^+ \| \theta),

    a certificate without constants: the smallest of T iterations is at most (total gain) / T. The
    equation is for models whose complete data are a regular exponential family; for others, such as
    sequences of given lengths or Laplace distributions, only the inequality holds. The certificate
    tends to the natural decrement, half of the squared natural gradient. M-steps without a closed
    form have an error, which is measured. Cost: two passes over X.

    Parameters
    ----------
    estimator : estimator
        Fitted, by any solver. Its prior counts, besides X.
    X : object
        Data, as `fit` takes them.
    **where
        Further data of `fit`: `y`, `sample_weight`, `lengths` or `groups`.

    Raises
    ------
    NotFittedError, TypeError
        If the estimator is not fitted, or is none of this library with a model.
    ValueError
        If X is invalid, or the model has no exact E-step (latent Dirichlet allocation).

    Notes
    -----
    Floors of variances (`reg_covar`) are pseudo-data of components in Q. As their weight changes
    with the model, the gain may be below the certificate by a share of the floor in the variance.

    References
    ----------
    Kunstner, Kumar & Schmidt, "Homeomorphic-Invariance of EM: Non-Asymptotic Convergence in KL
    Divergence for Exponential Families via Mirror Descent", AISTATS 2021, proposition 2 and
    corollary 2; theorem 2 for M-steps with an additive error; appendix D for the natural decrement.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.diagnostics import convergence_certificate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([2.0, 6.0], size=(2000, 1)))
    >>> early, late = (
    ...     convergence_certificate(PoissonMixture(2, tol=tol, random_state=0).fit(X), X)
    ...     for tol in (1e-3, 1e-5))
    >>> late.certificate < early.certificate <= early.gain, round(late.ratio, 2)
    (True, 1.0)
    """
    model, data = model_and_data(estimator, X, **where)
    with error_context(estimator), single_threaded_blas(data.n_rows):
        return step_certificate(model, data, prior_of(estimator))


def step_certificate(
    model: Model, data: Batch, prior: Statistics | None = None, new: Model | None = None
) -> Certificate:
    """Return the certificate of a model and data, see `convergence_certificate`.

    Parameters
    ----------
    model : Model
        With an exact E-step, else ValueError is raised.
    data : Batch
        In the form that the model takes.
    prior : Statistics, default=None
        Pseudo-statistics of all data.
    new : Model, default=None
        After an M-step that is inexact, to which the model's own one is compared; None: after that.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.diagnostics.certificates import step_certificate
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixtures.mixture import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> found = step_certificate(model, Rows(np.array([[1.0], [5.0]])))
    >>> round(found.certificate, 4), round(found.natural_decrement, 4)
    (0.2164, 0.25)
    """
    if not model.is_exact:
        raise ValueError(f"{type(model).__name__} has no exact E-step; a certificate requires one.")
    evidence, log_likelihood = model.e_step(data)
    n = float(data.total_weight)
    statistics = combine([(1.0, evidence), *(() if prior is None else ((1.0 / n, prior),))])
    best = model.m_step(statistics)
    new = best if new is None else new
    rise, error = _rise(new, model, statistics), max(0.0, _rise(best, new, statistics))
    if has_coordinates(best):
        error += coordinates_of(best, statistics).m_step_error(statistics)
    gain = new.e_step(data)[1] - log_likelihood
    if prior is not None:
        gain += _rise(new, model, prior) / n
    return Certificate(
        certificate=max(0.0, rise) if new is best else rise,
        natural_decrement=_natural_decrement(model, statistics, data),
        kl_divergence=float(new.kl_divergence(model, like=data)),
        gain=float(gain),
        log_likelihood=float(log_likelihood),
        n_observations=n,
        n_parameters=int(model.n_parameters()),
        m_step_error=float(error),
    )


def _rise(new, old, statistics):
    return new.expected_log_likelihood(statistics) - old.expected_log_likelihood(statistics)


def _natural_decrement(model, statistics, data):
    """Return half of the squared natural gradient, the second-order form of KL along a step."""
    # An online step of a small rate moves by -rate I^-1 grad L, so that the squared norm of the
    # natural gradient is the limit of 2 KL / rate^2.
    own, scaled = model.own_statistics(data), []
    for number in range(_MOST_HALVINGS):
        rate = 0.5**number
        new = model.m_step(combine([(1.0 - rate, own), (rate, statistics)]))
        divergence = new.kl_divergence(model, like=data)
        if number > 1 and divergence < _LEAST_DIVERGENCE:
            break
        scaled.append(divergence / rate**2)
    return max(0.0, float(_limit(scaled)))


def _limit(values):
    """Return the limit at 0 of a smooth function, from its values at 1, 1/2, 1/4, ..."""
    # Ridders, "Accurate computation of F'(x)", 1982: of polynomials of rising degree the one that
    # differs least from those of lower degrees. Values have been divided by squares of rates, so
    # that rounding errors grow by 4 each time.
    best, least, previous, rounding = values[0], math.inf, values[:1], _ROUNDING
    for value in values[1:]:
        row, factor, rounding = [value], 1.0, 4.0 * rounding
        for coarser in previous:
            factor *= 2.0
            row.append(row[-1] + (row[-1] - coarser) / (factor - 1.0))
            error = max(abs(row[-1] - row[-2]), abs(row[-1] - coarser)) + rounding
            if error <= least:
                best, least = row[-1], error
        previous = row
    return best

r"""Certificates of the batches of a stream.

A step of rate :math:`\eta`, of size :math:`\rho = \eta / (1 + \eta)`, moves the model by
:math:`\mathrm{KL} \approx \rho^2 D`, where the certificate D is half the squared distance of the
batch's statistics from the model's, in the metric of the complete data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import NamedTuple, Self

from sklearn_onlineem._python import ours
from sklearn_onlineem.em.state import AnyStep

# Ratio of the half-lives of the two means.
_SLOWER = 4.0
_TINY = 1e-300
# Squares of larger numbers overflow.
_LARGEST = 1e100


class _Batch(NamedTuple):
    certificate: float
    log_likelihood: float
    n_rows: int
    end: int


class Batches:
    """Batches of a sequence of steps, with their numbers of rows."""

    def __init__(self):
        self.end = None

    def restarts(self, step):
        """Return whether a step is of another stream, as fewer rows have been read."""
        return self.end is not None and _numbers_of(step)[-1] < self.end

    def batch(self, step):
        """Return the batch of a step; None if its rows or certificate are not known."""
        certificate, log_likelihood, end = _numbers_of(step)
        begin, self.end = self.end, end
        if begin is None or end <= begin:
            return None
        if not 0.0 <= certificate <= _LARGEST or not abs(log_likelihood) <= _LARGEST:
            return None
        return _Batch(certificate, log_likelihood, end - begin, end)


def _numbers_of(step):
    try:
        return float(step.certificate), float(step.log_likelihood), int(step.n_rows)
    except ours(AttributeError, TypeError, ValueError, OverflowError):
        raise TypeError(
            "step must be one of sklearn_onlineem.em, with numbers certificate, log_likelihood and"
            f" n_rows, got {type(step).__name__}."
        ) from None


class _Mean:
    """Exponentially weighted mean and variance; the first values have equal weights."""

    def __init__(self, half_life):
        self.decay = 0.5 ** (1.0 / half_life)
        self.weight = self.squared_weight = self.mean = self.variance = 0.0

    def add(self, value):
        self.weight = self.decay * self.weight + 1.0
        self.squared_weight = self.decay**2 * self.squared_weight + 1.0
        deviation, share = value - self.mean, 1.0 / self.weight
        self.mean += share * deviation
        self.variance = (1.0 - share) * (self.variance + share * deviation * deviation)

    @property
    def standard_error(self):
        effective = self.weight**2 / self.squared_weight if self.weight else 0.0
        return math.sqrt(self.variance / (effective - 1.0)) if effective > 1.0 else math.nan


class StreamCertificate:
    r"""Exponentially weighted mean of the certificates of the batches of a stream.

    For batches of n rows and p parameters,

    .. math:: \mathrm{E} D = D_\infty + \frac{c}{n}, \quad c = \tfrac12 \operatorname{tr} I^{-1}
        \operatorname{Cov} \mathrm{E}[S \mid x] \le p / 2,

    the certificate of the source, which falls to 0 as the model learns, plus sampling noise, at
    most half a nat per parameter and batch. When the mean no longer falls, only noise is left.

    Parameters
    ----------
    half_life : float, default=50
        Batches after which older ones count half; above 0.

    Attributes
    ----------
    n_steps : int
        Batches so far, without the first, whose rows are not known.

    References
    ----------
    Kunstner, Kumar & Schmidt, AISTATS 2021, section 5, on stochastic mirror descent.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.diagnostics import StreamCertificate
    >>> rng, certificate = np.random.default_rng(0), StreamCertificate()
    >>> mixture = PoissonMixture(2, callbacks=[certificate], random_state=0)
    >>> for _ in range(400):
    ...     batch = rng.poisson(rng.choice([2.0, 20.0], size=(100, 1)))
    ...     mixture = mixture.partial_fit(batch)
    >>> certificate.is_stationary(), certificate.mean < 3 / 2 / 100
    (True, True)
    """

    n_steps: int

    def __init__(self, half_life: float = 50):
        self.half_life = positive("half_life", half_life)
        self._begin()

    @classmethod
    def from_history(cls, history: Iterable[AnyStep], half_life: float = 50) -> Self:
        """Return the certificate after the steps of a history.

        Parameters
        ----------
        history : iterable of Step
            ``history_`` of an estimator: its last 10,000 steps.
        half_life : float, default=50
            Like that of the class.
        """
        certificate = cls(half_life)
        for step in history:
            certificate(step)
        return certificate

    def _begin(self):
        self.n_steps, self._rows = 0, Batches()
        self._mean = _Mean(self.half_life)
        self._logs = _Mean(self.half_life), _Mean(_SLOWER * self.half_life)

    def __call__(self, step: AnyStep) -> bool:
        """Take a step, as callbacks do, never ending a fit; TypeError if it is none."""
        if self._rows.restarts(step):
            self._begin()
        batch = self._rows.batch(step)
        if batch is None:
            return False
        self.n_steps += 1
        self._mean.add(batch.certificate)
        for mean in self._logs:
            mean.add(math.log(max(batch.certificate * batch.n_rows, _TINY)))
        return False

    @property
    def mean(self) -> float:
        """Mean certificate of batches in nats per observation; NaN before the second step."""
        return self._mean.mean if self.n_steps else math.nan

    @property
    def standard_error(self) -> float:
        """Standard error of the mean for independent batches; NaN before the third step."""
        return self._mean.standard_error

    def is_stationary(self, n_errors: float = 3.0) -> bool:
        """Return whether certificates neither fall nor rise; False before four half-lives.

        Only larger batches, smaller rates or averages over iterates can improve the model then.

        Parameters
        ----------
        n_errors : float, default=3.0
            Largest difference of mean logarithms from slower ones, in standard errors; above 0.
        """
        n_errors = positive("n_errors", n_errors)
        if self.n_steps < _SLOWER * self.half_life:
            return False
        fast, slow = self._logs
        return abs(fast.mean - slow.mean) <= n_errors * fast.standard_error


def positive(name, value, or_zero=False):
    """Return a parameter as a float; ValueError if it is not positive, or not finite."""
    least = "not below 0" if or_zero else "above 0"
    is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0.0 or (value == 0.0 and not or_zero):
        raise ValueError(f"{name} must be a finite number {least}, got {value!r}.")
    return float(value)

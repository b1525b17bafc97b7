r"""Certificates of the batches of a stream, and changes in its source.

A step of rate :math:`\eta`, of size :math:`\rho = \eta / (1 + \eta)`, moves the model by
:math:`\mathrm{KL} \approx \rho^2 D`, where the certificate D is half the squared distance of the
batch's statistics from the model's, in the metric of the complete data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from sklearn_onlineem._checks import check_count, require
from sklearn_onlineem._python import ours
from sklearn_onlineem.em import Restart
from sklearn_onlineem.em.state import AnyStep
from sklearn_onlineem.estimators.progress import warn_user

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


class _Watch:
    """Base of callbacks that take the batches of a stream one by one."""

    _end = None

    def _batch_of(self, step):
        """Return the batch of a step; None if its rows or certificate are not known.

        Where fewer rows have been read than at the last step, the stream is another one: `_begin`
        is called.
        """
        try:
            values = float(step.certificate), float(step.log_likelihood)
            end = int(step.n_rows)
        except ours(AttributeError, TypeError, ValueError, OverflowError):
            raise TypeError(
                "step must be one of sklearn_onlineem.em, with numbers certificate, log_likelihood"
                f" and n_rows, got {type(step).__name__}."
            ) from None
        begin, self._end = self._end, end
        if begin is not None and end < begin:
            self._begin()
        if begin is None or end <= begin:
            return None
        # Certificates are not negative.
        is_known = 0.0 <= values[0] <= _LARGEST and abs(values[1]) <= _LARGEST
        return _Batch(*values, end - begin, end) if is_known else None


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


class StreamCertificate(_Watch):
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
        self.n_steps, self._mean = 0, _Mean(self.half_life)
        self._logs = _Mean(self.half_life), _Mean(_SLOWER * self.half_life)

    def __call__(self, step: AnyStep) -> bool:
        """Take a step, as callbacks do, never ending a fit; TypeError if it is none."""
        batch = self._batch_of(step)
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


# Deviations are cut off here, so that a single batch raises no alarm.
_MOST_DEVIATIONS = 4.0
_LEAST_SPREAD = 1e-12
# How many half-lives of values are kept.
_HALF_LIVES = 4.0
# So many values tell little.
_FEW = 150


class Drift(NamedTuple):
    """A change that a `DriftWatch` has detected.

    Attributes
    ----------
    n_rows : int
        Rows read when it was detected.
    since : int
        Estimate of the rows read when the source changed.
    sign : {"certificate", "log-likelihood"}
        Whether certificates rose above their band, or log-likelihoods fell below it.
    """

    n_rows: int
    since: int
    sign: str


class DriftWarning(UserWarning):
    """The source of a stream has changed."""


class _Band:
    """Band of values, with the cumulative sum of what exceeds it (CUSUM)."""

    def __init__(self, threshold, slack, warm_up, half_life):
        self.settings = threshold, slack, warm_up
        n_values = max(warm_up, math.ceil(_HALF_LIVES * half_life))
        self.shares = 0.5 ** (np.arange(n_values)[::-1] / half_life)
        self._begin()

    def _begin(self):
        self.past, self.latest = np.empty((0, 2)), []
        self.above = self.below = 0.0
        self.since = 0

    def is_left(self, value, weight, begin):
        """Add a value of variance 1 / weight, of rows from `begin`; return whether it is drift."""
        threshold, slack, warm_up = self.settings
        root = math.sqrt(weight)
        if len(self.past) >= warm_up:
            score, centre = self._score(value, root)
            if abs(score) > _MOST_DEVIATIONS:
                share = _MOST_DEVIATIONS / abs(score)
                value, score = centre + share * (value - centre), share * score
            self.since = begin if self.above == 0.0 else self.since
            self.above = max(0.0, self.above + score - slack)
            self.below = max(0.0, self.below - score - slack)
            if self.below > threshold:
                # The model has improved: the band is estimated again.
                self._begin()
                return False
        # Values that may be of another source are not compared with each other, unless few others
        # are known.
        self.latest.append((value, root))
        if self.above == 0.0 or len(self.past) < _FEW:
            self.past = np.concatenate([self.past, self.latest])[-len(self.shares) :]
            self.latest = []
        return self.above > threshold

    def _score(self, value, root):
        """Return the normal quantile of a value's rank among those before, and their centre.

        It is as for normal values whatever the law of these is. Beyond all of them it grows with
        the distance from the centre, their median.
        """
        values, roots = self.past.T
        centre = np.median(values)
        before, deviation = roots * (values - centre), root * (value - centre)
        shares, sign = self.shares[-len(before) :], 1.0 if deviation >= 0.0 else -1.0
        before, deviation, total = sign * before, sign * deviation, shares.sum() + 1.0
        if deviation > before.max():
            least = _LEAST_SPREAD * max(1.0, abs(value))
            score = -ndtri(0.5 / total) * deviation / max(before.max(), least)
        else:
            higher = shares[before > deviation].sum() + 0.5 * shares[before == deviation].sum()
            score = -ndtri((higher + 0.5) / total)
        return sign * score, centre


class DriftWatch(_Watch):
    r"""Detects that the source of a stream has changed: a callback for any estimator.

    It watches the certificate of each batch, the size of its update of the model, and the
    log-likelihood before the update. Each has a band, from its values in the stream so far, and
    leaves it when the cumulative sum of its deviations exceeds `threshold`,

    .. math:: g_t = \max(0, g_{t-1} + z_t - \text{slack}).

    The deviation z is the normal quantile of the value's rank among those before, so that false
    alarms are as rare with heavy tails as with normal ones; a value beyond all of them deviates
    more, by its distance from their median. Deviations are at most 4, so that a single batch raises
    no alarm. While a model converges,
    certificates fall and log-likelihoods rise, which is no drift. Bands are estimated again after
    that, and after an alarm.

    Parameters
    ----------
    action : {"warn", "restart", "stop"} or callable, default="warn"
        "warn": a `DriftWarning`. "restart": learning rates start again, as of a stream that began
        with the change. "stop": end the fit; for a stream, see `alarms`. A function of a `Drift`
        returns an answer as callbacks do: a true value ends a fit, a
        :class:`~sklearn_onlineem.em.Restart` restarts learning rates. It may also set parameters of
        the estimator for the next batches.
    threshold : float, default=5.0
        Of the sum, in standard deviations; above 0. By default one stream in a hundred of 500
        batches has a false alarm. One more makes them some 7 times as rare, and alarms up to a
        batch later.
    slack : float, default=1.0
        Deviation that does not count, not below 0: half of the shift that is to be detected.
    warm_up : int, default=20
        Batches of the first estimate of the bands; from 2 up.
    half_life : float, default=200
        Batches after which older ones count half in the bands; above 0. Slower changes are not
        detected.

    Attributes
    ----------
    alarms : list of Drift
        All so far.

    Notes
    -----
    Batches should be independent; if those of a stationary source are correlated, use larger
    batches or raise `slack`.

    References
    ----------
    Page, "Continuous inspection schemes", Biometrika 1954; Kunstner, Kumar & Schmidt, AISTATS 2021,
    for the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.diagnostics import DriftWatch
    >>> rng, watch = np.random.default_rng(0), DriftWatch(action="stop")
    >>> mixture = PoissonMixture(2, callbacks=[watch], random_state=0)
    >>> for t in range(400):
    ...     means = [2.0, 20.0] if t < 300 else [2.0, 23.0]
    ...     batch = rng.poisson(rng.choice(means, size=(100, 1)))
    ...     mixture = mixture.partial_fit(batch)
    >>> watch.alarms
    [Drift(n_rows=30200, since=30000, sign='certificate')]
    """

    alarms: list[Drift]

    def __init__(
        self,
        action: str | Callable[[Drift], object] = "warn",
        threshold: float = 5.0,
        slack: float = 1.0,
        warm_up: int = 20,
        half_life: float = 200,
    ):
        is_action = callable(action) or action in ("warn", "restart", "stop")
        require(is_action, "action", "'warn', 'restart', 'stop' or a function", action)
        check_count("warm_up", warm_up, least=2)
        self.action, self.warm_up = action, warm_up
        self.threshold = positive("threshold", threshold)
        self.slack = positive("slack", slack, or_zero=True)
        self.half_life = positive("half_life", half_life)
        self.alarms = []
        self._begin()

    def _begin(self):
        settings = self.threshold, self.slack, self.warm_up, self.half_life
        self._certificates, self._log_likelihoods = _Band(*settings), _Band(*settings)

    def __call__(self, step: AnyStep) -> object:
        """Take a step, as callbacks do; TypeError if it is none."""
        batch = self._batch_of(step)
        if batch is None:
            return False
        begin = batch.end - batch.n_rows
        # The cube root of a sum of squares is nearly normal (Wilson & Hilferty 1931).
        size = math.cbrt(batch.certificate * batch.n_rows)
        moves = self._certificates.is_left(size, 1.0, begin)
        falls = self._log_likelihoods.is_left(-batch.log_likelihood, batch.n_rows, begin)
        if moves:
            drift = Drift(batch.end, self._certificates.since, "certificate")
        elif falls:
            drift = Drift(batch.end, self._log_likelihoods.since, "log-likelihood")
        else:
            return False
        self.alarms.append(drift)
        self._begin()
        if callable(self.action):
            return self.action(drift)
        if self.action == "restart":
            return Restart(drift.n_rows - drift.since)
        if self.action == "stop":
            return True
        warn_user(
            f"Drift of the {drift.sign} detected at row {drift.n_rows}; it probably began near row"
            f" {drift.since}.",
            DriftWarning,
        )
        return False

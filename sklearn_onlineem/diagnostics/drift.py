"""Detection of changes in the source of a stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from sklearn_onlineem._checks import check_count, require
from sklearn_onlineem.diagnostics.streams import Batches, positive
from sklearn_onlineem.em import Restart
from sklearn_onlineem.em.state import AnyStep
from sklearn_onlineem.estimators.progress import warn_user

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


class DriftWatch:
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
        self.alarms, self._rows = [], Batches()
        self._find_bands()

    def _find_bands(self):
        settings = self.threshold, self.slack, self.warm_up, self.half_life
        self._certificates, self._log_likelihoods = _Band(*settings), _Band(*settings)

    def __call__(self, step: AnyStep) -> object:
        """Take a step, as callbacks do; TypeError if it is none."""
        if self._rows.restarts(step):
            self._rows = Batches()
            self._find_bands()
        batch = self._rows.batch(step)
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
        self._find_bands()
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

"""When the source of a stream has changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from sklearn_onlineem.diagnostics.streams import Batches, positive
from sklearn_onlineem.em import Restart
from sklearn_onlineem.em.state import AnyStep
from sklearn_onlineem.estimators._progress import warn_user

__all__ = ["Drift", "DriftWarning", "DriftWatch"]

# A single batch, however strange, counts for no more standard deviations.
_MOST_DEVIATIONS = 4.0
_LEAST_SPREAD = 1e-12


class Drift(NamedTuple):
    """What a `DriftWatch` has found.

    Attributes
    ----------
    n_rows : int
        Rows read when it was found.
    since : int
        Rows read when what led to it began: an estimate of the change point.
    sign : {"certificate", "log-likelihood"}
        What has left its band: certificates above, or log-likelihoods below.
    """

    n_rows: int
    since: int
    sign: str


class DriftWarning(UserWarning):
    """The source of a stream has changed."""


class _Level:
    """Mean of which early values, from a stream that had not settled, are forgotten sooner.

    The weights of the first grow by their numbers, those of all after that exponentially.
    """

    def __init__(self, half_life):
        self.least, self.n, self.mean = 1.0 - 0.5 ** (1.0 / half_life), 0, 0.0

    def add(self, value):
        self.n += 1
        self.mean += max(2.0 / (self.n + 1.0), self.least) * (value - self.mean)


class _Band:
    """Where values have been, and by how much they have exceeded it together (CUSUM).

    Where they fall below it as clearly, the model has become better: it is found anew.
    """

    def __init__(self, threshold, slack, warm_up, half_life):
        self.settings = threshold, slack, warm_up, half_life
        self._begin()

    def _begin(self):
        self.centre, self.squares = _Level(self.settings[3]), _Level(self.settings[3])
        self.n_values = 0
        self.above = self.below = 0.0
        self.since = 0

    def is_left(self, value, weight, begin):
        """Add a value, whose variance goes down with its weight, of rows that begin there."""
        threshold, slack, warm_up, _ = self.settings
        root, self.n_values = math.sqrt(weight), self.n_values + 1
        if self.n_values <= warm_up:
            # The first is its own mean.
            deviation = root * (value - self.centre.mean) * (self.n_values > 1)
            self._add(value, deviation)
            return False
        spread = max(math.sqrt(self.squares.mean), _LEAST_SPREAD * max(1.0, abs(value)))
        deviation = root * (value - self.centre.mean) / spread
        deviation = min(max(deviation, -_MOST_DEVIATIONS), _MOST_DEVIATIONS)
        self.since = begin if self.above == 0.0 else self.since
        self.above = max(0.0, self.above + deviation - slack)
        self.below = max(0.0, self.below - deviation - slack)
        if self.below > threshold:
            self._begin()
            return False
        self._add(self.centre.mean + deviation * spread / root, deviation * spread)
        return self.above > threshold

    def _add(self, value, deviation):
        self.centre.add(value)
        self.squares.add(deviation * deviation)


class DriftWatch:
    r"""Says when the source of a stream has changed: a callback for any estimator.

    It watches two signs of each batch, from before it was learnt: its certificate, by how much it
    moves the model, and its log-likelihood. Each has a band of its own, by its mean and spread in
    the stream so far, and leaves it where the cumulative sum of what it exceeds them by, less
    `slack`, passes `threshold`,

    .. math:: g_t = \max(0, g_{t-1} + z_t - \text{slack}),

    with deviations z cut off at 4, so that no single batch makes an alarm. While a model converges
    its certificates fall and its likelihood rises, which is no drift. Bands are found anew after
    that, and after an alarm.

    Parameters
    ----------
    action : {"warn", "restart", "stop"} or callable, default="warn"
        What to do: warn (`DriftWarning`); let learning rates begin anew, as of a stream that has
        begun with the change; end the fit, or, of a stream, say so by ``alarms``; or a function of
        a `Drift`, which returns what callbacks do: a true value ends a fit, and
        :class:`~sklearn_onlineem.em.Restart` lets rates begin anew after as many rows as it says.
        A function may also set parameters of the estimator, which act from the next batch on.
    threshold : float, default=5.0
        Of the sum, in standard deviations; above 0. Each 1 more makes false alarms some 7 times as
        rare, and an alarm later by a batch or less.
    slack : float, default=1.0
        What deviations exceed without counting; half of the shift that is to be found. Not below 0.
    warm_up : int, default=20
        Batches by which bands are found first; from 2 up.
    half_life : float, default=200
        Batches after which those before count for half in the bands; above 0. Slower changes go
        unnoticed.

    Attributes
    ----------
    alarms : list of Drift
        All so far.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Batches should be independent: where those of a stationary source go up and down together, take
    larger ones, or raise `slack`. Lengths of sequences count as rows do.

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
    [Drift(n_rows=30400, since=30000, sign='certificate')]
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
        if not callable(action) and action not in ("warn", "restart", "stop"):
            raise ValueError(
                f"action must be 'warn', 'restart', 'stop' or a function, got {action!r}."
            )
        if isinstance(warm_up, bool) or not isinstance(warm_up, int) or warm_up < 2:
            raise ValueError(f"warm_up must be a whole number from 2 up, got {warm_up!r}.")
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
        """Take a step, as callbacks do.

        Parameters
        ----------
        step : Step

        Returns
        -------
        answer : bool or Restart
            Whether a fit is to end, or what the action asks for.

        Raises
        ------
        TypeError
            If it is no step.
        """
        if self._rows.begins_anew(step):
            self._rows = Batches()
            self._find_bands()
        batch = self._rows.batch(step)
        drift = None if batch is None else self._drift(batch)
        if drift is None:
            return False
        self.alarms.append(drift)
        self._find_bands()
        return self._act(drift)

    def _drift(self, batch):
        """What a batch shows, or None."""
        begin = batch.end - batch.n_rows
        # As a sum of squares its root of third order is nearly normal (Wilson & Hilferty 1931).
        size = math.cbrt(batch.certificate * batch.n_rows)
        moves = self._certificates.is_left(size, 1.0, begin)
        falls = self._log_likelihoods.is_left(-batch.log_likelihood, batch.n_rows, begin)
        if moves:
            return Drift(batch.end, self._certificates.since, "certificate")
        return Drift(batch.end, self._log_likelihoods.since, "log-likelihood") if falls else None

    def _act(self, drift):
        if callable(self.action):
            return self.action(drift)
        if self.action == "restart":
            return Restart(drift.n_rows - drift.since)
        if self.action == "stop":
            return True
        warn_user(
            f"The stream has changed its source: its {drift.sign} has left its band at row"
            f" {drift.n_rows}, and began to some {drift.n_rows - drift.since} rows before.",
            DriftWarning,
        )
        return False

r"""Learning rates: small frozen values that map the step number t = 1, 2, ... to eta_t > 0.

A step adds the evidence of the batch and :math:`1/\eta` times the old model's own statistics. The
step size of stochastic approximation (Cappe & Moulines 2009) is :math:`\gamma = \eta / (1 + \eta)`;
:math:`\eta = \infty` is batch EM, which forgets the old model. Any callable ``t -> eta`` is a
schedule too; :func:`rate_of` defines t for batches of different sizes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import TypeAlias

from sklearn_onlineem._checks import require
from sklearn_onlineem._python import ours
from sklearn_onlineem.em.settings import Settings

__all__ = [
    "BETA_SCHEDULES", "SCHEDULES", "Constant", "Forgetting", "Harmonic", "PowerDecay",
    "PowerDecayInRows", "Schedule", "learning_rate", "named_schedule", "rate_of", "step_size",
]  # fmt: skip

RateSchedule: TypeAlias = Callable[[float], float]

# Names of schedules, and of those that use `beta`.
SCHEDULES = ("power", "harmonic", "constant", "forgetting")
BETA_SCHEDULES = ("power", "forgetting")

# Half-life of "forgetting" in observations that determine the model; chosen by
# benchmarks/real_data/streams.py.
_HALF_LIFE = 16.0
# The inverse of a smaller rate would overflow in sums.
_SMALLEST_RATE = 1e-250


def step_size(eta: float) -> float:
    """Return the step size of stochastic approximation, ``eta / (1 + eta)``, in (0, 1].

    Parameters
    ----------
    eta : float
        Learning rate, above 0; infinity for a step of batch EM.
    """
    return 1.0 / (1.0 + 1.0 / eta)


def learning_rate(gamma: float) -> float:
    """Return the learning rate of a step size, ``eta = gamma / (1 - gamma)``.

    Parameters
    ----------
    gamma : float
        In (0, 1]; the rate of 1, a step of batch EM, is infinity.
    """
    return math.inf if gamma == 1.0 else gamma / (1.0 - gamma)


class Schedule(Settings, ABC):
    """Base of the schedules; any other callable ``t -> eta`` is a schedule, too."""

    @abstractmethod
    def __call__(self, t: float) -> float:
        """Return the learning rate, above 0.

        Time `t` is 1 plus the rows seen before, in batches of the present size.
        """

    def for_batch(self, n_seen: float, n_rows: float) -> float:
        """Return the learning rate of a batch.

        Parameters
        ----------
        n_seen, n_rows : float
            Total weight of the rows before, from 0 up, and of the batch, above 0.
        """
        return self(1.0 + n_seen / n_rows)


@dataclass(frozen=True)
class PowerDecay(Schedule):
    r"""Power decay of the learning rate, :math:`\eta_t = \eta_0 / (t_0 + t)^\beta`.

    Parameters
    ----------
    eta0 : float, default=1.0
        First learning rate with `t0` at 0, above 0 and finite.
    beta : float, default=0.9
        Exponent in [0, 1]. The iterates converge for 0.5 < beta <= 1.
    t0 : float, default=0.0
        Steps by which the decay is ahead, not below 0 and finite: the larger, the smaller and the
        more alike the first rates are.

    References
    ----------
    Amid & Warmuth, UAI 2020, section 7: eta0 and beta are 0.5 and 0.9 for hidden Markov models, 1
    and 0.9 for Kalman filters and compound Dirichlets, 0.05 and 0.5 for combined mixtures. Brochu,
    de Freitas & Bao, "Owed to a Martingale", 2004; their :math:`(t_0 + t)^{-\kappa}` is a step
    size, as in an example of `Forgetting`, and nearly as here.

    Examples
    --------
    >>> PowerDecay(eta0=1.0, beta=0.5)(4)
    0.5
    >>> PowerDecay(eta0=1.0, beta=0.5, t0=5.0)(4)
    0.3333333333333333
    """

    eta0: float = 1.0
    beta: float = 0.9
    t0: float = 0.0

    def __post_init__(self):
        require(0.0 < self.eta0 < math.inf, "eta0", "a finite number above 0", self.eta0)
        require(0.0 <= self.beta <= 1.0, "beta", "in [0, 1]", self.beta)
        require(0.0 <= self.t0 < math.inf, "t0", "a finite number, not below 0", self.t0)

    def __call__(self, t: float) -> float:
        return self.eta0 / (self.t0 + t) ** self.beta


@dataclass(frozen=True)
class PowerDecayInRows(Schedule):
    r"""Power decay that hardly depends on the sizes of batches.

    After n rows, this batch of b among them, the rate is

    .. math:: \eta = \frac{b}{m} \Big(\frac{m}{n}\Big)^\beta
        = \Big(\frac{b}{m}\Big)^{1 - \beta} t^{-\beta}, \qquad t = n / b,

    so that the model remembers about :math:`m (n/m)^\beta` rows, whatever the batches.

    Parameters
    ----------
    rows_needed : float
        m, the rows that determine a model: its parameters per feature; above 0 and finite.
    beta : float, default=0.8
        Exponent in [0, 1].

    Examples
    --------
    >>> schedule = PowerDecayInRows(rows_needed=100, beta=0.5)
    >>> schedule.for_batch(n_seen=300, n_rows=100)
    0.5
    """

    rows_needed: float
    beta: float = 0.8

    def __post_init__(self):
        valid = 0.0 < self.rows_needed < math.inf
        require(valid, "rows_needed", "a finite number above 0", self.rows_needed)
        require(0.0 <= self.beta <= 1.0, "beta", "in [0, 1]", self.beta)

    def __call__(self, t: float) -> float:
        return self.for_batch(t - 1, 1.0)

    def for_batch(self, n_seen: float, n_rows: float) -> float:
        needed = self.rows_needed
        return n_rows / needed * (needed / (n_seen + n_rows)) ** self.beta


@dataclass(frozen=True)
class Harmonic(Schedule):
    r"""Harmonic decay, :math:`\eta_t = a / (b t + c)`; :math:`\gamma_t = a / (b t + c + a)`.

    With a = b = 1 all batches have the same weight in the end, as in a running average:
    :math:`\gamma_t = 1 / (t + c + 1)`.

    Parameters
    ----------
    a, b : float, default=1.0
        Above 0 and finite.
    c : float, default=0.0
        Above ``-b`` and finite.

    Examples
    --------
    >>> [Harmonic()(t) for t in (1, 2, 4)]
    [1.0, 0.5, 0.25]
    """

    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

    def __post_init__(self):
        require(0.0 < self.a < math.inf, "a", "a finite number above 0", self.a)
        require(0.0 < self.b < math.inf, "b", "a finite number above 0", self.b)
        require(-self.b < self.c < math.inf, "c", "a finite number above -b", self.c)

    def __call__(self, t: float) -> float:
        return self.a / (self.b * t + self.c)


@dataclass(frozen=True)
class Constant(Schedule):
    r"""Constant rate :math:`\eta_t = \eta_0`, for data that drift.

    Parameters
    ----------
    eta0 : float, default=0.1
        Above 0. Infinity forgets the old model in each step: batch EM.

    Examples
    --------
    >>> Constant(0.25)(1000)
    0.25
    """

    eta0: float = 0.1

    def __post_init__(self):
        require(self.eta0 > 0.0, "eta0", "a number above 0", self.eta0)

    def __call__(self, t: float) -> float:
        return self.eta0


@dataclass(frozen=True)
class Forgetting(Schedule):
    r"""Forgetting factor :math:`\zeta`, of a step or of a row.

    The past has the weight :math:`N_t = 1 / \eta_t`, where

    .. math:: N_t = \zeta_t (1 + N_{t-1}), \qquad \gamma_t = 1 / (1 + N_t).

    With a constant factor a batch that is k steps old has the weight :math:`\zeta^k`, and
    :math:`\gamma_t \to 1 - \zeta`; with :math:`\zeta = 1` it is the harmonic schedule. Step sizes
    have the factors :math:`\zeta_t = \gamma_{t-1} (1 / \gamma_t - 1)`.

    With a half-life of h rows, a row that k others have followed has the weight :math:`2^{-k/h}`,
    whatever the batches: :math:`\zeta = 2^{-b/h}` in a step of b rows.

    Parameters
    ----------
    factor : float or callable, default=0.99
        The forgetting factor of a step, in (0, 1], or a function of its time t that returns it; not
        used with `half_life`. Where batches differ in size, it is called for all steps before.
    eta0 : float, default=1.0
        Learning rate of the first step, above 0 and finite.
    half_life : float, default=None
        Rows after which the past counts for half of what it did, above 0 and finite.

    References
    ----------
    Sato, "Convergence of on-line EM algorithm", 2000; Brochu, de Freitas & Bao, "Owed to a
    Martingale", 2004, proposition 1.

    Examples
    --------
    >>> schedule = Forgetting(factor=0.9)
    >>> round(step_size(schedule(1000)), 12)
    0.1

    The step sizes of a batch of 500 rows, and of each of 500 single ones:

    >>> schedule = Forgetting(half_life=500)
    >>> [round(step_size(rate_of(schedule, 1e5, n_rows)), 4) for n_rows in (500, 1)]
    [0.5, 0.0014]

    The step sizes (50 + t)^-0.7 of stochastic approximation:

    >>> first = 51**-0.7
    >>> schedule = Forgetting(
    ...     lambda t: (49 + t) ** -0.7 * ((50 + t) ** 0.7 - 1), eta0=learning_rate(first))
    >>> round(step_size(schedule(100)) * 150**0.7, 12)
    1.0
    """

    factor: float | RateSchedule = 0.99
    eta0: float = 1.0
    half_life: float | None = None

    def __post_init__(self):
        if not callable(self.factor):
            require(0.0 < self.factor <= 1.0, "factor", "in (0, 1]", self.factor)
        require(0.0 < self.eta0 < math.inf, "eta0", "a finite number above 0", self.eta0)
        if self.half_life is not None:
            valid = 0.0 < self.half_life < math.inf
            require(valid, "half_life", "a finite number above 0, or None", self.half_life)

    def __call__(self, t: float) -> float:
        return self.for_batch(t - 1.0, 1.0)

    def for_batch(self, n_seen: float, n_rows: float) -> float:
        factor, n_before, start = self.factor, n_seen / n_rows, 1.0 / self.eta0
        if self.half_life is not None:
            factor = 2.0 ** (-n_rows / self.half_life)
            # Later the start is a part of the first batch, so that cuts do not matter.
            start = start if n_seen == 0.0 else 0.0
        past = self._past(n_before) if callable(factor) else _faded(start, factor, n_before)
        return 1.0 / past if past > 0.0 else math.inf

    def _past(self, n_before):
        """Return the weight of the past where factors change, step by step."""
        # Mostly the step before was the last that was asked for.
        done, past = vars(self).get("_reached", (math.inf, 0.0))
        if not (done <= n_before and (n_before - done) % 1.0 == 0.0):
            done, past = n_before % 1.0, 1.0 / self.eta0
            if done > 0.0:
                past = _faded(past, self._factor_at(1.0 + done), done)
        while done < n_before:
            done += 1.0
            past = _faded(past, self._factor_at(1.0 + done), 1.0)
        vars(self)["_reached"] = done, past
        return past

    def _factor_at(self, t):
        factor = self.factor(t)
        valid = isinstance(factor, Real) and 0.0 < factor <= 1.0
        require(valid, f"factor({t:g}) of Forgetting", "in (0, 1]", factor)
        return factor


def _faded(past, factor, n_steps):
    """Return the weight of the past after steps with one forgetting factor."""
    kept = factor**n_steps
    geometric = n_steps if factor == 1.0 else (1.0 - kept) / (1.0 - factor)
    return kept * past + factor * geometric


@lru_cache(maxsize=128)
def named_schedule(
    name: str, eta0: float | str, beta: float | str, observations_needed: float
) -> Schedule:
    """Return the schedule of a name and the parameters of an estimator.

    Parameters
    ----------
    name : {"power", "harmonic", "constant", "forgetting"}
        Which schedule.
    eta0, beta : float or "auto"
        First learning rate, and its decay, or the forgetting factor. "auto": with "power" the rate
        depends on the size of the batches; with the others it is 1, and "forgetting" has a
        half-life of 16 times the observations needed.
    observations_needed : float
        Number of observations that determine the model.
    """
    if name == "power" and eta0 == "auto":
        return PowerDecayInRows(observations_needed, beta)
    first = 1.0 if eta0 == "auto" else eta0
    if name == "power":
        return PowerDecay(first, beta)
    if name == "harmonic":
        return Harmonic(c=1.0 / first - 1.0)
    if name == "constant":
        return Constant(first)
    if beta == "auto":
        return Forgetting(eta0=first, half_life=_HALF_LIFE * observations_needed)
    return Forgetting(beta, first)


def rate_of(schedule: RateSchedule, n_seen: float, n_rows: float) -> float:
    """Return the learning rate of a batch after `n_seen` rows.

    Time counts batches of the present size, ``t = 1 + n_seen / n_rows``.

    Parameters
    ----------
    schedule : callable
        ``t -> eta``, or a schedule with a method `for_batch`.
    n_seen, n_rows : float
        Size of the data before and of the batch, see `State.size_of`.

    Raises
    ------
    ValueError
        If the rate is no number above 1e-250, so that its inverse, the weight of the inertia, would
        overflow.
    """
    if hasattr(schedule, "for_batch"):
        eta = schedule.for_batch(n_seen, n_rows)
    else:
        eta = schedule(1.0 + n_seen / n_rows)
    try:
        valid = bool(eta > _SMALLEST_RATE)
    except ours(TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"The schedule gave the learning rate {eta!r}; it must be a number above 0, and above"
            f" {_SMALLEST_RATE:g}."
        )
    return eta

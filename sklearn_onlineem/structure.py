r"""Components of time series, as a Kalman filter with a `structure` takes them.

A series is the sum of its components, and noise. Their matrices are the blocks of those of a linear
dynamical system, whose variances of noise are learnt. Components are listed, or added:
``Level() + Season(12)`` is ``[Level(), Season(12)]``.

References
----------
Harvey, "Forecasting, Structural Time Series Models and the Kalman Filter", 1989; Durbin & Koopman,
"Time Series Analysis by State Space Methods", 2nd ed., 2012, chapter 3.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from sklearn_onlineem._checks import check_bool, check_count, check_number
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.em.settings import Settings

__all__ = ["Autoregression", "Component", "Cycle", "Inputs", "Level", "Season", "Trend"]


class Block(NamedTuple):
    """Matrices of a component of m states.

    Parameters
    ----------
    transitions : ndarray of shape (m, m)
        Of the states to the next ones; start values of entries that are learnt.
    learnt : ndarray of bool of shape (m, m)
        Entries of these that are learnt; first states in their columns have the mean 0 and the
        variance of the series, and others are diffuse.
    noise : ndarray of shape (m,)
        Variances to start from, in units of that of changes of the series; 0 for states without
        noise.
    outputs : dict of ndarray of shape (m,)
        By names: linear functions of the states that are shown. The first is a part of the series.
    tied : ndarray of shape (n_directions, m, m), default=None
        Directions in which learnt entries change together; states that a direction joins have noise
        of one variance. None: there are none.
    """

    transitions: Floats
    learnt: NDArray[np.bool_]
    noise: Floats
    outputs: dict[str, Floats]
    tied: Floats | None = None


class Component(Settings):
    """Base of components: frozen values, which can be added."""

    @abstractmethod
    def block(self) -> Block:
        """Return the matrices of the component."""

    def __add__(self, other: Component | Sequence[Component]) -> list[Component]:
        if isinstance(other, Component):
            return [self, other]
        return [self, *other] if isinstance(other, (list, tuple)) else NotImplemented

    def __radd__(self, other: Sequence[Component]) -> list[Component]:
        return [*other, self] if isinstance(other, (list, tuple)) else NotImplemented


@dataclass(frozen=True)
class Level(Component):
    r"""A level that is a random walk, :math:`\mu_{t+1} = \mu_t + N(0, \sigma^2)`.

    Beside a `Trend`, it is the level of that.

    Parameters
    ----------
    fixed : bool, default=False
        Whether the level has no noise of its own: then it is a constant, and beside a `Trend` the
        trend is smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.structure import Level
    >>> rng = np.random.default_rng(0)
    >>> walk = rng.normal(size=(2000, 1)).cumsum(axis=0) + rng.normal(size=(2000, 1))
    >>> kalman = KalmanFilter(structure=[Level()]).fit(walk)
    >>> kalman.transition_covariance_.round(1), kalman.observation_covariance_.round(1)
    (array([[1.]]), array([[1.]]))
    """

    fixed: bool = False

    def __post_init__(self):
        check_bool("fixed", self.fixed)

    def block(self) -> Block:
        one = np.ones(1)
        return Block(np.eye(1), np.zeros((1, 1), bool), one * (not self.fixed), {"level": one})


@dataclass(frozen=True)
class Trend(Component):
    r"""A level with a slope, both random walks: the local linear trend.

    .. math::
        \mu_{t+1} &= \mu_t + \nu_t + N(0, \sigma_\mu^2) \\
        \nu_{t+1} &= \phi \nu_t + N(0, \sigma_\nu^2)

    Parameters
    ----------
    damped : bool, default=False
        Whether the slope fades at a rate :math:`\phi` that is learnt, and the first one has the
        mean 0 and the variance of the series; otherwise :math:`\phi` is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.structure import Level, Trend
    >>> line = 2.0 * np.arange(50.0)[:, None] + np.random.default_rng(0).normal(size=(50, 1))
    >>> kalman = KalmanFilter(structure=Level(fixed=True) + Trend()).fit(line)
    >>> np.diff(kalman.forecast(line, n_steps=3).ravel()).round(1)
    array([2.1, 2.1])
    """

    damped: bool = False

    def __post_init__(self):
        check_bool("damped", self.damped)

    def block(self) -> Block:
        fades = np.array([[False, False], [False, self.damped]])
        A = np.array([[1.0, 1.0], [0.0, 0.9 if self.damped else 1.0]])
        outputs = {"level": np.array([1.0, 0.0]), "slope": np.array([0.0, 1.0])}
        return Block(A, fades, np.array([1.0, 0.1]), outputs)


@dataclass(frozen=True)
class Season(Component):
    r"""A season, whose effects over a period add up to noise.

    .. math:: \gamma_{t+1} = -\sum_{j=0}^{s-2} \gamma_{t-j} + N(0, \sigma^2)

    Parameters
    ----------
    period : int
        s, rows of a period: 12 for months, 7 for days of a week. At least 2.
    fixed : bool, default=False
        Whether effects are the same in all periods.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.structure import Level, Season
    >>> weeks = np.tile([0.0, 0, 0, 0, 0, 5, 5], 20)[:, None]
    >>> weeks += 0.1 * np.random.default_rng(0).normal(size=weeks.shape)
    >>> kalman = KalmanFilter(structure=Level() + Season(7)).fit(weeks)
    >>> abs(kalman.forecast(weeks, n_steps=7)).ravel().round()
    array([0., 0., 0., 0., 0., 5., 5.])
    """

    period: int
    fixed: bool = False

    def __post_init__(self):
        check_count("period", self.period, least=2)
        check_bool("fixed", self.fixed)

    def block(self) -> Block:
        m = int(self.period) - 1
        A, first = np.eye(m, k=-1), np.eye(m)[0]
        A[0] = -1.0
        noise = 0.1 * first * (not self.fixed)
        return Block(A, np.zeros((m, m), bool), noise, {"season": first})


@dataclass(frozen=True)
class Autoregression(Component):
    r"""What fades, :math:`x_t = \phi_1 x_{t-1} + \dots + \phi_p x_{t-p} + N(0, \sigma^2)`.

    Coefficients are learnt. The first values have the mean 0 and the variance of the series, as
    diffuse ones could not be told from a level.

    Parameters
    ----------
    order : int, default=1
        p, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.signal import lfilter
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.structure import Autoregression, Level
    >>> noise = np.random.default_rng(0).normal(size=(1000, 1))
    >>> series = 9.0 + lfilter([1.0], [1.0, -0.7], noise, axis=0)
    >>> kalman = KalmanFilter(structure=Level(fixed=True) + Autoregression()).fit(series)
    >>> kalman.transition_matrices_.round(1)
    array([[1. , 0. ],
           [0. , 0.7]])
    """

    order: int = 1

    def __post_init__(self):
        check_count("order", self.order)

    def block(self) -> Block:
        p = int(self.order)
        A, first = np.eye(p, k=-1), np.eye(p)[0]
        A[0, 0] = 0.5
        return Block(A, np.outer(first, np.ones(p)) > 0.0, first, {"autoregression": first})


@dataclass(frozen=True)
class Cycle(Component):
    r"""A wave whose size and phase change at random: the stochastic cycle.

    .. math::
        c_{t+1} &= \rho (c_t \cos\lambda + c^*_t \sin\lambda) + N(0, \sigma^2) \\
        c^*_{t+1} &= \rho (c^*_t \cos\lambda - c_t \sin\lambda) + N(0, \sigma^2)

    Rows show c. First values of a damped cycle have the mean 0 and the variance of the series: the
    likelihood of diffuse ones grows without bound as :math:`\rho \sin\lambda` vanishes. Those of
    other cycles are diffuse.

    Parameters
    ----------
    period : float, default=None
        :math:`2 \pi / \lambda`, rows of a period, above 2. None: learnt.
    damped : bool, default=True
        Whether the rate :math:`\rho` is learnt. Otherwise it is 1, which requires a period.
    fixed : bool, default=False
        Whether there is no noise: a wave that stays. Requires a period, and ``damped=False``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.structure import Cycle, Level
    >>> wave = 3.0 * np.cos(np.arange(200.0) / 2.0)[:, None]
    >>> wave += np.random.default_rng(0).normal(size=wave.shape)
    >>> kalman = KalmanFilter(structure=Level(fixed=True) + Cycle()).fit(wave)
    >>> A = kalman.transition_matrices_[1:, 1:]
    >>> np.hypot(*A[0]).round(2), np.arctan2(A[0, 1], A[0, 0]).round(2)
    (np.float64(1.0), np.float64(0.5))
    """

    period: float | None = None
    damped: bool = True
    fixed: bool = False

    def __post_init__(self):
        check_bool("damped", self.damped)
        check_bool("fixed", self.fixed)
        if self.period is not None:
            check_number("period", self.period, 2.0, np.inf)
        if self.fixed and self.damped:
            raise ValueError("fixed=True requires damped=False: a rate is only learnt with noise.")
        if self.period is None and not self.damped:
            raise ValueError("damped=False requires a period: angles alone are not learnt.")

    def block(self) -> Block:
        turn = rotation(self.period or _UNKNOWN_PERIOD)
        A = _RATE * turn if self.damped else turn
        turns = turn if self.period else [np.eye(2), rotation(4.0)]
        noise = np.full(2, 0.1 * (not self.fixed))
        outputs, tied = {"cycle": np.array([1.0, 0.0])}, np.reshape(turns, (-1, 2, 2))
        return Block(A, np.full((2, 2), self.damped), noise, outputs, tied)


# Where the rate of a cycle that is learnt starts, and a period until data tell it.
_RATE, _UNKNOWN_PERIOD = 0.95, 8.0


def rotation(period):
    """Return the transitions of a cycle that is not damped."""
    c, s = np.cos(2.0 * np.pi / period), np.sin(2.0 * np.pi / period)
    return np.array([[c, s], [-s, c]])


@dataclass(frozen=True)
class Inputs(Component):
    r"""What inputs add to their own rows, :math:`\beta' u_t`, with learnt coefficients.

    Inputs are known, such as prices or holidays, and without a model. Coefficients are the
    `observation_input_weights_` of the filter. `fit`, inference and forecasts require inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.structure import Inputs, Level
    >>> rng = np.random.default_rng(0)
    >>> prices = rng.normal(size=(200, 1))
    >>> sales = rng.normal(size=(200, 1)).cumsum(axis=0) - 3.0 * prices
    >>> kalman = KalmanFilter(structure=Level() + Inputs()).fit(sales, inputs=prices)
    >>> kalman.observation_input_weights_.round(1)
    array([[-3.]])
    """

    def block(self) -> Block:
        return Block(np.eye(0), np.zeros((0, 0), bool), np.zeros(0), {"inputs": np.zeros(0)})


def checked_structure(structure: object) -> list[Component]:
    """Return the components of a structure, a trend and its level as one.

    TypeError for others, and ValueError for those that data cannot tell apart.
    """
    parts = [structure] if isinstance(structure, Component) else list(structure)
    wrong = [part for part in parts if not isinstance(part, Component)]
    if wrong or not parts:
        raise TypeError(
            "structure must be a list of components, such as sklearn_onlineem.structure.Level(),"
            f" got {wrong[0] if wrong else parts!r:.60}."
        )
    kinds = [type(part) for part in parts]
    for kind in (Level, Trend, Autoregression, Inputs):
        if kinds.count(kind) > 1:
            raise ValueError(f"structure must have at most one {kind.__name__}.")
    if kinds == [Inputs]:
        raise ValueError("structure must have a component beside Inputs(), such as Level().")
    for kind, what in ((Season, "seasons"), (Cycle, "cycles")):
        periods = [part.period for part in parts if isinstance(part, kind) and part.period]
        if len(set(periods)) < len(periods):
            raise ValueError(f"structure must have {what} of different periods, got {periods}.")
    return parts


class Assembled(NamedTuple):
    """Matrices of all components, as attributes of a `Block`; of one series."""

    transitions: Floats
    learnt: NDArray[np.bool_]
    noise: Floats
    outputs: dict[str, Floats]
    observation: Floats
    tied: Floats | None
    # Rows of states whose period is to be found.
    cycles: list[slice]


def assembled(structure: object) -> Assembled:
    """Return the matrices of a structure of k states, which `checked_structure` takes."""
    parts = checked_structure(structure)
    levels = [part for part in parts if isinstance(part, Level)]
    has_trend = any(isinstance(part, Trend) for part in parts)
    chosen = []
    for part in parts:
        block = part.block()
        if isinstance(part, Trend) and levels and levels[0].fixed:
            block = block._replace(noise=block.noise * [0.0, 1.0])
        if not (has_trend and isinstance(part, Level)):
            chosen.append((part, block))
    blocks = [block for _, block in chosen]
    noise = np.concatenate([block.noise for block in blocks])
    reading = np.concatenate([next(iter(block.outputs.values())) for block in blocks])
    kinds, outputs, tied, cycles, begin = [type(part) for part, _ in chosen], {}, [], [], 0
    for i, (part, block) in enumerate(chosen):
        around = begin, len(noise) - begin - len(block.noise)
        tied += [np.pad(one, around) for one in (() if block.tied is None else block.tied)]
        if isinstance(part, Cycle) and part.period is None:
            cycles.append(slice(begin, begin + len(block.noise)))
        suffix = ""
        if kinds.count(type(part)) > 1:
            suffix = f" {getattr(part, 'period', None) or kinds[: i + 1].count(type(part))}"
        for name, output in block.outputs.items():
            outputs[name + suffix] = np.pad(output, around)
        begin += len(block.noise)
    A = block_diag(*(block.transitions for block in blocks))
    learnt = block_diag(*(block.learnt for block in blocks))
    return Assembled(A, learnt, noise, outputs, reading, np.array(tied) if tied else None, cycles)

"""Products of exponential and of gamma distributions, their shape learnt or given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import gammaln, polygamma, psi

from sklearn_onlineem._checks import (
    LEAST,
    LEAST_SHAPE,
    MOST,
    MOST_SHAPE,
    above,
    at_least,
    at_most,
    check_setting,
)
from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers, Maps
from sklearn_onlineem.data.sparse import check_non_negative
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._independent_columns import ExponentialColumns
from sklearn_onlineem.families._start_coordinates import logarithmic
from sklearn_onlineem.families.capabilities import (
    ColumnDistributions,
    ConjugatePriors,
    Distribution,
)
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import ProductTangents, Tangents
from sklearn_onlineem.statistics import Sums

_MIN_MEAN = 1e-12


def increasing_root(function, derivative, target, start, lower=0.0, n_iter=100):
    """Solve ``function(x) == target`` elementwise, for increasing functions on (lower, inf)."""
    # Newton's method on log(x - lower), in which the special functions of the M-steps are nearly
    # straight. A step is at most a factor of 10; some five are needed.
    previous, settled = np.inf, False
    excess = np.array(start, dtype=np.float64) - lower
    for _ in range(n_iter):
        x = lower + excess
        step = (target - function(x)) / (derivative(x) * excess)
        excess *= np.exp(np.clip(step, -2.3, 2.3))
        # Steps that are small, and no longer shrink, are those of rounding.
        size = np.abs(step)
        settled = settled | (size < 1e-13) | ((size < 1e-3) & (size > 0.5 * previous))
        if np.all(settled):
            break
        previous = size
    return lower + excess


def gamma_shapes(gap):
    """Return the shapes a of gamma distributions with log a - psi(a) = gap, above 0."""
    # Minka's starting point, within 2 % of the root.
    start = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    return increasing_root(
        lambda a: psi(a) - np.log(a), lambda a: polygamma(1, a) - 1.0 / a, -gap, start
    )


def _put_rates(family, parameters, rates):
    return family.regularise(family.shape / above("rates_", rates, 0.0, rates.shape))


class Durations(ExponentialColumns, ColumnDistributions[Floats], _collapsed.CollapsedCounts):
    """Families with posteriors of rates: x_j | r_j ~ Gamma(s, r_j), r_j ~ Gamma(alpha, beta_j)."""

    # s
    shape: float

    parts = (
        means_part("positive"),
        Part("rates", "positive", "kd", lambda family, means: family.shape / means, _put_rates),
    )

    def distribution(self, parameters: Floats, column: int) -> Distribution:
        return stats.gamma(self.shape, scale=parameters[:, column] / self.shape)

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        return (logarithmic(X, sample_weight),)

    def to_natural(self, parameters: Floats) -> Floats:
        return -self.shape / parameters

    def from_natural(self, natural: Floats) -> Floats:
        return -self.shape / natural

    def log_partitions(self, natural: Floats) -> Floats:
        return -self.shape * np.log(-natural)

    def prior_statistics(
        self, n_components: int, *, n_features: int, shape: ArrayLike = 1.0, rate: ArrayLike = 0.0
    ) -> Sums:
        """Return a Gamma(shape, rate) prior on each rate.

        Parameters
        ----------
        shape : array broadcasting to (n_components,), default=1.0
            Above 0; pseudo-rows are one less, divided by the shape of the family.
        rate : array broadcasting to (n_components, n_features), default=0.0
            In the units of the rows, not below 0.
        """
        weight = above("shape", shape, 0.0, (n_components,)) - 1.0
        total = at_least("rate", rate, 0.0, (n_components, n_features))
        return Sums(weight / self.shape, total)

    def mean_form(self, prior: Sums) -> Sums:
        # The mode of a rate is the mean of its inverse.
        return prior

    def _posterior(self, statistics):
        """Return alpha = s weight + 1 and beta = total of the posteriors with these modes."""
        alpha = _collapsed.proper(self, "shape", self.shape * statistics.weight + 1.0)
        return alpha, _collapsed.proper(self, "rate", statistics.total)

    def predictive_log_density(self, statistics: Sums, X: Floats, n_threads: int = 1) -> Floats:
        # log x^(s-1) beta^alpha / (B(alpha, s) (beta + x)^(alpha + s)), Lomax for s = 1.
        s, X, (alpha, beta) = self.shape, np.asarray(X, dtype=float), self._posterior(statistics)
        growth = np.stack([np.log1p(X / scale).sum(axis=1) for scale in beta], axis=1)
        constant = X.shape[1] * _collapsed.log_rising(alpha, s)
        constant -= s * np.log(beta).sum(axis=1)
        log_density, base = constant - (alpha + s) * growth, self.log_base_measure(X)
        return log_density + base[:, None] if len(base) else log_density

    def draw_from_posterior(self, statistics: Sums, rng: Generator) -> Floats:
        alpha, beta = self._posterior(statistics)
        return self.regularise(self.shape * beta / rng.standard_gamma(alpha[:, None], beta.shape))

    def _swept(self, prior, X):
        alpha, beta = self._posterior(prior)
        return _collapsed_counts.DURATIONS, X, beta, {"weight": alpha, "step": self.shape}


class DurationTangents(ProductTangents):
    """Tangents of means of exponential variables, and of gamma variables of a known shape."""

    @property
    def deviation(self):
        return self.parameters / np.sqrt(self.family.shape)

    def moved(self, v):
        return self.parameters * np.exp(v / np.sqrt(self.family.shape))


@dataclass(frozen=True)
class Exponential(Durations):
    r"""Independent waiting times, :math:`p(x \mid r) = \prod_j r_j e^{-r_j x_j}`.

    :math:`\phi(x) = x`, :math:`\theta = -r`, :math:`G(\theta) = -\sum_j \log(-\theta_j)`.
    Parameters are the means 1/r, an ndarray of shape (K, n_features).

    Parameters
    ----------
    min_mean : float, default=1e-12
        Floor of the means, relative to the largest component's mean of the same feature; from
        1e-100 to 1e100.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Exponential
    >>> Exponential().log_density(np.array([[0.5]]), np.array([[0.0], [1.0]]))
    array([[ 0.69314718],
           [-1.30685282]])
    """

    tangents = DurationTangents

    min_mean: float = 1e-12

    shape = 1.0
    support_is_convex = True

    def __post_init__(self):
        check_setting("min_mean", self.min_mean, LEAST, MOST)

    def check(self, X: Floats) -> None:
        check_non_negative(X)

    def regularise(self, mean: Floats) -> Floats:
        return floored_mean(mean, self.min_mean)

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        return rng.exponential(parameters[components])


def floored_mean(mean, floor):
    """Return means at least `floor` times the largest of their column, above 0 where all are 0."""
    return np.maximum(mean, np.maximum(floor * mean.max(axis=0), 1e-290))


def _part(place):
    """Return the shapes, or the rates, of variables of which both are learnt."""
    name = ("shapes", "rates")[place]

    def get(family, parameters):
        return family.shapes_and_rates(parameters)[place]

    def put(family, parameters, values):
        both = [*family.shapes_and_rates(parameters)]
        both[place] = above(f"{name}_", values, 0.0, values.shape)
        return family.from_natural(np.concatenate([both[0] - 1.0, -both[1]], axis=1))

    return Part(name, "positive", "kd", get, put)


def _put_known_shapes(family, parameters, shapes):
    above("shapes_", shapes, 0.0, shapes.shape)
    if not np.allclose(shapes, family.shape, rtol=1e-6):
        raise ValueError(f"shapes_ is fixed by the parameter shape={family.shape}.")
    return parameters


class GammaTangents(Tangents):
    """Tangents of shapes a and rates r, by a Cholesky factor of the covariance of log x and x."""

    parts = {"shapes and rates": slice(None)}
    unsolved = Tangents._unsolved_by_roots

    @cached_property
    def _factor(self):
        shapes, rates = self.family.shapes_and_rates(self.parameters)
        a = np.sqrt(polygamma(1, shapes))
        b = 1.0 / (rates * a)
        return a, b, np.sqrt(shapes / rates**2 - b**2)

    def natural(self, v):
        a, b, c = self._factor
        first, second = np.split(v, 2, axis=1)
        return np.concatenate([(first - b * second / c) / a, second / c], axis=1)

    def whitened(self, raw):
        a, b, c = self._factor
        of_log, of_x = np.split(raw, 2, axis=1)
        return np.concatenate([of_log / a, (of_x - b * of_log / a) / c], axis=1)

    def moved(self, v):
        # Shapes and rates are positive for any v.
        before = np.concatenate(self.family.shapes_and_rates(self.parameters), axis=1)
        of_shapes, negative = np.split(self.natural(v), 2, axis=1)
        change = np.concatenate([of_shapes, -negative], axis=1)
        shapes, rates = np.split(before * np.exp(change / before), 2, axis=1)
        return self.family.from_natural(np.concatenate([shapes - 1.0, -rates], axis=1))


@dataclass(frozen=True)
class Gamma(ExponentialColumns, ColumnDistributions[Floats], ConjugatePriors[Floats, Sums]):
    r"""Independent gamma variables with shape a and rate r, both learnt.

    .. math:: p(x \mid a, r) = \prod_j \frac{r_j^{a_j}}{\Gamma(a_j)} x_j^{a_j - 1} e^{-r_j x_j}

    :math:`\phi(x) = (\log x, x)`, :math:`\theta = (a - 1, -r)`,
    :math:`G(\theta) = \sum_j \log \Gamma(a_j) - a_j \log r_j`. Parameters are the means of
    :math:`\phi`, an ndarray of shape (K, 2 * n_features); the shape solves
    :math:`\log a - \psi(a) = \log E x - E \log x`.

    Parameters
    ----------
    max_shape : float, default=1e6
        Ceiling of the shapes: relative standard deviations stay above ``max_shape ** -0.5``. From
        1e-10 to 1e15.

    See Also
    --------
    sklearn_onlineem.families.gamma.FixedShapeGamma : The same with known shapes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gamma
    >>> family = Gamma()
    >>> mean = family.from_natural(np.array([[1.0, -2.0]]))
    >>> [x.round(12) for x in family.shapes_and_rates(mean)]
    [array([[2.]]), array([[2.]])]
    """

    tangents = GammaTangents

    max_shape: float = 1e6

    determined_by_means = False
    support_is_convex = True
    _stand_in = 1.0
    parts = (means_part("positive"), _part(0), _part(1))

    def __post_init__(self):
        check_setting("max_shape", self.max_shape, LEAST_SHAPE, MOST_SHAPE)

    start_coordinates = Durations.start_coordinates

    def check(self, X: Floats) -> None:
        check_non_negative(X)
        if not X.all():
            raise ValueError(
                "Gamma data must be above 0, but there are zeros: replace them by a small number,"
                " as gamma mixtures do with zero_value=1e-6."
            )

    def sufficient_statistics(self, X: Floats) -> Floats:
        # In double precision: shapes depend on the small difference of log E x and E log x.
        return np.concatenate([np.log(X, dtype=np.float64), X], axis=1)

    def shapes_and_rates(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Return shapes and rates, two ndarrays of shape (K, n_features)."""
        mean_log, mean = np.split(parameters, 2, axis=1)
        shapes = gamma_shapes(np.log(mean) - mean_log)
        return shapes, shapes / mean

    def to_natural(self, parameters: Floats) -> Floats:
        shapes, rates = self.shapes_and_rates(parameters)
        return np.concatenate([shapes - 1.0, -rates], axis=1)

    def from_natural(self, natural: Floats) -> Floats:
        shapes, rates = _shapes_and_rates_of(natural)
        return np.concatenate([psi(shapes) - np.log(rates), shapes / rates], axis=1)

    def means(self, parameters: Floats) -> Floats:
        return np.split(parameters, 2, axis=1)[1]

    def distribution(self, parameters: Floats, column: int) -> Distribution:
        shapes, rates = self.shapes_and_rates(parameters)
        return stats.gamma(shapes[:, column], scale=1.0 / rates[:, column])

    def with_means(self, parameters: Floats, means: Floats) -> Floats:
        mean_log, mean = np.split(parameters, 2, axis=1)
        return self.regularise(np.concatenate([mean_log + np.log(means / mean), means], axis=1))

    def log_partitions(self, natural: Floats) -> Floats:
        shapes, rates = _shapes_and_rates_of(natural)
        return gammaln(shapes) - shapes * np.log(rates)

    def regularise(self, mean: Floats) -> Floats:
        mean_log, mean = np.split(mean, 2, axis=1)
        mean = floored_mean(mean, _MIN_MEAN)
        smallest_gap = np.log(self.max_shape) - psi(self.max_shape)
        return np.concatenate([np.minimum(mean_log, np.log(mean) - smallest_gap), mean], axis=1)

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        shapes, rates = self.shapes_and_rates(parameters)
        return rng.gamma(shapes[components], 1.0 / rates[components])

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        pseudo_count: ArrayLike = 0.0,
        mean_log: ArrayLike = 0.0,
        mean: ArrayLike = 1.0,
    ) -> Sums:
        """Return a conjugate prior, worth `pseudo_count` rows with these means of log x and of x.

        Parameters
        ----------
        pseudo_count : float, default=0.0
            Pseudo-rows, not below 0.
        mean_log : array broadcasting to (n_features,), default=0.0
            Mean of log x, at most log of the mean of x.
        mean : array broadcasting to (n_features,), default=1.0
            Mean of x, above 0.
        """
        count = at_least("pseudo_count", pseudo_count, 0.0)
        mean = above("mean", mean, 0.0, (n_features,))
        mean_log = at_most("mean_log", mean_log, np.log(mean), "log(mean)", (n_features,))
        total = count * np.concatenate([mean_log, mean])
        return Sums(np.full(n_components, count), np.tile(total, (n_components, 1)))


def _shapes_and_rates_of(natural):
    shapes_less_1, negative_rates = np.split(natural, 2, axis=1)
    return shapes_less_1 + 1.0, -negative_rates


@dataclass(frozen=True)
class FixedShapeGamma(Durations):
    r"""Independent gamma variables of a known shape a; the rates are learnt.

    :math:`\phi(x) = x`, :math:`\theta = -r`, :math:`G(\theta) = -a \sum_j \log(-\theta_j)`.
    Parameters are the means a/r, an ndarray of shape (K, n_features).

    Parameters
    ----------
    shape : float, default=1.0
        Shape of every variable, from 1e-10 to 1e15. 1 is the exponential distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families.gamma import FixedShapeGamma
    >>> FixedShapeGamma(shape=2.0).to_natural(np.array([[4.0]]))
    array([[-0.5]])
    """

    tangents = DurationTangents

    shape: float = 1.0

    support_is_convex, check = True, Gamma.check
    _stand_in = 1.0
    parts = (*Durations.parts, _part(0)._replace(kind=None, put=_put_known_shapes))

    def __post_init__(self):
        check_setting("shape", self.shape, LEAST_SHAPE, MOST_SHAPE)

    def shapes_and_rates(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Return shapes and rates, two ndarrays of shape (K, n_features)."""
        return np.full_like(parameters, self.shape), self.shape / parameters

    def log_base_measure(self, X: Floats, n_threads: int = 1) -> Floats:
        logs = np.log(X, dtype=np.float64).sum(axis=1)
        return (self.shape - 1.0) * logs - X.shape[1] * gammaln(self.shape)

    def regularise(self, mean: Floats) -> Floats:
        return floored_mean(mean, _MIN_MEAN)

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        return rng.gamma(self.shape, parameters[components] / self.shape)

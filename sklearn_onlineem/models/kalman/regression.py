"""Regressions: the parts of linear dynamical systems."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.linalg import lapack

from sklearn_onlineem._kernels import _regressions
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem._values import quick
from sklearn_onlineem.families._family import NOTHING
from sklearn_onlineem.families.linear_gaussian import ALL_PARAMETERS, AffineGaussian, LinearGaussian
from sklearn_onlineem.models.fixed import FixedEntries
from sklearn_onlineem.models.kalman._partial_regression import (
    OfRegression,
    PartialCoordinates,
    PartialRegression,
    n_of_blocks,
)
from sklearn_onlineem.statistics import Moments


@quick
@dataclass(frozen=True, eq=False)
class Regression:
    r"""K linear regressions with Gaussian noise: family, parameters, and which of these are learnt.

    .. math:: y \mid x, k \sim N(B_k x + c_k, S_k)

    Parameters
    ----------
    family : LinearGaussian
        The shape of the noise covariances, and their floor.
    parameters : AffineGaussian
        The K matrices, offsets and covariances.
    learnt : tuple of str, default=("matrix", "offset", "covariance")
        Those that the M-step changes.
    fixed : FixedEntries, default=None
        Entries of these that it leaves as they are, of a single regression; None: there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
    >>> from sklearn_onlineem.models.kalman.regression import Regression
    >>> line = AffineGaussian.single(matrix=[[2.0]], offset=[1.0], covariance=[[0.5]])
    >>> Regression(LinearGaussian(), line).predicted(np.array([[3.0]]), np.array([[[1.0]]]))
    (array([[7.]]), array([[[4.5]]]))
    """

    family: LinearGaussian
    parameters: AffineGaussian
    learnt: tuple[str, ...] = ALL_PARAMETERS
    fixed: FixedEntries | None = None

    @property
    def noise_family(self) -> LinearGaussian:
        """The family, whose floor is 0 for variances that are fixed."""
        floor = self.family.floor
        if self.fixed is None or floor is None:
            return self.family
        is_fixed = self.fixed.of("covariance", self.covariance).diagonal()
        return replace(self.family, floor=np.where(is_fixed, 0.0, floor))

    def learns(self, name: str) -> bool:
        """Return whether all entries of a parameter are learnt.

        Parameters
        ----------
        name : str
            One of "matrix", "offset" and "covariance".
        """
        return name in self.learnt and (self.fixed is None or not getattr(self.fixed, name).any())

    def equations(self, statistics: Moments) -> tuple[Floats, Floats]:
        """Return the matrix and the right side of the normal equations of changes of coefficients.

        Parameters
        ----------
        statistics : Moments
            Of inputs and outputs, of a single regression.
        """
        return PartialRegression(self, statistics).equations(np.linalg.inv(self.covariance))

    @property
    def matrix(self) -> Floats:
        """Matrix of a single regression, of shape (p, q)."""
        return _only(self.parameters.matrix)

    @property
    def offset(self) -> Floats:
        """Offset of a single regression, of shape (p,)."""
        return _only(self.parameters.offset)

    @property
    def covariance(self) -> Floats:
        """Noise covariance of a single regression, of shape (p, p)."""
        return _only(self.parameters.covariance)

    def m_step(self, statistics: Moments) -> Regression:
        """Return the regressions that maximise the statistics.

        Parameters
        ----------
        statistics : Moments
            Moments of (x, y).
        """
        if not self.learnt:
            return self
        if self.fixed is not None:
            parameters = PartialRegression(self, statistics).maximise()
        else:
            parameters = self.family.m_step(statistics, self.parameters, self.learnt)
        return Regression(self.family, parameters, self.learnt, self.fixed)

    def mean_form(self, prior: Moments) -> Moments:
        """Return a prior that leads to the posterior's mean, instead of its mode.

        Parameters
        ----------
        prior : Moments
            Pseudo-moments of (x, y). ValueError if entries are fixed.
        """
        if self.fixed is not None:
            raise ValueError(
                "Posterior means are not known where some entries of an array are fixed: set"
                " estimate='mode'."
            )
        return self.family.mean_form(prior, self.parameters.matrix.shape[2], self.learnt)

    def own_statistics(self, inputs: Moments | Floats) -> Moments:
        """Return the moments of (x, y).

        Parameters
        ----------
        inputs : Moments, or ndarray of shape (K,)
            Moments of x; weights alone if there are no inputs.
        """
        family = self.family if self.fixed is None else self.noise_family
        return family.own_statistics(self.parameters, inputs)

    def expected_log_density(self, statistics: Moments) -> float:
        """Return the log density of rows of these moments, up to a constant.

        Parameters
        ----------
        statistics : Moments
            Moments of (x, y).
        """
        return self.noise_family.expected_log_density(self.parameters, statistics)

    def kl_divergence(self, other: Regression, inputs: Moments | Floats) -> float:
        """Return KL(self || other) in nats.

        Parameters
        ----------
        other : Regression
            As many regressions, of the same shapes.
        inputs : Moments, or ndarray of shape (K,)
            As in `own_statistics`.
        """
        if other is self:
            return 0.0
        return sum(self.family.kl_divergence(self.parameters, other.parameters, inputs))

    def n_parameters(self) -> int:
        """Return the number of free parameters that are learnt."""
        if self.fixed is None:
            return self.family.n_parameters(self.parameters, self.learnt)
        part = PartialRegression(self)
        return len(part.places[0]) + n_of_blocks(part)

    def sample(self, inputs: Floats, rng: Generator, components: Integers | None = None) -> Floats:
        """Draw y for each row of inputs.

        Parameters
        ----------
        inputs : ndarray of shape (n_rows, q)
            The x of each row.
        rng : numpy.random.Generator
            Source of random numbers.
        components : ndarray of int of shape (n_rows,), default=None
            The regression of each row; None: there is only one.
        """
        if components is None:
            components = np.zeros(len(inputs), dtype=np.intp)
        return self.family.sample(self.parameters, components, rng, inputs)

    def predicted(self, means: Floats, covariances: Floats) -> tuple[Floats, Floats]:
        """Return means (n, p) and covariances (n, p, p) of y, for a single regression.

        Parameters
        ----------
        means : ndarray of shape (n, q)
            Means of x.
        covariances : ndarray of shape (n, q, q)
            Covariances of x.
        """
        B = self.matrix
        return means @ B.T + self.offset, B @ covariances @ B.T + self.covariance

    def in_coordinates(
        self, inputs: Floats | None = None, outputs: Floats | None = None
    ) -> Regression:
        """Return the regressions of T y on U x.

        Parameters
        ----------
        inputs : ndarray of shape (q, q), default=None
            The inverse of U; None: the unit matrix.
        outputs : ndarray of shape (p, p), default=None
            T; None: the unit matrix.
        """
        B, c, S = self.parameters.matrix, self.parameters.offset, self.parameters.covariance
        if outputs is not None:
            B, c, S = outputs @ B, c @ outputs.T, outputs @ S @ outputs.T
            S = 0.5 * (S + S.swapaxes(-1, -2))
        if inputs is not None:
            B = B @ inputs
        return Regression(self.family, AffineGaussian(B, c, S), self.learnt, self.fixed)


def _only(values):
    """Return the value of a single regression; ValueError if there are several."""
    if len(values) > 1:
        raise ValueError(f"there are {len(values)} regressions, not one.")
    return values[0]


_TINY = np.finfo(float).tiny


def coordinates_of_regression(name, regression, statistics):
    """Return the coordinates of what is learnt of a regression, which has a name in a system."""
    kind = RegressionCoordinates if regression.fixed is None else PartialCoordinates
    return kind(_SAID.get(name, name), regression, statistics)


_SAID = {"initial": "first state", "emissions": "observations"}


class RegressionCoordinates(OfRegression):
    """Coordinates of the learnt parts of a regression: U by columns, u and W."""

    def __init__(self, said, regression, statistics):
        self.regression = regression
        (p, q), learnt = regression.matrix.shape, regression.learnt
        self.parts, self.n_columns = _columns(regression.family.shape, learnt, p, q)
        if not self.parts:
            return
        degrees, noise_unit = float(statistics.degrees[0]), 0.0
        if "covariance" in learnt:
            if not degrees > 0.0:
                raise ValueError(f"There are no data on the noise of the {said}.")
            noise_unit = 1.0 / math.sqrt(0.5 * degrees)
        learns_offset, inverse_root = "offset" in learnt, NOTHING
        origin = statistics.mean[0, :q] if learns_offset else np.zeros(q)
        if "matrix" in self.parts:
            mean = statistics.mean[0, :q] - origin
            squares = float(statistics.weight[0]) * np.outer(mean, mean)
            root, failed = lapack.dpotrf(squares + statistics.scatter[0, :q, :q], lower=1)
            if failed:
                raise ValueError(f"The data do not determine the {said}.")
            inverse_root = np.ascontiguousarray(lapack.dtrtri(root, lower=1)[0])
        self._root, failed = lapack.dpotrf(regression.covariance, lower=1)
        if failed:
            raise ValueError(f"The noise of the {said} has no density.")
        # Kernels take it in this unit.
        unit = 1.0 / math.sqrt(max(float(statistics.weight[0]), _TINY))
        self._about = origin, inverse_root, unit, noise_unit, learns_offset

    def score(self, statistics):
        out = np.empty((1, self.n_columns))
        degrees = np.ascontiguousarray(statistics.degrees, dtype=np.float64)
        moments = statistics.weight, degrees, statistics.mean, statistics.scatter
        regression = self.regression.family._floor, self.regression.parameters._arrays
        _regressions.unit_score(moments, *regression, *self._about, out[0])
        return out

    def floor_penalty(self, statistics):
        floor = self.regression.family._floor
        if "covariance" not in self.parts or not len(floor):
            return 0.0
        ratio = lapack.dpotrs(self._root, np.diag(floor), lower=1)[0]
        return -0.5 * float(statistics.degrees[0]) * float(ratio.trace())

    def _moved(self, v):
        arrays = tuple(array.copy() for array in self.regression.parameters._arrays)
        size = _regressions.move(arrays, *self._about, v)
        parameters = AffineGaussian(*arrays)
        return Regression(self.regression.family, parameters, self.regression.learnt), size


@cache
def _columns(shape, learnt, p, q):
    """Return the columns of the coordinates of each learnt parameter, and their number."""
    columns, start = {}, 0
    for what, n in (("matrix", p * q), ("offset", p), ("covariance", shape.n_parameters(p))):
        if what in learnt and n:
            columns[what] = slice(start, start + n)
            start += n
    return columns, start

"""Regressions: the parts of linear dynamical systems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.families.linear_gaussian import ALL_PARAMETERS, AffineGaussian, LinearGaussian
from sklearn_onlineem.statistics import Moments


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
    learnt : frozenset of str, default={"matrix", "offset", "covariance"}
        Those that the M-step changes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
    >>> from sklearn_onlineem.models.regression import Regression
    >>> line = AffineGaussian.single(matrix=[[2.0]], offset=[1.0], covariance=[[0.5]])
    >>> Regression(LinearGaussian(), line).predicted(np.array([[3.0]]), np.array([[[1.0]]]))
    (array([[7.]]), array([[[4.5]]]))
    """

    family: LinearGaussian
    parameters: AffineGaussian
    learnt: frozenset[str] = ALL_PARAMETERS

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
        parameters = self.family.m_step(statistics, self.parameters, self.learnt)
        return Regression(self.family, parameters, self.learnt)

    def mean_form(self, prior: Moments) -> Moments:
        """Return a prior that leads to the posterior's mean, instead of its mode.

        Parameters
        ----------
        prior : Moments
            Pseudo-moments of (x, y).
        """
        return self.family.mean_form(prior, self.parameters.matrix.shape[2], self.learnt)

    def own_statistics(self, inputs: Moments | Floats) -> Moments:
        """Return the moments of (x, y).

        Parameters
        ----------
        inputs : Moments, or ndarray of shape (K,)
            Moments of x; weights alone if there are no inputs.
        """
        return self.family.own_statistics(self.parameters, inputs)

    def expected_log_density(self, statistics: Moments) -> float:
        """Return the log density of rows of these moments, up to a constant.

        Parameters
        ----------
        statistics : Moments
            Moments of (x, y).
        """
        return self.family.expected_log_density(self.parameters, statistics)

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
        return self.family.n_parameters(self.parameters, self.learnt)

    def sample(
        self, inputs: Floats, rng: np.random.Generator, components: Integers | None = None
    ) -> Floats:
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
        return Regression(self.family, AffineGaussian(B, c, S), self.learnt)


def _only(values):
    """Return the value of a single regression; ValueError if there are several."""
    if len(values) > 1:
        raise ValueError(f"there are {len(values)} regressions, not one.")
    return values[0]

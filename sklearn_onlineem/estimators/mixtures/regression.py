"""Mixtures of regressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from sklearn_onlineem._checks import check_bool
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data.rows import RowsWithInputs
from sklearn_onlineem.em.stages.memories import Memories
from sklearn_onlineem.estimators._regressions import RegressionParameters, ShortRuns, with_inputs_of
from sklearn_onlineem.estimators._rows import RowsInput
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.fitted import InformationCriteria, exposed, scorer_of
from sklearn_onlineem.estimators.learning import generator
from sklearn_onlineem.estimators.mixtures._base import MixtureInitialiser, MixtureParameters
from sklearn_onlineem.estimators.parameters import estimator, fit_context
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import INVALID, raise_named, targets_of
from sklearn_onlineem.models.mixtures.mixture import MixtureModel


class RegressionInput(RowsInput):
    """Reads inputs and targets, which models take side by side."""

    _takes_labels = True

    def inputs(self, X):
        """Return inputs alone, converted and checked."""
        try:
            return self._converted(X)
        except INVALID as error:
            raise_named(error, self._estimator)

    def _batch(self, X, weight, y, n_threads):
        """Combine converted inputs with targets and weights."""
        n_expected = None if self._fresh else self._estimator._n_targets
        targets, are_columns = targets_of(X, y, X.dtype, n_expected)
        if self._fresh:
            self.attributes["_y_is_column"] = not are_columns
        rows = super()._batch(np.hstack([X, targets]), weight, None, n_threads)
        return RowsWithInputs.of(rows, X.shape[1])


@dataclass(frozen=True)
class RegressionInitialiser(ShortRuns, MixtureInitialiser):
    """Short runs of EM from random regressions, clusters of (x, y), or responsibilities."""


@estimator
class RegressionMixture(
    RegressionParameters, MixtureParameters, RegressorMixin, InformationCriteria, OnlineEM
):
    r"""Mixture of linear regressions, learnt online or in batch: lines that rows follow.

    Rows belong to hidden components, and each of these has its own linear regression,

    .. math:: p(y \mid x) = \sum_k w_k \, N(y; B_k x + c_k, R_k).

    Inputs have no model, and weights do not depend on them: a prediction is the same average of
    all regressions everywhere. Each online step minimises the EM bound of a batch, of y given x,
    plus 1/eta times the KL divergence to the old model in expectation over the inputs that each
    component has seen, whose moments it carries.

    Parameters
    ----------
    init : str or array-like, default="short-em"
        Start. "short-em": of short runs of EM from random regressions and random responsibilities,
        the likeliest. "k-means", "k-means++", "random", "random_from_data": clusters of (x, y) as
        in other mixtures, which do not tell regressions that cross. Or responsibilities, of shape
        (n_samples, n_components).
    prior : dict, "auto", LearntPrior or None, default="auto"
        Hyper-parameters of the conjugate prior: ``matrix``, ``matrix_precision`` (a number is a
        ridge penalty in units of the noise), ``offset``, ``offset_precision``, ``covariance`` and
        ``degrees_of_freedom``; or the result of `as_prior` of a fitted estimator. "auto" and None
        are maximum likelihood.

    Attributes
    ----------
    coef_ : ndarray of shape (n_components, n_targets, n_features)
        Coefficients of each regression.
    intercept_ : ndarray of shape (n_components, n_targets)
        Expected targets of each regression where all inputs are 0.
    covariances_ : ndarray
        Covariances of the noise, of shape (n_components, n_targets, n_targets) full,
        (n_components, n_targets) diagonal or (n_components,) spherical.

    See Also
    --------
    GaussianMixture : Clusters of rows without targets.
    families.GaussianRegression : The family, for `Mixture` and `HMM`: rows are (x, y).

    References
    ----------
    .. [1] DeSarbo & Cron, "A maximum likelihood methodology for clusterwise linear regression",
       Journal of Classification 1988.
    .. [2] Cappe & Moulines, "On-line expectation-maximization algorithm for latent data models",
       JRSS-B 2009, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import RegressionMixture
    >>> rng = np.random.default_rng(0)
    >>> X, slope = rng.normal(size=(1000, 1)), rng.choice([-2.0, 2.0], size=1000)
    >>> y = slope * X[:, 0] + 1.0 + 0.1 * rng.normal(size=1000)  # two lines that cross
    >>> mixture = RegressionMixture(2, random_state=0).fit(X, y)
    >>> np.sort(mixture.coef_.ravel()).round(1), mixture.intercept_.ravel().round(1)
    (array([-2.,  2.]), array([1., 1.]))
    """

    _where = ("y",)

    _reader = RegressionInput

    def _family_before_data(self):
        return self._family()

    def _initialiser(self):
        return RegressionInitialiser.of(self)

    # ------------------------------------------------------------------------------------ fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the regressions to all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; a weight of 2 is equivalent to two equal rows.
        """
        return self._fit(X, y, sample_weight=sample_weight)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the regressions with one batch of a stream.

        The first rows are kept, and the start is made anew from all of them as they come, see
        :ref:`stream_starts`; `n_rows_kept_` counts them. Parameters that were set since the last
        batch take effect with this one; those that shape the model cannot change.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs of a batch of any size. One of no rows changes nothing.
        """
        self._partial_fit(X, y, sample_weight=sample_weight)
        return self

    # -------------------------------------------------------------------------------- inference

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = False) -> Floats: ...

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        r"""Return the expected targets, :math:`\sum_k w_k (B_k x + c_k)`.

        After `partial_fit` with ``solver="adaptive"`` they are those of the mixture of its models.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The inputs.
        return_std : bool, default=False
            Whether to return standard deviations, too: of the noise and between the regressions.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            As many dimensions as the first targets had.
        y_std : ndarray, shaped like y
            Standard deviations in the units of y; only with `return_std`.
        """
        check_bool(f"return_std of {type(self).__name__}.predict", return_std)
        seen = self._seen()
        mean, std = seen._moments(RegressionInput(seen).inputs(X))
        return (seen._in_shape(mean), seen._in_shape(std)) if return_std else seen._in_shape(mean)

    def _moments(self, X):
        """Return expected targets of converted inputs and their standard deviations."""
        scorer = scorer_of(self)
        models, shares = [scorer], [1.0]
        if isinstance(scorer, Memories):
            models, shares = scorer.models, scorer.weights
        weights = np.concatenate([w * m.weights for w, m in zip(shares, models, strict=True)])
        with single_threaded_blas(len(X)):
            of_each = [model.family.predicted(model.parameters, X) for model in models]
            of_each = np.concatenate(of_each, axis=1)
            mean = np.einsum("k,nkp->np", weights, of_each)
            covariances = np.concatenate([model.parameters.covariance for model in models])
            squares = np.einsum("kpp->kp", covariances) + (of_each - mean[:, None]) ** 2
            return mean, np.sqrt(np.einsum("k,nkp->np", weights, squares))

    def _in_shape(self, values):
        """Return values of each row, without the axis of targets if y had none."""
        # A known model has seen no targets.
        is_column = self._fitted.attributes.get("_y_is_column", self._n_targets == 1)
        return exposed(self, values[:, 0] if is_column else values)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination of predictions; higher is better.

        It is as of scikit-learn's regressors, and averaged over targets. See `log_density` for a
        score of the whole distribution.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; with fewer than two rows the score is NaN.

        Returns
        -------
        r2 : float
            1 minus the squares of errors over those about the mean.
        """
        seen = self._seen()
        rows = RegressionInput(seen).read(X, y, sample_weight)
        X, targets = np.split(rows.X, [rows.n_inputs], axis=1)
        predicted, _ = seen._moments(X)
        return float(r2_score(targets, predicted, sample_weight=rows.sample_weight))

    def _evidence(self, X, *cut, **where):
        log_densities = self.log_density(X, *cut, **where)
        return float(log_densities.sum(dtype=np.float64)), len(log_densities)

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Return the log density of the targets of each row given its inputs.

        After `partial_fit` with ``solver="adaptive"`` it is that of the mixture of its models.

        Returns
        -------
        log_densities : ndarray of shape (n_samples,)
            log p(y | x), in nats.
        """
        return self._infer("log_likelihood", X, y=y)

    def responsibilities(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Return the probability of each component for each row, given inputs and targets.

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_components)
            Rows add up to 1.
        """
        return self._infer("posterior", X, y=y)

    def sample(self, X: ArrayLike) -> tuple[Floats, Integers]:
        """Draw targets for given inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The inputs.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            As many dimensions as the first targets had.
        components : ndarray of int of shape (n_samples,)
            The component of each row.
        """
        seen = self._seen()
        X, model, rng = RegressionInput(seen).inputs(X), seen.model_, generator(seen)
        components = rng.choice(model.n_components, size=len(X), p=model.weights)
        with single_threaded_blas(len(X)):
            y = model.family.sample_outputs(model.parameters, components, X, rng)
        return seen._in_shape(y), components

    # ----------------------------------------------------------------------------- fitted values

    def _blank(self, sizes, n_features, given):
        K, family = self.n_components, self._family(n_features)
        parameters = family.blank(K, sizes.get("p", 1))
        return MixtureModel(family, np.full(K, 1.0 / K), parameters, self._fixed())

    def _bound(self, model, data):
        return with_inputs_of(model, data)

    @property
    def _n_targets(self):
        return self.model_.parameters.covariance.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

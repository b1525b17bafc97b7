"""Regression by a mixture of features and targets."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._checks import REALS, check_bool, check_count
from sklearn_onlineem._typing import Floats, RowData
from sklearn_onlineem.estimators.fitted import PersistentState, rollback
from sklearn_onlineem.estimators.mixtures.gaussian import GaussianMixture
from sklearn_onlineem.estimators.parameters import available_if, fit_context, naming_calls
from sklearn_onlineem.estimators.validation import (
    checked_weight,
    converted,
    error_context,
    is_empty,
    targets_of,
)
from sklearn_onlineem.models.mixtures.conditional import ConditionalMixture

# The default mixture, chosen by benchmarks/real_data/regression.py: its components, the fewest rows
# of one for each column, and the mode of the prior of variances, in those of the columns.
_MOST_COMPONENTS, _LEAST_ROWS, _SHARE_OF_VARIANCE = 8, 10, 0.25
# Rows of a stream that tell the variances of the columns.
_ROWS_OF_VARIANCE = 1000

Mixture = TypeVar("Mixture", bound=BaseEstimator)


def _prior_of_covariances(variances):
    """Return a weak prior of covariances whose mode is a share of the variances of the columns."""
    d = len(variances)
    degrees = float(d)
    # The mode of an inverse Wishart distribution with as many degrees as columns.
    scale = np.diag((degrees + d + 1.0) * _SHARE_OF_VARIANCE * variances)
    return {"covariance": scale, "degrees_of_freedom": degrees}


def _learns_streams(self):
    mixture = getattr(self, "mixture_", self.mixture)
    return mixture is None or hasattr(mixture, "partial_fit")


@naming_calls
class MixtureRegressor(
    PersistentState, RegressorMixin, MetaEstimatorMixin, BaseEstimator, Generic[Mixture]
):
    r"""Predict targets by a mixture of features and targets, learnt in batch or from a stream.

    A Gaussian mixture of rows [x, y] has the distribution of y given x in closed form: a mixture of
    linear regressions whose weights depend on x,

    .. math::
        p(y \mid x) &= \sum_k w_k(x) \, N(y; \, m_k^y + S_k^{yx} (S_k^{xx})^{-1} (x - m_k^x), \,
        S_k^{yy} - S_k^{yx} (S_k^{xx})^{-1} S_k^{xy}), \\
        w_k(x) &\propto w_k N(x; m_k^x, S_k^{xx}).

    So predictions come with standard deviations, intervals and densities, which depend on x and may
    have several modes; features that are missing are integrated out.

    Parameters
    ----------
    mixture : estimator, default=None
        A mixture with `conditional`, such as `GaussianMixture`, of features and targets. It is
        cloned. None: a `GaussianMixture` of 8 components with ``random_state=0`` and a weak prior
        of covariances, whose mode is diagonal, with a quarter of the variance of each column. `fit`
        takes fewer components if one would have fewer rows than 10 times the number of columns.

    Attributes
    ----------
    mixture_ : estimator
        The fitted mixture, of rows of the features and then the targets.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns of X, where the first X had names.
    n_outputs_ : int
        Number of targets.

    See Also
    --------
    GaussianMixture : Has `conditional`, for any of the columns given any others.
    StreamPipeline : Scales features of a stream before they are learnt.

    Notes
    -----
    With one component it is linear regression. Features and targets are learnt together: if few of
    many features say something of the targets, most components describe the others.

    References
    ----------
    Ghahramani & Jordan, "Supervised learning from incomplete data via an EM approach", NIPS 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture, MixtureRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3.0, 3.0, size=(3000, 1))
    >>> y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=3000)
    >>> regressor = MixtureRegressor(GaussianMixture(5, random_state=0)).fit(X, y)
    >>> regressor.predict([[-2.0], [1.0]]).round(1)
    array([2., 1.])
    >>> np.round(regressor.predict_interval([[-2.0], [1.0]], level=0.9), 1)
    array([[1.8, 0.8],
           [2.2, 1.2]])
    """

    mixture_: Mixture
    n_features_in_: int
    n_outputs_: int

    _parameter_constraints: dict = {"mixture": [HasMethods(["fit", "conditional"]), None]}

    def __init__(self, mixture: Mixture | None = None):
        self.mixture = mixture

    # The mixture validates its own parameters.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: RowData, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to rows of features and targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features. NaN is missing, where the mixture takes it, and predictions integrate it out.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows.
        """
        return self._learn("fit", X, y, sample_weight, fresh=True)

    @available_if(_learns_streams)
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: RowData, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Update the mixture with one batch of a stream.

        Parameters of `mixture` that change later have no effect: set those of `mixture_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features. No rows change nothing.
        """
        if is_empty(self, X):
            return self
        return self._learn("partial_fit", X, y, sample_weight, not hasattr(self, "mixture_"))

    def _learn(self, method, X, y, sample_weight, fresh):
        with error_context(self):
            X, attributes = converted(self, X, fresh, ensure_all_finite="allow-nan")
            columns, is_column = targets_of(X, y, REALS, None if fresh else self.n_outputs_)
            rows = np.hstack([X, columns])
            given = {} if sample_weight is None else {"sample_weight": sample_weight}
            if self.mixture is not None:
                mixture = clone(self.mixture) if fresh else self.mixture_
                mixture = getattr(mixture, method)(rows, **given)
            elif fresh:
                weight = None if sample_weight is None else checked_weight(sample_weight, X)
                known = np.ma.masked_invalid(rows)
                deviation = known - np.ma.average(known, axis=0, weights=weight)
                variances = np.ma.average(deviation**2, axis=0, weights=weight).filled(0.0)
                n_components, prior = _MOST_COMPONENTS, _prior_of_covariances(variances)
                if method == "fit":
                    n_rows = len(rows) if weight is None else weight.sum()
                    most = n_rows // (_LEAST_ROWS * rows.shape[1])
                    n_components = int(np.clip(most, 1, n_components))
                mixture = GaussianMixture(n_components, prior=prior, random_state=0)
                getattr(mixture, method)(rows, **given)
            else:
                mixture = self.mixture_
                with rollback(mixture):
                    if mixture.n_samples_seen_ < _ROWS_OF_VARIANCE:
                        nothing = np.full((1, rows.shape[1]), np.nan)
                        variances = np.diag(mixture.conditional(nothing).covariance()[0])
                        mixture.set_params(prior=_prior_of_covariances(variances))
                    mixture.partial_fit(rows, **given)
        if fresh:
            del attributes["_dtype"]
            attributes |= {"n_outputs_": columns.shape[1], "_is_column": is_column}
            others = {name: v for name, v in vars(self).items() if name != "feature_names_in_"}
            # One assignment, as other threads may read it.
            self.__dict__ = {**others, **attributes, "mixture_": mixture}
        return self

    # --------------------------------------------------------------------------------- inference

    def conditional(self, X: RowData) -> ConditionalMixture:
        """Return the mixture of the targets of each row, given its features.

        Returns
        -------
        conditional : ConditionalMixture
            In float64: `weights` (n_samples, n_components), `means` (n_samples, n_components,
            n_outputs), `covariances`, and the methods `mean`, `covariance`, `sample`,
            `log_density`, `quantile` and `interval`.
        """
        check_is_fitted(self)
        with error_context(self):
            X, _ = converted(self, X, False, ensure_all_finite="allow-nan")
            unknown = np.full((len(X), self.n_outputs_), np.nan, dtype=X.dtype)
            targets = range(X.shape[1], X.shape[1] + self.n_outputs_)
            return self.mixture_.conditional(np.hstack([X, unknown]), features=targets)

    def _in_form(self, values):
        """Return values of targets in the form of the first y."""
        return values if self._is_column else values[:, 0]

    def predict(self, X: RowData, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return the expectation of the targets, and their standard deviations on demand.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return standard deviations, too.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            In the units of the targets.
        std : ndarray, shaped like y
            Only if `return_std` is True.
        """
        check_bool(f"return_std of {type(self).__name__}.predict", return_std)
        given = self.conditional(X)
        mean = self._in_form(given.mean())
        if not return_std:
            return mean
        return mean, self._in_form(np.sqrt(np.einsum("nff->nf", given.covariance())))

    def predict_interval(self, X: RowData, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of a central interval of each target.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the interval, above 0 and below 1. A target is below it as probably as
            above it.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            In the units of the targets.
        """
        given = self.conditional(X)
        with error_context(self):
            lower, upper = given.interval(level)
        return self._in_form(lower), self._in_form(upper)

    def sample_y(
        self, X: RowData, n_samples: int = 1, random_state: np.random.Generator | int | None = None
    ) -> Floats:
        """Draw targets of each row.

        Parameters
        ----------
        n_samples : int, default=1
            How many times to draw, at least 1.
        random_state : Generator or int, default=None
            Source of random numbers, or its seed; None: another one each time.

        Returns
        -------
        y : ndarray of shape (len(X), n_samples) or (len(X), n_outputs, n_samples)
        """
        check_count(f"n_samples of {type(self).__name__}", n_samples)
        given = self.conditional(X)
        rng = np.random.default_rng(random_state)
        draws = [self._in_form(given.sample(rng)) for _ in range(n_samples)]
        return np.stack(draws, axis=-1)

    def score_samples(self, X: RowData, y: ArrayLike | None = None) -> Floats:
        """Return log p(y | x) of each row, jointly of all targets, or log p(x) without y.

        Predictions for features of low density are extrapolations.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets. None: the density is that of the features.

        Returns
        -------
        log_densities : ndarray of shape (n_samples,)
            In nats; they depend on the units of the targets, or of the features.
        """
        given = self.conditional(X)
        if y is None:
            return given.log_likelihoods
        with error_context(self):
            return given.log_density(targets_of(given.weights, y, REALS, self.n_outputs_)[0])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        mixture = GaussianMixture() if self.mixture is None else self.mixture
        if isinstance(mixture, BaseEstimator):
            tags.input_tags.allow_nan = get_tags(mixture).input_tags.allow_nan
        return tags

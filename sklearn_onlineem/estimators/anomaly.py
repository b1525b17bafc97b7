"""Detection of anomalies: rows that a model finds unlikely."""

from __future__ import annotations

import math
from numbers import Real
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OutlierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._typing import FloatsOrList, IntegersOrList, RowData, SequenceData
from sklearn_onlineem.em.stages.outliers import RunningQuantiles
from sklearn_onlineem.estimators.fitted import PersistentState
from sklearn_onlineem.estimators.parameters import (
    available_if,
    estimator_has,
    fit_context,
    naming_calls,
)
from sklearn_onlineem.estimators.sequence_forms import sequence_form
from sklearn_onlineem.estimators.validation import error_context, is_empty

# Scores in the quantile of a stream, at least and at most; rows below it that they should have.
_LEAST_WINDOW, _LARGEST_WINDOW, _ROWS_BELOW = 1000, 100_000, 10
# Share of the scores so far that count before, the latest: those of the first rows are by models
# that had seen few, which may have been untypical. So many count that one is below, if possible.
_SETTLED = 0.75

Estimator = TypeVar("Estimator", bound=BaseEstimator)


@naming_calls
class AnomalyDetector(
    PersistentState, OutlierMixin, MetaEstimatorMixin, BaseEstimator, Generic[Estimator]
):
    r"""Detect rows that a model finds unlikely, in data at hand or in a stream.

    A row is an anomaly if its log density is below `offset_`, a quantile of the log densities of
    rows so far. Rows of a hidden Markov model or Kalman filter are scored one by one, given those
    before them in their sequence, :math:`\log p(v_t \mid v_1, \dots, v_{t-1})`.

    Parameters
    ----------
    estimator : estimator
        A mixture, hidden Markov model, Kalman filter, or any other estimator with `score_samples`.
        It is cloned.
    contamination : float, default=0.01
        Share of anomalies among the rows, above 0 and at most 0.5. After `fit` it is the share of
        anomalies among the rows of the fit, which the model has learnt. In a stream it is the share
        among the latest rows; each was scored before it was learnt, except those of the first call.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    offset_ : float
        Log density below which rows are anomalies, in nats: of the rows of `fit`, the quantile
        `contamination` of their scores; after `partial_fit`, that of the scores of the latest 1,000
        rows, or ``10 / contamination`` if these are more, but at most 100,000. Before, it is that
        of the latest three quarters of the rows (but not fewer than ``1 / contamination``), as the
        first ones were scored by models that had not settled.
    n_features_in_ : int
        Columns of the data.
    feature_names_in_ : ndarray of str
        Names of the columns, where the first data had names.

    See Also
    --------
    diagnostics.DriftWatch : Tells that the source of a stream has changed.

    Notes
    -----
    Scores of rows with missing values are log densities of the values that they have. Rows of which
    nothing was observed have the score NaN, do not count in `offset_`, and are no anomalies.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import AnomalyDetector, GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> detector = AnomalyDetector(GaussianMixture(2, random_state=0))
    >>> for _ in range(50):
    ...     detector = detector.partial_fit(rng.normal(rng.choice([-5, 5], size=(100, 1))))
    >>> detector.predict([[-5.0], [0.0], [5.0], [10.0]])
    array([ 1, -1,  1, -1])
    """

    estimator_: Estimator
    offset_: float

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "score_samples"])],
        "contamination": [Interval(Real, 0, 0.5, closed="right")],
    }

    def __init__(self, estimator: Estimator, *, contamination: float = 0.01):
        self.estimator = estimator
        self.contamination = contamination

    # The estimator validates its own parameters.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: RowData | SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the estimator, and set the offset to a quantile of the scores of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or sequences
            As `fit` of the estimator takes them.
        y : object, default=None
            Passed to the estimator, which ignores it unless it is semi-supervised.
        sample_weight : array-like, default=None
            Weights of rows or sequences, as in `fit` of the estimator, which learns by them. The
            offset counts each row once.
        lengths, groups : array-like, default=None
            Where sequences begin and end, as in `fit` of the estimator.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter or X is invalid. The detector is left unchanged.
        """
        where = _given(lengths=lengths, groups=groups)
        weighted = _given(sample_weight=sample_weight)
        estimator = clone(self.estimator).fit(X, y, **weighted, **where)
        scores = _observed(_scores(estimator, X, where))
        offset = RunningQuantiles(scores).quantile(self.contamination)
        # The model has settled, whatever follows.
        return self._learnt(estimator, [], scores, math.inf, offset)

    @available_if(estimator_has("partial_fit"))
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: RowData | SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        continues: bool = False,
    ) -> Self:
        """Score a batch of a stream, set the offset, and let the estimator learn the batch.

        Of the first call, scores are taken after its rows were learnt. Parameters of `estimator`
        that change later have no effect: set those of `estimator_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or sequences
            As `partial_fit` of the estimator takes them. No rows change nothing.
        y : object, default=None
            Passed to the estimator, which ignores it unless it is semi-supervised.
        sample_weight : array-like, default=None
            As in `fit`.
        lengths, groups : array-like, default=None
            Where sequences begin and end, as in `partial_fit` of the estimator.
        continues : bool, default=False
            Whether the first sequence continues the last one of the previous call that had
            ``continues=True``, as in `partial_fit` of the estimator.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter or X is invalid. The detector is left unchanged.
        """
        if is_empty(self, X):
            return self
        where = _given(lengths=lengths, groups=groups, continues=continues)
        learning = {**where, **_given(sample_weight=sample_weight)}
        if hasattr(self, "estimator_"):
            latest, scores = self._quantiles.latest, _scores(self.estimator_, X, where)
            n_before = self._n_scored
            estimator = self.estimator_.partial_fit(X, y, **learning)
        else:
            latest, n_before = [], 0
            estimator = clone(self.estimator).partial_fit(X, y, **learning)
            # A sequence that continues has begun with X.
            scores = _scores(estimator, X, _given(lengths=lengths, groups=groups))
        scores = _observed(scores)
        return self._learnt(estimator, latest, scores, n_before + len(scores))

    def _learnt(self, estimator, latest, scores, n_scored, offset=None):
        """Set what was learnt, with an offset from the latest scores before and from new ones."""
        share, most = float(self.contamination), _LARGEST_WINDOW
        window = max(_LEAST_WINDOW, min(_ROWS_BELOW / share, most))
        window = math.ceil(min(window, max(_SETTLED * n_scored, min(1.0 / share, most))))
        quantiles = RunningQuantiles(window=window).after(latest).after(scores)
        offset = quantiles.quantile(share) if offset is None else offset
        # One assignment, as other threads may read it.
        vars(self).update(
            estimator_=estimator, _quantiles=quantiles, _n_scored=n_scored, offset_=offset
        )
        return self

    def score_samples(
        self,
        X: RowData | SequenceData,
        *,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        continues: bool = False,
    ) -> FloatsOrList:
        """Return the log density of each row, of a sequence given the rows before it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or sequences
            As in `fit`.
        lengths, groups : array-like, default=None
            As in `fit`.
        continues : bool, default=False
            Whether the first sequence continues the last one that `partial_fit` has learnt with
            ``continues=True``.

        Returns
        -------
        scores : ndarray of shape (n_samples,), or list
            In nats; NaN for a row of which nothing was observed. A list has an array for each
            sequence, if X has an entry for each.

        Raises
        ------
        NotFittedError, ValueError
            If the detector is not fitted, or X is invalid.
        """
        check_is_fitted(self)
        where = _given(lengths=lengths, groups=groups, continues=continues)
        return _scores(self.estimator_, X, where)

    def decision_function(
        self,
        X: RowData | SequenceData,
        *,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        continues: bool = False,
    ) -> FloatsOrList:
        """Return the scores less `offset_`: below 0 for anomalies.

        Parameters
        ----------
        X, lengths, groups, continues
            As in `score_samples`.

        Returns
        -------
        decisions : ndarray of shape (n_samples,), or list
            Like those of `score_samples`.

        Raises
        ------
        NotFittedError, ValueError
            If the detector is not fitted, or X is invalid.
        """
        scores = self.score_samples(X, lengths=lengths, groups=groups, continues=continues)
        return _mapped(lambda part: part - self.offset_, scores)

    def predict(
        self,
        X: RowData | SequenceData,
        *,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        continues: bool = False,
    ) -> IntegersOrList:
        """Return -1 for anomalies, and 1 for other rows.

        Parameters
        ----------
        X, lengths, groups, continues
            As in `score_samples`.

        Returns
        -------
        labels : ndarray of int of shape (n_samples,), or list
            A list has an array for each sequence, if X has an entry for each.

        Raises
        ------
        NotFittedError, ValueError
            If the detector is not fitted, or X is invalid.
        """
        scores = self.score_samples(X, lengths=lengths, groups=groups, continues=continues)
        return _mapped(lambda part: np.where(part < self.offset_, -1, 1), scores)

    @available_if(estimator_has("score"))
    def score(
        self,
        X: RowData | SequenceData,
        y: object = None,
        *,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Return the score of the estimator, as searches without labels need it.

        Parameters
        ----------
        X, y, lengths, groups
            As in `fit`.

        Returns
        -------
        log_likelihood : float
            Mean of the rows or sequences, in nats.

        Raises
        ------
        NotFittedError, ValueError
            If the detector is not fitted, or X is invalid.
        """
        check_is_fitted(self)
        return self.estimator_.score(X, y, **_given(lengths=lengths, groups=groups))

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the data."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns, where the first data had names."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, BaseEstimator):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _given(**where):
    """Return the arguments that were given: not all estimators take all of them."""
    return {name: value for name, value in where.items() if not (value is None or value is False)}


def _scores(estimator, X, where):
    """Return the scores of rows in their form, NaN where nothing was observed."""
    if not hasattr(estimator, "score_rows"):
        return estimator.score_samples(X, **where)
    scores = estimator.score_rows(X, **where)
    lengths, groups = where.get("lengths"), where.get("groups")
    with error_context(estimator):
        form = sequence_form(X, lengths, groups, lambda X: np.asarray(X, dtype=float))
    unknown = form.restored(np.where(np.isnan(form.X).all(axis=1), np.nan, 0.0))
    if not form.is_nested:
        return scores + unknown
    return [part + of_part for part, of_part in zip(scores, unknown, strict=True)]


def _mapped(function, scores):
    return [function(part) for part in scores] if isinstance(scores, list) else function(scores)


def _observed(scores):
    """Return the scores of all rows of which something was observed, in one array."""
    flat = np.concatenate(scores) if isinstance(scores, list) else np.asarray(scores)
    return flat[~np.isnan(flat)]

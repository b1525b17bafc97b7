"""Detection of anomalies: rows that a model finds unlikely."""

from __future__ import annotations

import math
from numbers import Real
from typing import Generic, NamedTuple, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OutlierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._typing import (
    Floats,
    FloatsOrList,
    IntegersOrList,
    RowData,
    SequenceData,
    Where,
)
from sklearn_onlineem.em.stages.outliers import RunningQuantiles, repeated_quantile
from sklearn_onlineem.estimators.fitted import PersistentState
from sklearn_onlineem.estimators.parameters import (
    ReadsData,
    available_if,
    estimator_has,
    fit_context,
    naming_calls,
)
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import checked_weight, error_context, is_empty

# Scores in the quantile of a stream, at least and at most; rows below it that they should have.
_LEAST_WINDOW, _LARGEST_WINDOW, _ROWS_BELOW = 1000, 100_000, 10
# Share of the scores so far that count before, the latest: those of the first rows are by models
# that had seen few, which may have been untypical. So many count that one is below, if possible.
_SETTLED = 0.75


class Scores(NamedTuple):
    """Scores of the rows of a fit, or the latest ones of a stream, oldest first.

    Without `weights` all are 1. `n_scored` is the weight of all scores of a stream, infinite if it
    began with a fit, and None of a fit alone. Scores may be `of_sequences`.
    """

    latest: Floats = np.empty(0)
    weights: Floats | None = None
    n_scored: float | None = 0
    of_sequences: bool = False

    def after(self, latest, weights, share):
        """Return the scores of a stream after more of them."""
        n_scored = math.inf if self.n_scored is None else self.n_scored
        n_scored += len(latest) if weights is None else float(weights.sum())
        if weights is not None or self.weights is not None:
            parts = (self.weights, self.latest), (weights, latest)
            weights = np.concatenate([np.ones(len(x)) if w is None else w for w, x in parts])
        latest = np.concatenate([self.latest, latest])
        return Scores(latest, weights, n_scored, self.of_sequences).cut(_window(share))

    def cut(self, most):
        """Return the latest scores, of a weight of at most `most`."""
        if self.weights is None:
            return self._replace(latest=self.latest[-most:])
        later = np.append(np.cumsum(self.weights[:0:-1])[::-1], 0.0)
        first = max(np.count_nonzero(later >= most), len(later) - _LARGEST_WINDOW)
        weights = np.minimum(self.weights, most - later)[first:]
        return self._replace(latest=self.latest[first:], weights=weights)

    def quantile(self, share):
        """Return the quantile of the scores that count, each repeated by its weight."""
        latest, weights = self.latest, self.weights
        if self.n_scored is not None:
            settled = max(_SETTLED * self.n_scored, min(1.0 / share, _LARGEST_WINDOW))
            latest, weights, *_ = self.cut(math.ceil(min(_window(share), settled)))
        if weights is None or not len(latest):
            return RunningQuantiles(latest).quantile(share)
        # Weights below 1 are multiples of the largest, as a weight of 1 repeats no row.
        return repeated_quantile(latest, weights / min(1.0, weights.max()), share)


def _window(share):
    """Return the weight of the latest scores of a stream that are kept."""
    return math.ceil(max(_LEAST_WINDOW, min(_ROWS_BELOW / share, _LARGEST_WINDOW)))


Estimator = TypeVar("Estimator", bound=BaseEstimator)
_WHERE = ("lengths", "groups", "inputs")


@naming_calls
class AnomalyDetector(
    ReadsData, PersistentState, OutlierMixin, MetaEstimatorMixin, BaseEstimator, Generic[Estimator]
):
    r"""Detect rows that a model finds unlikely, in data at hand or in a stream.

    A row is an anomaly if its log density is below `offset_`, a quantile of the log densities of
    rows so far. Rows of a hidden Markov model or Kalman filter are scored one by one, given those
    before them in their sequence, :math:`\log p(v_t \mid v_1, \dots, v_{t-1})`, or whole sequences
    by the mean of these scores.

    Parameters
    ----------
    estimator : estimator
        A mixture, hidden Markov model, Kalman filter, or any other estimator with `score_samples`.
        It is cloned.
    contamination : float, default=0.01
        Share of anomalies among the rows, above 0 and at most 0.5. After `fit` it is the share of
        anomalies among the rows of the fit, which the model has learnt. In a stream it is the share
        among the latest rows; each was scored before it was learnt, except those of the first call.
        It may be changed at any time, without a new fit.
    per_sequence : bool, default=False
        Whether sequences are anomalies as a whole, by the mean of the scores of their observed
        rows. There is a score, a label and a place in the quantile for each sequence then. Requires
        a hidden Markov model or Kalman filter. A change requires a new fit.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    offset_ : float
        Log density below which rows are anomalies, in nats: of the rows of `fit`, the quantile
        `contamination` of their scores; after `partial_fit`, that of the scores of the latest 1,000
        rows, or ``10 / contamination`` if these are more, but at most 100,000. Before, it is that
        of the latest three quarters of the rows (but not fewer than ``1 / contamination``), as the
        first ones were scored by models that had not settled. A smaller `contamination` that needs
        more rows of a stream than are kept counts those there are, until more have come. Reading it
        raises ValueError if `contamination` was set to something invalid.
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
    nothing was observed have the score NaN, do not count in `offset_`, and are no anomalies. The
    same holds of rows that lack one of the lags of a `RegressionHMM`. The scores of all rows of
    `fit` are kept, 8 bytes for each.

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
    >>> detector.predict([[7.0]]), detector.set_params(contamination=0.2).predict([[7.0]])
    (array([1]), array([-1]))
    """

    _where = _WHERE

    estimator_: Estimator

    # The offset computed last, with the scores and the share that it belongs to.
    _transient = ("_offset",)

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "score_samples"])],
        "contamination": [Interval(Real, 0, 0.5, closed="right")],
        "per_sequence": ["boolean"],
    }

    def __init__(
        self, estimator: Estimator, *, contamination: float = 0.01, per_sequence: bool = False
    ):
        self.estimator = estimator
        self.contamination = contamination
        self.per_sequence = per_sequence

    # The estimator validates its own parameters.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: RowData | SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Self:
        """Fit the estimator, and set the offset to a quantile of the scores of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or sequences
            As `fit` of the estimator takes them.
        y : object, default=None
            Passed to the estimator, which ignores it unless it is semi-supervised.
        sample_weight : array-like, default=None
            Weights of rows or sequences, as in `fit` of the estimator, which learns by them. In the
            offset a weight of 2 is equivalent to two equal rows, or sequences, and one of 0 leaves
            it out. If all are below 1, they count as multiples of the largest.
        lengths, groups : array-like, default=None
            Where sequences begin and end, as in `fit` of the estimator.
        """
        self._check_per_sequence(self.estimator)
        where = _given(**where)
        weighted = _given(sample_weight=sample_weight)
        estimator = clone(self.estimator).fit(X, y, **weighted, **where)
        scores, weights = self._observed(estimator, X, where, sample_weight)
        # The model has settled, whatever follows.
        return self._learnt(estimator, Scores(scores, weights, None, self.per_sequence))

    # That of scikit-learn would predict X as one sequence.
    def fit_predict(
        self,
        X: RowData | SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> IntegersOrList:
        """Fit, and return the result of `predict` for X.

        Returns
        -------
        labels : ndarray of int of shape (n_samples,), or list
            As those of `predict`.
        """
        return self.fit(X, y, sample_weight=sample_weight, **where).predict(X, **where)

    @available_if(estimator_has("partial_fit"), _WHERE)
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: RowData | SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        continues: bool = False,
        **where: Unpack[Where],
    ) -> Self:
        """Score a batch of a stream, set the offset, and let the estimator learn the batch.

        Of the first call, scores are taken after its rows were learnt. Parameters of `estimator`
        that change later have no effect: set those of `estimator_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or sequences
            As `partial_fit` of the estimator takes them. No rows change nothing.
        continues : bool, default=False
            Whether the first sequence continues the last one of the previous call that had
            ``continues=True``, as in `partial_fit` of the estimator.
        """
        if is_empty(self, X):
            return self
        where = _given(**where, continues=continues)
        learning = {**where, **_given(sample_weight=sample_weight, classes=classes)}
        if hasattr(self, "estimator_"):
            self._check_per_sequence(self.estimator_, continues, self._scores.of_sequences)
            before = self._scores
            scores, weights = self._observed(self.estimator_, X, where, sample_weight)
            estimator = self.estimator_.partial_fit(X, y, **learning)
        else:
            self._check_per_sequence(self.estimator, continues)
            before = Scores(of_sequences=self.per_sequence)
            estimator = clone(self.estimator).partial_fit(X, y, **learning)
            # A sequence that continues has begun with X.
            where.pop("continues", None)
            scores, weights = self._observed(estimator, X, where, sample_weight)
        return self._learnt(estimator, before.after(scores, weights, float(self.contamination)))

    def _learnt(self, estimator, scores):
        """Set what was learnt, and the offset."""
        offset = scores, self.contamination, scores.quantile(float(self.contamination))
        # One assignment, as other threads may read it.
        vars(self).update(estimator_=estimator, _scores=scores, _offset=offset)
        return self

    @property
    def offset_(self) -> float:
        """Log density below which rows are anomalies, by the present `contamination`."""
        if not hasattr(self, "_scores"):
            raise AttributeError(f"{type(self).__name__} has offset_ only once it is fitted.")
        offset, scores, share = vars(self).get("_offset"), self._scores, self.contamination
        if offset is None or offset[0] is not scores or offset[1] is not share:
            self._validate_params()
            self._offset = offset = scores, share, scores.quantile(float(share))
        return offset[2]

    def _check_per_sequence(self, estimator, continues=False, before=None):
        """Raise ValueError if `per_sequence` cannot be what it is."""
        name = type(self).__name__
        if before is not None and before != self.per_sequence:
            raise ValueError(
                f"{name}: per_sequence was {before} in the fit, and a change requires a new fit."
            )
        if not self.per_sequence:
            return
        if not hasattr(estimator, "score_rows"):
            raise ValueError(
                f"{name}: per_sequence=True requires a hidden Markov model or Kalman filter, got"
                f" {type(estimator).__name__}, which has no score_rows."
            )
        if continues:
            raise ValueError(
                f"{name}: per_sequence=True requires whole sequences, got continues=True."
            )

    def _observed(self, estimator, X, where, sample_weight):
        """Return the scores of all of which something was observed, and their weights or None."""
        scores, form = _scores(estimator, X, where, self.per_sequence)
        if sample_weight is None:
            return scores[~np.isnan(scores)], None
        with error_context(estimator):
            if form is None:
                weights = checked_weight(sample_weight, scores)
            else:
                weights = form.weights(sample_weight)
        if form is not None and not self.per_sequence:
            weights = np.repeat(weights, np.diff(form.offsets))
        counted = ~np.isnan(scores) & (weights > 0.0)
        return scores[counted], weights[counted]

    def score_samples(
        self, X: RowData | SequenceData, *, continues: bool = False, **where: Unpack[Where]
    ) -> FloatsOrList:
        """Return the log density of each row, of a sequence given the rows before it.

        With ``per_sequence=True`` it is the mean of these of each sequence.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_sequences,), or list
            In nats; NaN for a row of which nothing was observed. A list has an array for each
            sequence, if X has an entry for each, and rows are scored.
        """
        check_is_fitted(self)
        estimator, per_sequence = self.estimator_, self.per_sequence
        self._check_per_sequence(estimator, continues, self._scores.of_sequences)
        where = _given(**where, continues=continues)
        scores, form = _scores(estimator, X, where, per_sequence)
        return scores if form is None or per_sequence else form.restored(scores)

    def decision_function(
        self, X: RowData | SequenceData, *, continues: bool = False, **where: Unpack[Where]
    ) -> FloatsOrList:
        """Return the scores less `offset_`: below 0 for anomalies.

        Returns
        -------
        decisions : ndarray of shape (n_samples,), or list
            Like those of `score_samples`.
        """
        scores = self.score_samples(X, continues=continues, **where)
        return _mapped(lambda part: part - self.offset_, scores)

    def predict(
        self, X: RowData | SequenceData, *, continues: bool = False, **where: Unpack[Where]
    ) -> IntegersOrList:
        """Return -1 for anomalies, and 1 for other rows or sequences.

        Returns
        -------
        labels : ndarray of int of shape (n_samples,), or list
            As those of `score_samples`.
        """
        scores = self.score_samples(X, continues=continues, **where)
        return _mapped(lambda part: np.where(part < self.offset_, -1, 1), scores)

    @available_if(estimator_has("score"), _WHERE)
    def score(self, X: RowData | SequenceData, y: object = None, **where: Unpack[Where]) -> float:
        """Return the score of the estimator, as searches without labels need it.

        Returns
        -------
        log_likelihood : float
            Mean of the rows or sequences, in nats.
        """
        check_is_fitted(self)
        return self.estimator_.score(X, y, **_given(**where))

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


def _scores(estimator, X, where, per_sequence):
    """Return scores of rows, or of sequences, NaN where nothing was observed, and their form.

    It is None of rows that are no sequences.
    """
    if not hasattr(estimator, "score_rows"):
        return np.asarray(estimator.score_samples(X, **where)), None
    estimator._check_continues(where.get("continues", False))
    seen = estimator._seen()
    with error_context(estimator):
        reader = seen._input()
        data = reader.read(X, **where)
        with single_threaded_blas(data.n_rows):
            scores = seen._fitted.state.model.row_log_likelihoods(data)
    form, observed = reader.form, data.observed
    if observed is not None:
        scores = np.where(observed, scores, np.nan)
    if not per_sequence:
        return scores, form
    is_known, starts = ~np.isnan(scores), form.offsets[:-1]
    counts = np.add.reduceat(is_known.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(is_known, scores, 0.0), starts)
    return sums / np.where(counts > 0.0, counts, np.nan), form


def _mapped(function, scores):
    return [function(part) for part in scores] if isinstance(scores, list) else function(scores)

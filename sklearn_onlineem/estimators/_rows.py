"""Estimators whose samples are rows: how they read, fit and score data."""

from __future__ import annotations

from dataclasses import replace
from typing import Self, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sklearn_onlineem._checks import check_count
from sklearn_onlineem._typing import Cut, Floats, RowData, Where
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em.solvers import Gibbs
from sklearn_onlineem.estimators._labels import ReadsLabels
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.fitted import FitTransformMixin, InformationCriteria
from sklearn_onlineem.estimators.parameters import estimator, fit_context
from sklearn_onlineem.estimators.threads import threads_for
from sklearn_onlineem.estimators.validation import INVALID, checked_weight, raise_named, ready
from sklearn_onlineem.families import Family
from sklearn_onlineem.families.capabilities import Marginals


class RowsInput(ReadsLabels):
    """Reads rows as `fit`, `partial_fit` and `predict` take them.

    The family checks the values, which the estimator may have prepared. Rows of which nothing is
    observed are kept only if `keeps_unobserved`, as learning needs none.
    """

    infers = keeps_unobserved = False
    _has_gaps = _is_checked = False

    def __init__(self, estimator, fresh=False):
        super().__init__(estimator, fresh)
        if fresh:
            self._family = estimator._family_before_data()
        self._prepare = getattr(estimator, "_prepared", None)

    def read(self, X, y=None, sample_weight=None, classes=None):
        """Return rows, converted and checked, without those of weight 0."""
        try:
            self._classes = classes
            X = self._converted(X)
            n_threads = threads_for(self._n_jobs, X.size * self._n_components)
            weight = None if sample_weight is None else checked_weight(sample_weight, X)
            rows = self._batch(X, weight, y if self._takes_labels else None, n_threads)
            if weight is not None and not weight.all():
                rows = rows[np.flatnonzero(weight)]
            if self._has_gaps and not self.keeps_unobserved:
                rows = rows[np.flatnonzero(~np.isnan(rows.X).all(axis=1))]
                if self._fresh and not len(rows):
                    raise ValueError("X has nothing but NaN.")
            if self._prepare is not None:
                rows = replace(rows, X=self._prepare(rows.X))
            # Most families take any numbers.
            if not self._is_checked and type(self._family).check is not Family.check:
                self._family.check(rows.X)
        except INVALID as error:
            raise_named(error, self._estimator)
        return rows

    def _converted(self, X):
        self._has_gaps = self._is_checked = False
        found = None if self._fresh else ready(self._estimator, X)
        if found is not None:
            return found
        takes_gaps = self._family is None or isinstance(self._family, Marginals)
        finite = "allow-nan" if takes_gaps else True
        X, self.attributes = self._estimator._converted(X, self._fresh, finite)
        if self._family is None:
            self._family = self._estimator._family()
        if takes_gaps and np.isnan(X.sum()):
            if sparse.issparse(X):
                raise ValueError("X is sparse and has NaN: missing values need a dense array.")
            self._has_gaps = True
        return X

    def _batch(self, X, weight, y, n_threads):
        """Combine converted rows with their weights and labels."""
        labels, classes = None, self._classes
        if y is not None or classes is not None:
            labels = self._components(y, X.shape[0], classes)
        return Rows.unchecked(X, weight, labels, n_threads, self._has_gaps)


@estimator
class RowEstimator(FitTransformMixin, InformationCriteria, OnlineEM):
    """Base of the estimators whose samples are rows.

    Subclasses define `_family`, or have another `_reader`.

    Attributes
    ----------
    n_features_in_ : int
        Columns of the data.
    """

    _reader = RowsInput

    def _family_before_data(self):
        """Return the family, or None if the first data define it."""
        return self._family()

    @property
    def _handles_missing(self):
        try:
            return isinstance(self._family(), Marginals) and not isinstance(self._solver(), Gibbs)
        except (KeyError, TypeError, ValueError):
            # Parameters are not yet validated when tags are read, and families of columns may need
            # the names of these.
            return isinstance(getattr(self, "family", None), dict)

    # Function from checked values to those of the family, if they differ.
    _prepared = None

    # ------------------------------------------------------------------------------------ fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: RowData,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Self:
        """Fit the model to all of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows; sparse where the class says so.
        y : array-like of shape (n_samples,), default=None
            With ``semi_supervised=True`` labels, as many different ones as components, or numbers
            of components; -1, None and NaN where unknown. Otherwise ignored. None: no label is
            known.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; a weight of 2 is equivalent to two equal rows. Weights below
            1e-100 count as 0; their sum must be above 0, and at most 1e100.
        """
        return self._fit(X, y, sample_weight=sample_weight, **where)

    def partial_fit(
        self,
        X: RowData,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Self:
        """Update the model with one batch of a stream.

        The first rows are kept, and the start is made anew from all of them as they come, see
        :ref:`stream_starts`; `n_rows_kept_` counts them. Parameters that were set since the last
        batch take effect with this one; those that shape the model cannot change.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A batch of any size. One of no rows changes nothing.
        """
        self._partial_fit(X, y, sample_weight=sample_weight, **where)
        return self

    # -------------------------------------------------------------------------------- inference

    def _evidence(self, X, *cut, **where):
        found = self._log_likelihoods(X, *cut, **where)
        return float(found.mean()) * len(found), len(found)

    def _log_likelihoods(self, X, *cut, **where):
        """Return log-likelihoods of the rows of which anything is observed."""
        seen = self._seen()
        reader = seen._input()
        reader.infers = True
        found, _ = seen._made("log_likelihood", X, *cut, reader=reader, **where)
        if not len(found):
            raise ValueError(f"{type(self).__name__}: X has nothing but NaN.")
        return found

    def score_samples(self, X: RowData, *cut: Cut, **where: Unpack[Where]) -> Floats:
        """Return the log-likelihood of each sample; of topic models, a lower bound of it.

        After `partial_fit` with ``solver="adaptive"`` it is that of the mixture of its models.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_samples,)
            In nats.
        """
        return self._infer("log_likelihood", X, *cut, **where)

    def score(self, X: RowData, y: object = None, **where: Unpack[Where]) -> float:
        """Return the mean log-likelihood of the samples in nats; higher is better.

        Parameters
        ----------
        y : object
            Ignored.

        Returns
        -------
        log_likelihood : float
        """
        return float(self._log_likelihoods(X, **where).mean())

    def _check_n_samples(self, n_samples):
        name = f"n_samples of {type(self).__name__}"
        check_count(name, n_samples)
        room(name, (int(n_samples), self.n_features_in_))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._handles_missing
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

"""Row-wise transformers for lists of sequences."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._typing import FloatsOrList, SequenceData
from sklearn_onlineem.estimators.fitted import FitTransformMixin, PersistentState
from sklearn_onlineem.estimators.parameters import are_same, fit_context, naming_calls
from sklearn_onlineem.estimators.sequence_forms import SequenceOutput, sequence_form
from sklearn_onlineem.estimators.validation import error_context


@naming_calls
class PerSequence(SequenceOutput, PersistentState, FitTransformMixin, BaseEstimator):
    """Apply a transformer of rows to sequences of rows.

    The transformer is fitted to the rows of all sequences together; sequences keep their lengths.

    Parameters
    ----------
    transformer : estimator with `fit` and `transform`
        Any transformer of rows, such as ``StandardScaler()`` or ``PCA(5)``. Its errors, and its
        results even if infinite or NaN, are passed on.

    Attributes
    ----------
    transformer_ : estimator
        The fitted clone of `transformer`.

    See Also
    --------
    GaussianHMM : Takes the transformed sequences.
    KalmanFilter : Takes the transformed sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_onlineem import GaussianHMM, PerSequence
    >>> rng = np.random.default_rng(0)
    >>> sequences = [rng.normal(scale=100.0, size=(length, 2)) for length in (10, 20, 30)]
    >>> model = make_pipeline(PerSequence(StandardScaler()), GaussianHMM(2, random_state=0))
    >>> [len(states) for states in model.fit(sequences).predict(sequences)]
    [10, 20, 30]
    """

    _parameter_constraints: dict = {"transformer": [HasMethods(["fit", "transform"])]}

    def __init__(self, transformer: object) -> None:
        self.transformer = transformer

    # The transformer validates its own parameters.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: SequenceData, y: object = None) -> Self:
        """Fit a clone of the transformer to all rows.

        Parameters
        ----------
        X : list of array-likes of shape (length, n_features), or array-like of 2 or 3 dimensions
            The sequences, in any form that hidden Markov models take.
        y : array-like, default=None
            A value for each row, in the forms of labels of hidden Markov models, for transformers
            that require targets, such as ``LinearDiscriminantAnalysis()``; others get none.
        """
        transformer = self._new_transformer()
        self.transformer_ = transformer.fit(*self._rows(transformer, X, y))
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: SequenceData, y: object = None) -> Self:
        """Update the transformer with the rows of further sequences.

        Raises
        ------
        TypeError
            If the transformer has no `partial_fit`.
        ValueError
            If X or the transformer is invalid, or it has changed since it was fitted. The fitted
            transformer is left unchanged.
        """
        transformer = self._new_transformer()
        if not hasattr(transformer, "partial_fit"):
            name = type(transformer).__name__
            raise TypeError(f"PerSequence: transformer has no partial_fit: {name} learns by fit.")
        if hasattr(self, "transformer_"):
            pair = self.transformer_, transformer
            before, after = ({"class": str(type(one)), **one.get_params()} for one in pair)
            for key, now in after.items():
                if not are_same(before.get(key), now):
                    raise ValueError(
                        f"{type(self).__name__} has fitted a transformer with"
                        f" {key}={before.get(key)!r}, but it is now {now!r}; call fit again."
                    )
            transformer = copy.deepcopy(self.transformer_)
        self.transformer_ = transformer.partial_fit(*self._rows(transformer, X, y))
        return self

    def _new_transformer(self):
        with error_context(self):
            return clone(self.transformer)

    def _form(self, X):
        with error_context(self):
            return sequence_form(X)

    def _rows(self, transformer, X, y):
        """Return the rows, and their targets if the transformer requires some."""
        form = self._form(X)
        if not (
            isinstance(transformer, BaseEstimator) and get_tags(transformer).target_tags.required
        ):
            return (form.X,)
        with error_context(self):
            if y is None:
                raise ValueError(f"{type(transformer).__name__} requires y, and got None.")
            return form.X, form.flat(y)

    def transform(self, X: SequenceData) -> FloatsOrList:
        """Transform each sequence.

        Returns
        -------
        transformed : list of ndarrays, or ndarray of shape (n_rows, n_features_out) for a 2-D X
        """
        check_is_fitted(self)
        form = self._form(X)
        return form.restored(self.transformer_.transform(form.X))

    def inverse_transform(self, X: SequenceData) -> FloatsOrList:
        """Undo the transformation of each sequence.

        Parameters
        ----------
        X : list of array-likes, or array-like
            Transformed sequences, as in `fit`.

        Returns
        -------
        X : list of ndarrays, or ndarray of shape (n_rows, n_features) for a 2-D X

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            If the transformer has no `inverse_transform`.
        ValueError
            If X is invalid.
        """
        check_is_fitted(self)
        form = self._form(X)
        if not hasattr(self.transformer_, "inverse_transform"):
            name = type(self.transformer_).__name__
            raise TypeError(f"PerSequence: transformer has no inverse_transform: {name}.")
        return form.restored(self.transformer_.inverse_transform(form.X))

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the outputs of the transformer.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input columns. None: those of the data, or x0, x1, ...

        Returns
        -------
        names : ndarray of str

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    @property
    def n_features_in_(self) -> int:
        """Number of features that the transformer was fitted to."""
        return self.transformer_.n_features_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        if isinstance(self.transformer, BaseEstimator):
            tags.input_tags.allow_nan = get_tags(self.transformer).input_tags.allow_nan
        return tags

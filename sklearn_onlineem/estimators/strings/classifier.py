"""The nearest words of a dictionary, by a learnt distance."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from numbers import Integral
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._checks import require
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.estimators.fitted import PersistentState
from sklearn_onlineem.estimators.parameters import fit_context, naming_calls
from sklearn_onlineem.estimators.strings._input import SymbolCodes, strings_of
from sklearn_onlineem.estimators.strings.edit_distance import EditDistance
from sklearn_onlineem.estimators.threads import threads_for
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.models.strings.dictionary import Dictionary


class Learnt(NamedTuple):
    """Fitted state, replaced in one assignment, so that readers see it whole."""

    edit_distance: EditDistance
    classes: np.ndarray
    known: Dictionary
    codes: dict


@naming_calls
class EditDistanceClassifier(PersistentState, ClassifierMixin, BaseEstimator):
    r"""Nearest word of a dictionary, by a stochastic edit distance.

    .. math:: \hat y(x) = \operatorname*{arg\,min}_{y \in dictionary} d(x, y) + \log p(y)

    With the probability :math:`p(y) = \sum_x p(x, y)` that the transducer itself gives a target,
    this is the noisy channel, :math:`-\log p(x \mid y)`: to the transducer words are random
    symbols, so that :math:`d(x, y)` alone prefers short words. Words are skipped if an upper bound
    of their probability shows that they are not among the nearest; results are exact.

    Parameters
    ----------
    edit_distance : EditDistance, default=None
        The distance. None: ``EditDistance()``.
    dictionary : iterable of strings or of sequences of hashables, default=None
        The words to choose from; an iterator has them for one fit. None: those in `y`.
    conditional : bool, default=True
        Whether to add :math:`\log p(y)` to the distance.
    prefit : bool, default=False
        Whether `edit_distance` is already fitted and used unchanged. Otherwise a clone of it learns
        from the pairs of X and y.

    Attributes
    ----------
    edit_distance_ : EditDistance
        The fitted distance.
    classes_ : ndarray of shape (n_words,)
        The dictionary without repetitions, in the order of first appearance.

    See Also
    --------
    EditDistance : The distance by itself.

    References
    ----------
    Ristad & Yianilos, "Learning string-edit distance", IEEE PAMI 1998, section 3.

    Examples
    --------
    >>> from sklearn_onlineem import EditDistanceClassifier
    >>> wrong = ["recieve", "adress", "teh", "wierd"] * 5
    >>> right = ["receive", "address", "the", "weird"] * 5
    >>> classifier = EditDistanceClassifier().fit(wrong, right)
    >>> classifier.predict(["addres", "thhe"])
    array(['address', 'the'], dtype=object)
    >>> distances, words = classifier.kneighbors(["weard"], n_neighbors=2)
    >>> classifier.classes_[words]
    array([['weird', 'the']], dtype=object)
    """

    _parameter_constraints: dict = {
        "edit_distance": [None, EditDistance],
        "dictionary": [None, "array-like", HasMethods(["__next__"])],
        "conditional": ["boolean"],
        "prefit": ["boolean"],
    }

    def __init__(
        self,
        edit_distance: EditDistance | None = None,
        *,
        dictionary: Iterable[object] | None = None,
        conditional: bool = True,
        prefit: bool = False,
    ) -> None:
        self.edit_distance = edit_distance
        self.dictionary = dictionary
        self.conditional = conditional
        self.prefit = prefit

    # The distance may be fitted already.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the distance from pairs, and set the dictionary.

        Parameters
        ----------
        X : list of strings or of sequences of hashables
            Misspelt words.
        y : list of strings or of sequences of hashables
            The correct word of each.
        sample_weight : array-like of shape (n_words,), default=None
            Weights of the pairs that the distance learns from, as in `fit` of `EditDistance`; not
            with ``prefit=True``. The dictionary has words of any weight.
        """
        with error_context(self):
            X, y = strings_of(X, "word {} of X"), strings_of(y, "word {} of y")
            _check_lengths(X, y)
            given = self.dictionary
            given = list(given) if hasattr(given, "__next__") else given
            words = y if given is None else strings_of(given, "word {} of dictionary")
            try:
                words = list(dict.fromkeys(words))
            except TypeError:
                raise ValueError("Symbols must be hashable.") from None
            if len(words) == 0:
                raise ValueError("dictionary is empty, as an iterator is after its first fit.")
            edit_distance = self.edit_distance
            if self.prefit:
                check_is_fitted(edit_distance)
                if sample_weight is not None:
                    raise ValueError("with prefit=True nothing is learnt by sample_weight.")
            else:
                unfitted = EditDistance() if edit_distance is None else clone(edit_distance)
                edit_distance = unfitted.fit(list(zip(X, y, strict=True)), None, sample_weight)
            seen = edit_distance._seen()
            codes = SymbolCodes(seen._codes)
            coded = codes.encode(words)
            n_symbols, best = len(codes.codes), seen._is_best(None)
            known = Dictionary(coded, n_symbols, seen.model_, best, self.conditional)
            classes = np.fromiter(words, dtype=object, count=len(words))
            self._fitted = Learnt(edit_distance, classes, known, codes.codes)
        return self

    def predict(self, X: object) -> NDArray[np.object_]:
        """Return the nearest word of the dictionary to each word.

        Returns
        -------
        words : ndarray of object of shape (n_words_of_X,)
            From `classes_`, the first if distances are equal.
        """
        _, indices, classes = self._nearest(X, 1)
        return classes[indices[:, 0]]

    def score(self, X: object, y: ArrayLike) -> float:
        """Return the share of the words of X whose nearest word is that of y.

        Returns
        -------
        accuracy : float
            Between 0 and 1.
        """
        found = self.predict(X)
        with error_context(self):
            y = strings_of(y, "word {} of y")
            _check_lengths(found, y)
        return float(np.mean([a == b for a, b in zip(found, y, strict=True)]))

    def kneighbors(self, X: object, n_neighbors: int = 5) -> tuple[Floats, Integers]:
        r"""Find the nearest words of the dictionary.

        Parameters
        ----------
        n_neighbors : int, default=5
            Number of words to return, at most the size of the dictionary.

        Returns
        -------
        distances : ndarray of shape (n_words_of_X, n_neighbors)
            In nats, in ascending order; of :math:`-\log p(x \mid y)` if `conditional`.
        indices : ndarray of shape (n_words_of_X, n_neighbors)
            Of words in `classes_`, the first if distances are equal.
        """
        return self._nearest(X, n_neighbors)[:2]

    def _nearest(self, X, n_neighbors):
        """Return distances and indices of the nearest words, and the dictionary."""
        check_is_fitted(self)
        fitted = self._fitted
        n_words = len(fitted.classes)
        is_valid = isinstance(n_neighbors, Integral) and 1 <= n_neighbors <= n_words
        name = f"n_neighbors of {type(self).__name__}"
        require(is_valid, name, f"an integer in 1..{n_words}", n_neighbors)
        with error_context(self):
            words = SymbolCodes(fitted.codes).encode(strings_of(X, "word {} of X"))
        threads = partial(threads_for, fitted.edit_distance.n_jobs)
        found = [fitted.known.nearest(words[[i]], n_neighbors, threads) for i in range(len(words))]
        shape = (len(words), n_neighbors)
        distances = np.array([distances for distances, _ in found]).reshape(shape)
        indices = np.array([indices for _, indices in found], dtype=np.intp).reshape(shape)
        return distances, indices, fitted.classes

    # ------------------------------------------------------------------------------ fitted values

    def __sklearn_is_fitted__(self):
        return "_fitted" in vars(self)

    @property
    def edit_distance_(self) -> EditDistance:
        return self._fitted.edit_distance

    @property
    def classes_(self) -> NDArray[np.object_]:
        return self._fitted.classes

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _check_lengths(X, y):
    sizes = len(X), len(y)
    require(sizes[0] == sizes[1] > 0, "X and y", "of equal lengths above 0", sizes)

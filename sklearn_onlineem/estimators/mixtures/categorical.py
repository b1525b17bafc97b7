"""Mixtures of symbols: latent class analysis."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._columns import NominalColumns
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.fitted import exposed
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.parameters import COUNT, estimator, parameter
from sklearn_onlineem.families import Categorical
from sklearn_onlineem.families.categorical import tables_of
from sklearn_onlineem.models.mixtures.mixture import MixtureModel


def _probabilities(mixture):
    """Return the probabilities of each column; model parts have them side by side."""
    model = mixture.model_
    return list(map(partial(exposed, mixture), model.family.probabilities(model.parameters)))


@estimator
class CategoricalMixture(NominalColumns, BaseMixture):
    r"""Mixture of products of categorical distributions: latent class analysis.

    .. math:: p(x) = \sum_k w_k \prod_j p_{kj, x_j}

    Columns are codes 0, 1, ..., or texts and categories of data frames, which the first data
    number, as `fit` does codes from 1 up; columns may have different numbers of categories. `bic`
    counts the free probabilities.

    Parameters
    ----------
    n_categories : int or array-like of shape (n_features,), default=None
        Number of categories of all columns, or of each. None: the declared categories of a data
        frame, the texts of the first data, or the codes there from 0, in `fit` from the least one,
        to the largest, which must then be below 4096 or the number of rows.
    min_probability : float, default=1e-10
        Floor of the probabilities, from 1e-100 to 1. Zeros of components that `params` fixes stay
        zero.

    Attributes
    ----------
    probabilities_ : list of ndarray of shape (n_components, n_categories)
        Probabilities of the categories of each column; rows add up to 1.
    categories_ : list of ndarray
        What the codes of each column stand for.
    means_ : ndarray of shape (n_components, n_features)
        Means of the codes.

    See Also
    --------
    Mixture : Columns of several kinds, by ``family={...}``.
    CategoricalHMM : Symbols that follow each other in time.
    BernoulliMixture : Bits.

    References
    ----------
    .. [1] Goodman, "Exploratory latent structure analysis using both identifiable and
       unidentifiable models", Biometrika 1974.

    Examples
    --------
    >>> from sklearn_onlineem import CategoricalMixture
    >>> X = [["red", "yes"], ["red", "yes"], ["blue", "no"], ["green", "no"]]
    >>> mixture = CategoricalMixture(2, prior=None, random_state=0).fit(X)
    >>> [categories.tolist() for categories in mixture.categories_]
    [['blue', 'green', 'red'], ['no', 'yes']]
    >>> mixture.probabilities_[1][mixture.predict([["red", "yes"]])].round(3)
    array([[0., 1.]])
    """

    n_categories: int | ArrayLike | None = parameter(
        default=None, valid=[None, COUNT, "array-like"],
        structural=True,
    )  # fmt: skip
    min_probability: float = parameter(
        default=1e-10, valid=[Interval(Real, 1e-100, 1.0, closed="both")], structural=True
    )

    _takes = frozenset({"positive"})

    def _given_family(self, known):
        return Categorical(self.n_categories, self.min_probability)

    def _features_of(self, sizes, given):
        return len(tables_of(given["probabilities_"])) if "probabilities_" in given else None

    def _blank(self, sizes, n_features, given):
        numbers = [1] * n_features
        if "probabilities_" in given:
            numbers = [table.shape[1] for table in tables_of(given["probabilities_"])]
        told = self._given_family({}).n_categories
        if "probabilities_" in given and told is not None:
            told = [told] * n_features if isinstance(told, Integral) else [*told]
            if told != numbers:
                raise ValueError(f"probabilities_ has {numbers} categories, n_categories {told}.")
        same = len(set(numbers)) == 1
        family = Categorical(numbers[0] if same else tuple(numbers), self.min_probability)
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        parameters = np.repeat(1.0 / np.array(numbers), numbers)
        parameters = np.tile(parameters, (self.n_components, 1))
        return MixtureModel(family, uniform, parameters, self._fixed())

    means_ = replace(BaseMixture.means_, can_be_set=False)

    probabilities_ = Settable[list[Floats]](read=_probabilities)

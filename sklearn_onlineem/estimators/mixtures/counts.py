"""Mixtures of counts, words and bits, dense or CSR."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.preprocessing import binarize

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.parameters import estimator, parameter
from sklearn_onlineem.families import Bernoulli, Multinomial, Poisson


@estimator
class PoissonMixture(BaseMixture):
    """Mixture of products of Poisson distributions, learnt online or in batch.

    Takes dense arrays and CSR, which is never made dense. Counts may be fractions, such as tf-idf,
    but not negative: factorials are continued by the gamma function. Scores then compare models
    only on the same data.

    Attributes
    ----------
    rates_ : ndarray of shape (n_components, n_features)
        Expected counts.

    See Also
    --------
    MultinomialMixture : Counts of words, given the length of the row.
    PoissonHMM : Counts that follow each other in time.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.poisson(2, (500, 1)), rng.poisson(20, (500, 1))])
    >>> mixture = PoissonMixture(2, random_state=0).fit(X)
    >>> np.sort(mixture.rates_.ravel()).round()
    array([ 2., 20.])
    """

    _takes = frozenset({"sparse", "positive"})

    def _family(self):
        return Poisson()

    rates_ = Settable[Floats]("means")


@estimator
class MultinomialMixture(BaseMixture):
    """Mixture of multinomials: clusters of documents, learnt online or in batch.

    Documents may have any length; their lengths are not modelled. Takes dense arrays and CSR, which
    is never made dense. Counts may be fractions, such as tf-idf, but not negative: factorials are
    continued by the gamma function. Scores then compare models only on the same data.

    Attributes
    ----------
    probabilities_ : ndarray of shape (n_components, n_features)
        Probabilities of the words; rows add up to 1.
    means_ : ndarray of shape (n_components, n_features)
        Expected counts: probabilities times each component's mean document length.

    See Also
    --------
    CompoundDirichletMixture : The same for bursty words.
    LatentDirichletAllocation : Several topics in each document.
    MultinomialHMM : Counts that follow each other in time.

    References
    ----------
    .. [1] Brochu, de Freitas & Bao, "Owed to a Martingale: A Fast Bayesian On-Line EM Algorithm
       for Multinomial Models", 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import MultinomialMixture
    >>> X = np.array([[8, 2, 0], [9, 1, 0], [0, 1, 4], [0, 2, 8]])
    >>> labels = MultinomialMixture(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _takes = frozenset({"sparse", "positive"})

    def _family(self):
        return Multinomial()

    means_ = replace(BaseMixture.means_, parts="lengths probabilities")

    probabilities_ = Settable[Floats]()


@estimator
class BernoulliMixture(BaseMixture):
    r"""Mixture of products of Bernoulli distributions: clusters of bit vectors.

    With ``binarize=None`` values between 0 and 1 are expected bits, and their log-likelihood is the
    expectation :math:`\sum_j x_j \log p_j + (1 - x_j) \log (1 - p_j)`. Scores then compare models
    only on the same data.

    Parameters
    ----------
    binarize : float or None, default=0.0
        Values above are 1, others 0, as in :class:`sklearn.naive_bayes.BernoulliNB`, so that
        fractions above 0 are ones by default. None: the data are between 0 and 1 already.

    Attributes
    ----------
    probabilities_ : ndarray of shape (n_components, n_features)
        Probabilities of a one.

    See Also
    --------
    MultinomialMixture : Counts of words, instead of whether they occur.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import BernoulliMixture
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [0, 0, 1, 1]])
    >>> labels = BernoulliMixture(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    binarize: float | None = parameter(default=0.0, valid=[None, Real])

    _takes = frozenset({"sparse"})

    def _family(self):
        return Bernoulli()

    def _prepared(self, X):
        if self.binarize is None:
            return X
        if sparse.issparse(X):
            return binarize(X, threshold=self.binarize)
        return np.where(np.isnan(X), X, X > self.binarize).astype(X.dtype)

    probabilities_ = Settable[Floats]("means")

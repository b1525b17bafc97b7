"""Hidden Markov models of counts: Poisson, and multinomial, which are counts of categories."""

from __future__ import annotations

from sklearn_onlineem._checks import finite
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.hidden_markov._base import BaseHMM, EmissionProbabilities
from sklearn_onlineem.estimators.hidden_markov._start import start_probabilities
from sklearn_onlineem.estimators.parameters import NOT_NEGATIVE, estimator, parameter
from sklearn_onlineem.families import Multinomial, Poisson
from sklearn_onlineem.statistics import Sums


@estimator
class PoissonHMM(BaseHMM):
    """Hidden Markov model of Poisson counts: like hmmlearn's, with `partial_fit`.

    Counts may be fractions, but not negative: factorials are continued by the gamma function.
    Scores then compare models only on the same data.

    Parameters
    ----------
    lambdas_init : array-like of shape (n_components, n_features), default=None
        Rates to start from.
    lambdas_prior, lambdas_weight : float, default=0.0
        Gamma prior of the rates: counts and rows that are added to those of each state. (In
        hmmlearn 0.3 the rows of all states count against the prior of each.)

    Attributes
    ----------
    lambdas_ : ndarray of shape (n_components, n_features)
        Rates: expected counts.

    See Also
    --------
    HMM : Formulas, and what the parameters mean.
    PoissonMixture : The same for rows without order.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonHMM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(np.repeat([[2], [30], [2]], 200, axis=0))
    >>> hmm = PoissonHMM(2, random_state=0).fit(X)
    >>> np.sort(hmm.lambdas_.ravel()).round()
    array([ 2., 30.])
    """

    lambdas_init: object = parameter(default=None, valid=[None, "array-like"])
    lambdas_prior: float = parameter(default=0.0, valid=[NOT_NEGATIVE])
    lambdas_weight: float = parameter(default=0.0, valid=[NOT_NEGATIVE])

    _whole = ("emissions", "le")

    _takes = frozenset({"positive", "missing"})

    def _family(self):
        return Poisson()

    def _emission_prior(self, family, n_features):
        if self.lambdas_prior == self.lambdas_weight == 0.0:
            return super()._emission_prior(family, n_features)
        shape = (self.n_components, n_features)
        weight = finite("lambdas_weight", self.lambdas_weight, shape[:1])
        return Sums(weight.copy(), finite("lambdas_prior", self.lambdas_prior, shape).copy())

    lambdas_ = Settable[Floats]()


@estimator
class MultinomialHMM(EmissionProbabilities, BaseHMM):
    """Hidden Markov model of counts of categories: like hmmlearn's, with `partial_fit`.

    A row has the counts of the categories; totals may differ, and are not modelled. Counts may be
    fractions, but not negative: factorials are continued by the gamma function. Scores then compare
    models only on the same data.

    Attributes
    ----------
    emissionprob_ : ndarray of shape (n_components, n_features)
        Probabilities of the categories, those that are learnt at least 1e-12.

    See Also
    --------
    HMM : Formulas, and what the parameters mean.
    MultinomialMixture : The same for rows without order.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import MultinomialHMM
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.multinomial(20, p, 50) for p in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8])])
    >>> np.flatnonzero(np.diff(MultinomialHMM(2, random_state=0).fit_predict(X)))
    array([49])
    """

    _takes = frozenset({"positive"})

    def _family(self):
        return Multinomial()

    emissionprob_ = Settable[Floats](masks="kd", start=start_probabilities)

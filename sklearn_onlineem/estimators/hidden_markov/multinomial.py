"""Hidden Markov models of counts of several kinds."""

from __future__ import annotations

from numbers import Real

from sklearn.utils._param_validation import Interval

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.hidden_markov._base import BaseHMM
from sklearn_onlineem.estimators.hidden_markov._start import dirichlet_prior, start_probabilities
from sklearn_onlineem.estimators.parameters import estimator, parameter
from sklearn_onlineem.families import Multinomial


@estimator
class MultinomialHMM(BaseHMM):
    """Hidden Markov model of counts of categories: like hmmlearn's, with `partial_fit`.

    A row has the counts of the categories; totals may differ, and are not modelled. Counts may be
    fractions, but not negative: factorials are continued by the gamma function. Scores then compare
    models only on the same data.

    Parameters
    ----------
    emissionprob_init : array-like of shape (n_components, n_features), default=None
        Probabilities to start from. Zeros that `params` fixes stay zero.
    emissionprob_prior : float or array-like of shape (n_components, n_features), default=None
        Concentration of the Dirichlet prior of the probabilities. None: 1, no prior.

    Attributes
    ----------
    emissionprob_ : ndarray of shape (n_components, n_features)
        Probabilities of the categories, those that are learnt at least 1e-12.

    See Also
    --------
    HMM : Formulas, and what the parameters mean.
    MultinomialMixture : The same for rows without order.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import MultinomialHMM
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.multinomial(20, p, 50) for p in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8])])
    >>> np.flatnonzero(np.diff(MultinomialHMM(2, random_state=0).fit_predict(X)))
    array([49])
    """

    emissionprob_init: object = parameter(default=None, valid=[None, "array-like"])
    emissionprob_prior: object = parameter(
        default=None, valid=[None, Interval(Real, 0, None, closed="neither"), "array-like"]
    )

    _takes_positive_only = True

    def _family(self):
        return Multinomial()

    def _emission_prior(self, family, n_features):
        if self.emissionprob_prior is None:
            return super()._emission_prior(family, n_features)
        return dirichlet_prior(self.emissionprob_prior, family, self.n_components, n_features)

    emissionprob_ = Settable[Floats](masks="kd", start=start_probabilities)

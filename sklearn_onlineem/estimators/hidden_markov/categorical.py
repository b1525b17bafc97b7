"""Hidden Markov models of symbols."""

from __future__ import annotations

import numpy as np
from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.em.solvers import Solver, solvers_for
from sklearn_onlineem.estimators._columns import NominalColumns
from sklearn_onlineem.estimators._known import Settable, learnt_parts
from sklearn_onlineem.estimators.hidden_markov._base import BaseHMM, EmissionProbabilities
from sklearn_onlineem.estimators.hidden_markov._start import start_probabilities
from sklearn_onlineem.estimators.parameters import COUNT, estimator, parameter
from sklearn_onlineem.families import Categorical
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel


@estimator
class CategoricalHMM(NominalColumns, EmissionProbabilities, BaseHMM):
    """Hidden Markov model of symbols: like hmmlearn's, with `partial_fit`.

    X has a column of codes 0, 1, ..., or of letters, texts or categories, which the first data
    number, as `fit` does codes from 1 up; further columns are independent given the state. Entries
    of a list may also be texts, or arrays of one dimension, which are sequences of symbols.

    Parameters
    ----------
    n_features : int, default=None
        Number of symbols, with codes from 0. None: that of `emissionprob_init`, and without it
        the texts or declared categories of the first data, or as many as there are codes from 0, in
        `fit` from the least one, to the largest.

    Attributes
    ----------
    emissionprob_ : ndarray of shape (n_components, n_features)
        Probabilities of the symbols, those that are learnt at least 1e-10.
    categories_ : list of ndarray
        What the codes of each column stand for.

    See Also
    --------
    HMM : Formulas, and what the parameters mean.
    MarkovChainMixture : Clusters of sequences of symbols.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import CategoricalHMM
    >>> X = np.array([[0, 1] * 20 + [2, 2] * 20 + [1, 0] * 20]).T
    >>> slow = [[0.9, 0.1], [0.1, 0.9]]
    >>> hmm = CategoricalHMM(2, transmat_init=slow, random_state=0).fit(X)
    >>> np.flatnonzero(np.diff(hmm.predict(X)))
    array([39, 79])
    >>> CategoricalHMM(random_state=0).fit(["GATTACA", "CAT"]).categories_[0].tolist()
    ['A', 'C', 'G', 'T']
    """

    solver: str | Solver = parameter(
        default="auto", valid=[StrOptions(solvers_for(HiddenMarkovModel)), Solver]
    )
    n_features: int | None = parameter(default=None, valid=[None, COUNT], structural=True)

    _takes = frozenset({"positive", "missing", "symbols"})

    def _given_family(self, known):
        if self.n_features is not None or "n_features_in_" not in known:
            return Categorical(self.n_features)
        n_columns = known["n_features_in_"]
        if n_columns > 1 and isinstance(learnt_parts(self)["emissionprob"], np.ndarray):
            raise ValueError("params with masks of several columns needs n_features.")
        if self.emissionprob_init is None:
            return Categorical()
        # The first data may lack the last symbol.
        n_columns *= self.n_components
        return Categorical(max(1, np.size(self.emissionprob_init) // n_columns))

    def _features_of(self, sizes, given):
        if "s" not in sizes:
            return None
        n_features, rest = divmod(sizes["s"], self.n_features or sizes["s"])
        if rest or not n_features:
            raise ValueError(
                f"emissionprob_ has {sizes['s']} columns, not a multiple of"
                f" n_features={self.n_features}."
            )
        return n_features

    def _known_family(self, sizes):
        return Categorical(self.n_features or sizes.get("s", 1))

    def _standard(self, family, n_components, n_features):
        shape = n_components, n_features * family.n_categories
        return np.full(shape, 1.0 / family.n_categories)

    emissionprob_ = Settable[Floats](masks="ks", start=start_probabilities)

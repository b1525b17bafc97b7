"""Hidden Markov models of symbols."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import Interval

from sklearn_onlineem.estimators._hmm import BaseHMM
from sklearn_onlineem.estimators._probabilities import checked_probabilities, dirichlet_prior
from sklearn_onlineem.families import Categorical

__all__ = ["CategoricalHMM"]


class CategoricalHMM(BaseHMM):
    r"""Hidden Markov model of symbols: hmmlearn's, with `partial_fit`.

    X has a column of codes 0, 1, ...; further columns are independent given the state.

    Parameters
    ----------
    n_components : int, default=1
        Number of hidden states.
    n_features : int, default=None
        Number of symbols. None: as many as `emissionprob_init` has, and without it one more than
        the largest code in the first data.
    emissionprob_init : array-like of shape (n_components, n_features), default=None
        Probabilities to start from.
    emissionprob_prior : float or array-like of shape (n_components, n_features), default=None
        Concentration of the Dirichlet prior of the probabilities. None: no prior, as 1.
    termination, absorbing_states, params, startprob_init, transmat_init, startprob_prior
    transmat_prior, prior, init, algorithm, solver, eta0, beta, schedule, batch_size
    online_passes, max_iter, tol, stopping, n_init, warm_start, random_state, n_jobs, verbose
    verbose_interval, callbacks
        As in :class:`HMM`.

    Attributes
    ----------
    emissionprob_ : ndarray of shape (n_components, n_features)
        Probabilities of the symbols; one that a state never saw has 1e-10.
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    endprob_ : ndarray of shape (n_components,)
        With silent ends only.
    converged_ : bool
    n_iter_ : int
        Passes of the last `fit`.
    n_steps_ : int
        Updates so far.
    n_samples_seen_ : int
        Sequences so far.
    history_ : sequence of (eta, log_likelihood, kl_divergence)
        The latest updates; log-likelihoods are from before each update.
    model_ : HiddenMarkovModel
        The fitted model, a frozen value.

    See Also
    --------
    HMM : Formulas, and what the parameters mean.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import CategoricalHMM
    >>> X = np.array([[0, 1] * 20 + [2, 2] * 20 + [1, 0] * 20]).T
    >>> slow = [[0.9, 0.1], [0.1, 0.9]]
    >>> hmm = CategoricalHMM(2, transmat_init=slow, random_state=0).fit(X)
    >>> np.flatnonzero(np.diff(hmm.predict(X)))
    array([39, 79])
    """

    _parameter_constraints: dict = {
        **BaseHMM._parameter_constraints,
        "n_features": [None, Interval(Integral, 1, None, closed="left")],
        "emissionprob_init": [None, "array-like"],
        "emissionprob_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
    }

    def __init__(
        self,
        n_components=1,
        *,
        n_features=None,
        emissionprob_init=None,
        emissionprob_prior=None,
        termination="given_length",
        absorbing_states=None,
        params="ste",
        startprob_init=None,
        transmat_init=None,
        startprob_prior=None,
        transmat_prior=None,
        prior=None,
        init="k-means",
        algorithm="viterbi",
        solver="online",
        eta0="auto",
        beta=0.6,
        schedule="power",
        batch_size=10,
        online_passes=1,
        max_iter=100,
        tol=1e-2,
        stopping="likelihood",
        n_init=1,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        verbose_interval=10,
        callbacks=None,
    ):
        super().__init__(
            n_components,
            termination=termination,
            absorbing_states=absorbing_states,
            params=params,
            startprob_init=startprob_init,
            transmat_init=transmat_init,
            startprob_prior=startprob_prior,
            transmat_prior=transmat_prior,
            prior=prior,
            init=init,
            algorithm=algorithm,
            solver=solver,
            eta0=eta0,
            beta=beta,
            schedule=schedule,
            batch_size=batch_size,
            online_passes=online_passes,
            max_iter=max_iter,
            tol=tol,
            stopping=stopping,
            n_init=n_init,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            verbose_interval=verbose_interval,
            callbacks=callbacks,
        )
        self.n_features = n_features
        self.emissionprob_init = emissionprob_init
        self.emissionprob_prior = emissionprob_prior

    def _family(self):
        return Categorical(self.n_features)

    def _bound_family(self, rows):
        if self.n_features is not None or self.emissionprob_init is None:
            return super()._bound_family(rows)
        # The first data may lack the last symbol.
        n_columns = self.n_components * self.n_features_in_
        return Categorical(max(1, np.size(self.emissionprob_init) // n_columns))

    def _given_emissions(self, family, rows):
        if self.emissionprob_init is None:
            return None
        shape = (self.n_components, self.n_features_in_ * family.n_categories)
        given = checked_probabilities(self, shape)
        family.check(rows.X)
        return family.regularise(given)

    def _emission_prior(self, family):
        if self.emissionprob_prior is None:
            return super()._emission_prior(family)
        return dirichlet_prior(self, family)

    @property
    def emissionprob_(self):
        """Probabilities of the symbols, an ndarray of shape (n_components, n_features)."""
        return self._exposed(self.model_.parameters)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

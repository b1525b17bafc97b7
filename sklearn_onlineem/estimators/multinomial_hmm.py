"""Hidden Markov models of counts of several kinds."""

from __future__ import annotations

from numbers import Real

from sklearn.utils._param_validation import Interval

from sklearn_onlineem.estimators._hmm import BaseHMM
from sklearn_onlineem.estimators._probabilities import checked_probabilities, dirichlet_prior
from sklearn_onlineem.families import Multinomial

__all__ = ["MultinomialHMM"]


class MultinomialHMM(BaseHMM):
    r"""Hidden Markov model of counts of categories: hmmlearn's, with `partial_fit`.

    A row holds how often each category occurred; totals may differ, and are not modelled.

    Parameters
    ----------
    n_components : int, default=1
        Number of hidden states.
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
        Probabilities of the categories.
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
    >>> from sklearn_onlineem import MultinomialHMM
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.multinomial(20, p, 50) for p in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8])])
    >>> np.flatnonzero(np.diff(MultinomialHMM(2, random_state=0).fit_predict(X)))
    array([49])
    """

    _parameter_constraints: dict = {
        **BaseHMM._parameter_constraints,
        "emissionprob_init": [None, "array-like"],
        "emissionprob_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
    }

    def __init__(
        self,
        n_components=1,
        *,
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
        self.emissionprob_init = emissionprob_init
        self.emissionprob_prior = emissionprob_prior

    def _family(self):
        return Multinomial()

    def _given_emissions(self, family, rows):
        if self.emissionprob_init is None:
            return None
        given = checked_probabilities(self, (self.n_components, self.n_features_in_))
        # Totals are not modelled, but the inertia of a state depends on them.
        return family.regularise(given * rows.X.sum(axis=1).mean())

    def _emission_prior(self, family):
        if self.emissionprob_prior is None:
            return super()._emission_prior(family)
        return dirichlet_prior(self, family)

    @property
    def emissionprob_(self):
        """Probabilities of the categories, an ndarray of shape (n_components, n_features)."""
        model = self.model_
        return self._exposed(model.family.probabilities(model.parameters))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

"""Hidden Markov models of counts."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval

from sklearn_onlineem.estimators._hmm import BaseHMM
from sklearn_onlineem.families import Poisson
from sklearn_onlineem.statistics import Sums

__all__ = ["PoissonHMM"]


class PoissonHMM(BaseHMM):
    r"""Hidden Markov model of Poisson counts: hmmlearn's, with `partial_fit`.

    Parameters
    ----------
    n_components : int, default=1
        Number of hidden states.
    lambdas_init : array-like of shape (n_components, n_features), default=None
        Rates to start from.
    lambdas_prior, lambdas_weight : float, default=0.0
        Gamma prior of the rates: counts and rows that are added to those of each state. (hmmlearn
        0.3 weighs the prior of each state against the rows of all.)
    termination, absorbing_states, params, startprob_init, transmat_init, startprob_prior
    transmat_prior, prior, init, algorithm, solver, eta0, beta, schedule, batch_size
    online_passes, max_iter, tol, stopping, n_init, warm_start, random_state, n_jobs, verbose
    verbose_interval, callbacks
        As in :class:`HMM`, and "l" among `params` stands for the emissions too.

    Attributes
    ----------
    lambdas_ : ndarray of shape (n_components, n_features)
        Rates: expected counts.
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
    >>> from sklearn_onlineem import PoissonHMM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(np.repeat([[2], [30], [2]], 200, axis=0))
    >>> hmm = PoissonHMM(2, random_state=0).fit(X)
    >>> np.sort(hmm.lambdas_.ravel()).round()
    array([ 2., 30.])
    """

    _emission_letters = "el"

    _parameter_constraints: dict = {
        **BaseHMM._parameter_constraints,
        "lambdas_init": [None, "array-like"],
        "lambdas_prior": [Interval(Real, 0, None, closed="left")],
        "lambdas_weight": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components=1,
        *,
        lambdas_init=None,
        lambdas_prior=0.0,
        lambdas_weight=0.0,
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
        self.lambdas_init = lambdas_init
        self.lambdas_prior = lambdas_prior
        self.lambdas_weight = lambdas_weight

    def _family(self):
        return Poisson()

    def _given_emissions(self, family, rows):
        if self.lambdas_init is None:
            return None
        shape = (self.n_components, self.n_features_in_)
        given = self._checked_start("lambdas_init", self.lambdas_init, shape)
        if given.min() < 0:
            raise ValueError(f"lambdas_init of {type(self).__name__} must not be negative.")
        return family.regularise(given)

    def _emission_prior(self, family):
        if self.lambdas_prior == self.lambdas_weight == 0.0:
            return super()._emission_prior(family)
        total = np.full((self.n_components, self.n_features_in_), float(self.lambdas_prior))
        return Sums(np.full(self.n_components, float(self.lambdas_weight)), total)

    @property
    def lambdas_(self):
        """Rates of the states, an ndarray of shape (n_components, n_features)."""
        return self._exposed(self.model_.parameters)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

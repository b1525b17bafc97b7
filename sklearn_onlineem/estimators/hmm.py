"""Hidden Markov models over any family."""

from __future__ import annotations

from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem.estimators._hmm import BaseHMM
from sklearn_onlineem.estimators.mixture import FAMILIES
from sklearn_onlineem.families import Family

__all__ = ["HMM"]


class HMM(BaseHMM):
    r"""Hidden Markov model whose states emit rows of any family, also of your own.

    .. math:: p(v, h) = \pi_{h_1} p(v_1 \mid h_1) \prod_{t > 1} a_{h_{t-1} h_t} p(v_t \mid h_t)

    Each step minimises the EM bound of a batch of sequences plus 1/eta times the joint KL
    divergence to the old model. With expected starts g, moves X and emission sums F of the batch
    (averages per sequence), and the usages u of the states under the old model,

    .. math::
        \tilde\pi_h &= \frac{\pi_h / \eta + g_h}{1 / \eta + 1}, \qquad
        \tilde a_{hh'} = \frac{u^{tr}_h a_{hh'} / \eta + X_{hh'}}
        {u^{tr}_h / \eta + \sum_{h''} X_{hh''}} \\
        \tilde\mu_h &= \frac{u^{em}_h \mu_h / \eta + F_h}{u^{em}_h / \eta + E_h}

    Parameters
    ----------
    n_components : int, default=1
        Number of hidden states.
    family : str or Family, default="gaussian_diag"
        "gaussian_full", "gaussian_tied", "gaussian_diag", "gaussian_spherical", "poisson",
        "multinomial", "bernoulli", "categorical", "exponential", "gamma", "laplace", "wishart", or
        an instance of a :class:`~sklearn_onlineem.families.Family`.
    termination : {"given_length", "end_state", "absorbing_states"}, default="given_length"
        What ends a sequence. "given_length": its length is given, not modelled. The others model
        lengths: "end_state": after its last row a sequence moves to a silent end state, with the
        probabilities `endprob_`; "absorbing_states": it ends at its first visit to one of
        `absorbing_states`, which emits the last row.
    absorbing_states : array-like of int, default=None
        States that are never left. Where lengths are given they continue to emit.
    params : str, default="ste"
        Which of start (s), transitions (t) and emissions (e) are learnt.
    startprob_init : array-like of shape (n_components,), default=None
        Start probabilities to begin with. Zeros stay zero. None: all the same.
    transmat_init : array-like of shape (n_components, n_components), default=None
        Transition probabilities to begin with. Zeros stay zero, so left-to-right and banded models
        are made here. With silent ends, rows may add up to less than 1, or have a further column.
        None: all the same.
    startprob_prior, transmat_prior : float or array-like, default=None
        Concentration of the Dirichlet priors on the start and on the rows of the transitions.
        None: no prior, as 1.
    prior : dict, default=None
        Hyper-parameters of the family's conjugate prior, the arguments of its `prior_statistics`.
        None: maximum likelihood.
    init : str or array-like, default="k-means"
        Where emissions start: "k-means", "k-means++", "random" (responsibilities),
        "random_from_data" (rows as centres), or centres of shape (n_components, n_features).
    algorithm : {"viterbi", "map"}, default="viterbi"
        What `predict` and `decode` return: most probable paths, or most probable states.
    solver : {"online", "batch"}, default="online"
        What `fit` does. "online": `online_passes` in mini-batches of sequences, which come most of
        the way, then batch EM (Baum-Welch) until `tol`; "batch": batch EM only.
    eta0 : float or "auto", default="auto"
        First learning rate, above 0. "auto" fits it to the size of the batches: it is
        (b / m)**(1 - beta) for batches of b sequences, where m sequences have as many rows as the
        emissions have parameters per feature and ``schedule="power"``; m pseudo-counts where it is
        "bayesian", and 1 for the others.
    beta : float, default=0.6
        Decay of the learning rate, in [0, 1]; the forgetting factor where
        ``schedule="forgetting"``.
    schedule : str or callable, default="power"
        "power": ``eta0 / t**beta``; "harmonic": ``1 / (t - 1 + 1 / eta0)``; "constant":
        ``eta0``; "forgetting": batches that are k steps old weigh ``beta**k``; "bayesian":
        pseudo-counts and the sequences seen weigh the old model; or any callable t -> eta.
    batch_size : int, default=10
        Sequences in a mini-batch of `fit`. No more sequences are fitted by batch EM.
    online_passes : int, default=1
        Shuffled passes in mini-batches, before batch EM settles the rest.
    max_iter : int, default=100
        Most passes over the data, of both kinds.
    tol : float, default=1e-2
        Passes end when `stopping` falls below, in nats per sequence.
    stopping : {"likelihood", "kl"}, default="likelihood"
        What is compared with `tol`: the change of the mean log-likelihood, or the KL divergence
        between the models before and after a pass.
    n_init : int, default=1
        Number of starts; the best result is kept.
    warm_start : bool, default=False
        Whether `fit` goes on from the fitted model.
    random_state : int, RandomState instance or None, default=None
    n_jobs : int, default=None
        Number of threads; None uses all. Results do not depend on it.
    verbose : int, default=0
    verbose_interval : int, default=10
        Passes between messages.
    callbacks : list of callables, default=None
        Each is called after every update with (eta, log_likelihood, kl_divergence); a true value
        ends the fit.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    endprob_ : ndarray of shape (n_components,)
        With silent ends only.
    parameters_ : object
        The family's parameters of all states.
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

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 5.
    .. [2] Rabiner, "A tutorial on hidden Markov models and selected applications in speech
       recognition", Proc. IEEE 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import HMM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(np.repeat([[1.0], [50.0]] * 10, 100, axis=0))
    >>> states = HMM(2, family="exponential", random_state=0).fit(X).predict(X)
    >>> changes = np.flatnonzero(np.diff(states))
    >>> bool(abs(len(changes) - 19) <= 2)
    True
    """

    _model_parameters = (*BaseHMM._model_parameters, "family")
    _parameter_constraints: dict = {
        **BaseHMM._parameter_constraints,
        "family": [StrOptions(set(FAMILIES)), Family],
    }

    def __init__(
        self,
        n_components=1,
        *,
        family="gaussian_diag",
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
        self.family = family

    def _family(self):
        return FAMILIES[self.family]() if isinstance(self.family, str) else self.family

    @property
    def parameters_(self):
        """The family's parameters of all states."""
        return self.model_.parameters

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Others can miss whole rows only.
        family = FAMILIES.get(self.family) if isinstance(self.family, str) else self.family
        tags.input_tags.allow_nan = getattr(family, "handles_missing", False)
        return tags

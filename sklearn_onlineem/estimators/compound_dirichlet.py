"""Bursty counts: words that, once used in a document, are used again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.em import STOPPING_RULES, Batch
from sklearn_onlineem.estimators._compound import BurstyCounts
from sklearn_onlineem.estimators._mixture import BaseMixture
from sklearn_onlineem.estimators._row_model import RowModel
from sklearn_onlineem.models import MixtureModel

__all__ = ["CompoundDirichlet", "CompoundDirichletMixture"]


class CompoundDirichlet(BurstyCounts, OneToOneFeatureMixin, RowModel):
    r"""Compound Dirichlet (Dirichlet-multinomial, Polya) counts, learnt online or in batch.

    .. math:: h \sim \mathrm{Dir}(\alpha), \quad v \mid h \sim \mathrm{Mult}(L, h)

    Each document has proportions h of its own. Lengths L are given, not modelled. Takes dense
    arrays and CSR; `transform` returns a dense array.

    Parameters
    ----------
    solver : {"online", "batch", "newton"}, default="online"
        What `fit` does. "online": `online_passes` in mini-batches, which come most of the way, then
        batch EM until `tol`; "batch": batch EM only; "newton": Newton's method on the
        likelihood itself, which needs a few iterations where EM needs hundreds. Both walk the
        documents once, to count them, however many iterations there are.
    inertia : {"exact", "sampled"}, default="exact"
        What holds online steps back. Given the proportions, words know nothing of alpha, so that
        the divergence between two models is that of their Dirichlets and has a closed form:
        "exact". "sampled" takes `n_pseudo_samples` documents drawn from the current model instead,
        with the lengths of the batch. It keeps up with "exact" in the first epoch and then stalls:
        with a fixed number of documents its noise does not average out as learning rates decay. It
        is there for comparison.
    n_pseudo_samples : int, default=2000
        Documents drawn in a step where ``inertia="sampled"``.
    eta0, beta, schedule, batch_size, online_passes, max_iter, tol, stopping
    warm_start, random_state, n_jobs, verbose, verbose_interval, callbacks
        As in :class:`PoissonMixture`.
    prior : dict, default=None
        ``pseudo_count`` further documents whose proportions come from a Dirichlet distribution with
        all parameters equal to ``concentration``. None: maximum likelihood.
    alpha_init : array-like of shape (n_features,), default=None
        Where to start. None: mean proportions, times the precision that the data's moments give.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_features,)
        Its sum is the precision: the smaller, the burstier. That of a word that never occurs falls
        from pass to pass, and with ``solver="newton"`` to 1e-10 at once.
    converged_ : bool
    n_iter_ : int
        Passes of the last `fit`.
    n_steps_ : int
        Updates so far.
    n_samples_seen_ : int
    history_ : sequence of (eta, log_likelihood, kl_divergence)
        The latest updates; log-likelihoods are from before each update.
    model_ : MixtureModel
        The fitted model, a frozen value.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 6, whose inertia is not in closed form.
    .. [2] Minka, "Estimating a Dirichlet distribution", 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import CompoundDirichlet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.multinomial(50, rng.dirichlet([0.5, 1.0, 2.5], size=5000))
    >>> CompoundDirichlet(random_state=0).fit(X).alpha_.round(1)
    array([0.5, 1. , 2.5])
    """

    _parameter_constraints: dict = {
        **RowModel._parameter_constraints,
        **BurstyCounts._constraints,
        "solver": [StrOptions({"online", "batch", "newton"})],
        "prior": [None, dict],
    }

    # There is but one component, of which nothing distinguishes it from others.
    n_components = n_init = 1
    weights_init = means_init = weight_concentration_prior = None

    def __init__(
        self,
        *,
        solver="online",
        inertia="exact",
        n_pseudo_samples=2000,
        alpha_init=None,
        eta0="auto",
        beta=0.6,
        schedule="power",
        batch_size=1000,
        online_passes=1,
        max_iter=100,
        tol=1e-3,
        stopping="likelihood",
        prior=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        verbose_interval=10,
        callbacks=None,
    ):
        self.solver = solver
        self.inertia = inertia
        self.n_pseudo_samples = n_pseudo_samples
        self.alpha_init = alpha_init
        self.eta0 = eta0
        self.beta = beta
        self.schedule = schedule
        self.batch_size = batch_size
        self.online_passes = online_passes
        self.max_iter = max_iter
        self.tol = tol
        self.stopping = stopping
        self.prior = prior
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.callbacks = callbacks

    def _start(self, data, random_state, prior=None):
        given = self._given_start(data)
        if given is not None:
            return given
        family = self._family()
        return MixtureModel(family, np.ones(1), family.of_moments(data))

    def _start_prior(self, data):
        return None

    def _passes(self, training, data, rng):
        if self.solver != "newton":
            yield from super()._passes(training, data, rng)
        if training.prior is not None:
            raise ValueError("solver='newton' maximises the likelihood, and takes no prior.")
        settled = STOPPING_RULES[self.stopping](self.tol)
        while True:
            log_likelihood, is_last = self._newton_pass(training, data)
            divergence = training.progress.step.kl_divergence
            yield log_likelihood, settled(log_likelihood, divergence) or is_last

    def _newton_pass(self, training, data):
        model = training.progress.model
        new, log_likelihood, is_last = model.family.likelihood_step(model.parameters, data)
        new_model = replace(model, parameters=new)
        training.advance(new_model, Batch()(1), log_likelihood, data, data.total_weight)
        return log_likelihood, is_last

    @property
    def alpha_(self):
        """Parameters of the Dirichlet distribution, an ndarray of shape (n_features,)."""
        return self._exposed(self.model_.parameters.alpha[0])

    def transform(self, X):
        """Return the posterior mean proportions, (v + alpha) / (L + alpha_0), a dense array.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proportions : ndarray of shape (n_samples, n_features)
            Rows add up to 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        check_is_fitted(self)
        data, model = self._observe(X, None, None, reset=False), self.model_
        return model.family.posterior_mean(model.parameters, data.X)

    def sample(self, n_samples=1, lengths=None):
        """Draw documents.

        Parameters
        ----------
        n_samples : int, default=1
        lengths : int or array-like of shape (n_samples,), default=None
            Words in each. None: the mean length of the data, rounded.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_samples` is below 1, or `lengths` are no whole numbers from 0 up.
        """
        return self._sampled(n_samples, lengths)[0]


class CompoundDirichletMixture(BurstyCounts, BaseMixture):
    r"""Mixture of compound Dirichlets: clusters of bursty documents, learnt online or in batch.

    .. math::
        p(v \mid L) = \sum_k w_k \frac{L! \, \Gamma(\alpha_{k0})}{\Gamma(\alpha_{k0} + L)}
        \prod_j \frac{\Gamma(\alpha_{kj} + v_j)}{v_j! \, \Gamma(\alpha_{kj})}

    The first use of a word tells more than the next ones, unlike in :class:`MultinomialMixture`.
    Documents may have any length; their lengths are not modelled. Takes dense arrays and CSR, which
    is never made dense.

    Parameters
    ----------
    n_components : int, default=1
    solver : {"online", "batch"}, default="online"
        What `fit` does. "online": `online_passes` in mini-batches, which come most of the way, then
        batch EM until `tol`; "batch": batch EM only.
    inertia : {"exact", "sampled"}, default="exact"
        What holds online steps back. Given the proportions, words know nothing of alpha, so that
        the divergence between two models is that of their Dirichlets and has a closed form:
        "exact". "sampled" takes `n_pseudo_samples` documents drawn from the current model instead,
        with the lengths of the batch. It keeps up with "exact" in the first epoch and then stalls:
        with a fixed number of documents its noise does not average out as learning rates decay. It
        is there for comparison.
    n_pseudo_samples : int, default=2000
        Documents drawn in a step where ``inertia="sampled"``.
    eta0, beta, schedule, batch_size, online_passes, max_iter, tol, stopping, n_init, init
    weights_init, means_init, weight_concentration_prior, warm_start, random_state, n_jobs
    verbose, verbose_interval, callbacks
        As in :class:`PoissonMixture`.
    prior : dict, default=None
        ``pseudo_count`` further documents whose proportions come from a Dirichlet distribution with
        all parameters equal to ``concentration``. None: maximum likelihood.
    alpha_init : array-like of shape (n_components, n_features), default=None
        Where to start. None: mean proportions of the components of `init`, times the precisions
        that their moments give.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_components, n_features)
        Sums of rows are precisions: the smaller, the burstier.
    means_ : ndarray of shape (n_components, n_features)
        Expected counts: mean proportions times each component's mean document length.
    weights_ : ndarray of shape (n_components,)
    converged_ : bool
    n_iter_ : int
        Passes of the last `fit`.
    n_steps_ : int
        Updates so far.
    n_samples_seen_ : int
    history_ : sequence of (eta, log_likelihood, kl_divergence)
        The latest updates; log-likelihoods are from before each update.
    model_ : MixtureModel
        The fitted model, a frozen value.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 6, whose inertia is not in closed form.
    .. [2] Minka, "Estimating a Dirichlet distribution", 2000.
    .. [3] Madsen, Kauchak & Elkan, "Modeling word burstiness using the Dirichlet distribution",
       ICML 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import CompoundDirichletMixture
    >>> X = np.array([[8, 2, 0], [9, 1, 0], [0, 1, 4], [0, 2, 8]])
    >>> labels = CompoundDirichletMixture(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _parameter_constraints: dict = {
        **BaseMixture._parameter_constraints,
        **BurstyCounts._constraints,
    }

    def __init__(
        self,
        n_components=1,
        *,
        solver="online",
        inertia="exact",
        n_pseudo_samples=2000,
        alpha_init=None,
        eta0="auto",
        beta=0.6,
        schedule="power",
        batch_size=1000,
        online_passes=1,
        max_iter=100,
        tol=1e-3,
        stopping="likelihood",
        n_init=1,
        init="k-means",
        weights_init=None,
        means_init=None,
        weight_concentration_prior=None,
        prior=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        verbose_interval=10,
        callbacks=None,
    ):
        super().__init__(
            n_components,
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
            init=init,
            weights_init=weights_init,
            means_init=means_init,
            weight_concentration_prior=weight_concentration_prior,
            prior=prior,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            verbose_interval=verbose_interval,
            callbacks=callbacks,
        )
        self.inertia = inertia
        self.n_pseudo_samples = n_pseudo_samples
        self.alpha_init = alpha_init

    @property
    def alpha_(self):
        """Parameters of the Dirichlet distributions, an ndarray (n_components, n_features)."""
        return self._exposed(self.model_.parameters.alpha)

    def sample(self, n_samples=1, lengths=None):
        """Draw documents from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
        lengths : int or array-like of shape (n_samples,), default=None
            Words in each. None: the mean length of its component, rounded.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
            The component of each row.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_samples` is below 1, or `lengths` are no whole numbers from 0 up.
        """
        return self._sampled(n_samples, lengths)

"""Mixtures of counts, words and bits, dense or CSR."""

from __future__ import annotations

from numbers import Real

from sklearn.preprocessing import binarize

from sklearn_onlineem.estimators._mixture import BaseMixture
from sklearn_onlineem.estimators._positive import PositiveMixture
from sklearn_onlineem.families import Bernoulli, Multinomial, Poisson

__all__ = ["BernoulliMixture", "MultinomialMixture", "PoissonMixture"]


class PoissonMixture(PositiveMixture):
    r"""Mixture of products of Poisson distributions, learnt online or in batch.

    Takes dense arrays and CSR, which is never made dense.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    solver : {"online", "batch"}, default="online"
        What `fit` does. "online": `online_passes` in mini-batches, which come most of the way, then
        batch EM until `tol`; "batch": batch EM only.
    eta0 : float or "auto", default="auto"
        First learning rate, above 0. "auto" fits it to the size of the batches: it is
        (b / m)**(1 - beta) for batches of b rows and a model of m parameters per feature, where
        ``schedule="power"``; m pseudo-counts where it is "bayesian", and 1 for the others.
    beta : float, default=0.6
        Decay of the learning rate, in [0, 1]; the forgetting factor where
        ``schedule="forgetting"``.
    schedule : str or callable, default="power"
        "power": ``eta0 / t**beta``; "harmonic": ``1 / (t - 1 + 1 / eta0)``; "constant":
        ``eta0``; "forgetting": batches that are k steps old weigh ``beta**k``; "bayesian": the
        pseudo-counts of the prior and the rows seen weigh the old model; or any callable t -> eta.
    batch_size : int, default=1000
        Rows in a mini-batch of `fit`. Data of no more rows are fitted by batch EM.
    online_passes : int, default=1
        Shuffled passes in mini-batches, before batch EM settles the rest.
    max_iter : int, default=100
        Most passes over the data, of both kinds.
    tol : float, default=1e-3
        Passes end when `stopping` falls below, in nats per row.
    stopping : {"likelihood", "kl"}, default="likelihood"
        What is compared with `tol`: the change of the mean log-likelihood, or the KL divergence
        between the models before and after a pass.
    n_init : int, default=1
        Number of starts; the best result is kept.
    init : str or array-like, default="k-means"
        "k-means", "k-means++", "random" (responsibilities), "random_from_data" (rows as centres),
        centres of shape (n_components, n_features), or responsibilities of shape
        (n_samples, n_components).
    weights_init : array-like of shape (n_components,), default=None
        Weights to start from.
    means_init : array-like of shape (n_components, n_features), default=None
        Means to start from.
    weight_concentration_prior : float, default=None
        Concentration of a symmetric Dirichlet prior on the weights. None: no prior.
    prior : dict, default=None
        Hyper-parameters of the family's conjugate prior, the arguments of its `prior_statistics`.
        None: maximum likelihood.
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
    rates_ : ndarray of shape (n_components, n_features)
        Expected counts.
    means_ : ndarray of shape (n_components, n_features)
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
       Variable Models", UAI 2020, section 4.
    .. [2] Cappe & Moulines, "On-line expectation-maximization algorithm for latent data models",
       JRSS-B 2009.

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

    _sparse_ok = True

    def _family(self):
        return Poisson()

    @property
    def rates_(self):
        """Rates of the components, an ndarray of shape (n_components, n_features)."""
        return self.means_


class MultinomialMixture(PositiveMixture):
    r"""Mixture of multinomials: clusters of documents, learnt online or in batch.

    Documents may have any length; their lengths are not modelled. Takes dense arrays and CSR, which
    is never made dense.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    solver : {"online", "batch"}, default="online"
        What `fit` does. "online": `online_passes` in mini-batches, which come most of the way, then
        batch EM until `tol`; "batch": batch EM only.
    eta0 : float or "auto", default="auto"
        First learning rate, above 0. "auto" fits it to the size of the batches: it is
        (b / m)**(1 - beta) for batches of b rows and a model of m parameters per feature, where
        ``schedule="power"``; m pseudo-counts where it is "bayesian", and 1 for the others.
    beta : float, default=0.6
        Decay of the learning rate, in [0, 1]; the forgetting factor where
        ``schedule="forgetting"``.
    schedule : str or callable, default="power"
        "power": ``eta0 / t**beta``; "harmonic": ``1 / (t - 1 + 1 / eta0)``; "constant":
        ``eta0``; "forgetting": batches that are k steps old weigh ``beta**k``; "bayesian": the
        pseudo-counts of the prior and the rows seen weigh the old model; or any callable t -> eta.
    batch_size : int, default=1000
        Rows in a mini-batch of `fit`. Data of no more rows are fitted by batch EM.
    online_passes : int, default=1
        Shuffled passes in mini-batches, before batch EM settles the rest.
    max_iter : int, default=100
        Most passes over the data, of both kinds.
    tol : float, default=1e-3
        Passes end when `stopping` falls below, in nats per row.
    stopping : {"likelihood", "kl"}, default="likelihood"
        What is compared with `tol`: the change of the mean log-likelihood, or the KL divergence
        between the models before and after a pass.
    n_init : int, default=1
        Number of starts; the best result is kept.
    init : str or array-like, default="k-means"
        "k-means", "k-means++", "random" (responsibilities), "random_from_data" (rows as centres),
        centres of shape (n_components, n_features), or responsibilities of shape
        (n_samples, n_components).
    weights_init : array-like of shape (n_components,), default=None
        Weights to start from.
    means_init : array-like of shape (n_components, n_features), default=None
        Means to start from.
    weight_concentration_prior : float, default=None
        Concentration of a symmetric Dirichlet prior on the weights. None: no prior.
    prior : dict, default=None
        Hyper-parameters of the family's conjugate prior, the arguments of its `prior_statistics`.
        None: maximum likelihood.
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
    probabilities_ : ndarray of shape (n_components, n_features)
        Probabilities of the words; rows add up to 1.
    means_ : ndarray of shape (n_components, n_features)
        Expected counts: probabilities times each component's mean document length.
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
    .. [1] Brochu, de Freitas & Bao, "Owed to a Martingale: A Fast Bayesian On-Line EM Algorithm
       for Multinomial Models", 2004.
    .. [2] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import MultinomialMixture
    >>> X = np.array([[8, 2, 0], [9, 1, 0], [0, 1, 4], [0, 2, 8]])
    >>> labels = MultinomialMixture(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _sparse_ok = True

    def _family(self):
        return Multinomial()

    @property
    def probabilities_(self):
        """Probabilities of the words, an ndarray of shape (n_components, n_features)."""
        model = self.model_
        return self._exposed(model.family.probabilities(model.parameters))


class BernoulliMixture(BaseMixture):
    r"""Mixture of products of Bernoulli distributions: clusters of bit vectors.

    Parameters
    ----------
    n_components : int, default=1
    binarize : float or None, default=0.0
        Values above are 1, others 0, as in :class:`sklearn.naive_bayes.BernoulliNB`. None: the
        data are between 0 and 1 already.
    solver, eta0, beta, schedule, batch_size, online_passes, max_iter, tol, stopping, n_init
    init, weights_init, means_init, weight_concentration_prior, prior, warm_start
    random_state, n_jobs, verbose, verbose_interval, callbacks
        As in :class:`PoissonMixture`; `prior` takes ``alpha`` and ``beta`` of a beta distribution.

    Attributes
    ----------
    probabilities_ : ndarray of shape (n_components, n_features)
        Probabilities of a one.
    means_ : ndarray of shape (n_components, n_features)
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
       Variable Models", UAI 2020, section 4.
    .. [2] Cappe & Moulines, "On-line expectation-maximization algorithm for latent data models",
       JRSS-B 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import BernoulliMixture
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [0, 0, 1, 1]])
    >>> labels = BernoulliMixture(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _sparse_ok = True

    _parameter_constraints: dict = {**BaseMixture._parameter_constraints, "binarize": [None, Real]}

    def __init__(
        self,
        n_components=1,
        *,
        binarize=0.0,
        solver="online",
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
        self.binarize = binarize

    def _family(self):
        return Bernoulli()

    def _prepared(self, X):
        return X if self.binarize is None else binarize(X, threshold=self.binarize)

    @property
    def probabilities_(self):
        """Probabilities of a one, an ndarray of shape (n_components, n_features)."""
        return self.means_

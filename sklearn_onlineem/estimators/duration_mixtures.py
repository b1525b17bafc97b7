"""Mixtures of positive numbers: waiting times, amounts."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval

from sklearn_onlineem.estimators._mixture import BaseMixture
from sklearn_onlineem.estimators._positive import PositiveMixture
from sklearn_onlineem.estimators._warnings import warn_user
from sklearn_onlineem.families import Exponential, FixedShapeGamma, Gamma

__all__ = ["ExponentialMixture", "GammaMixture"]


class ExponentialMixture(PositiveMixture):
    r"""Mixture of products of exponential distributions, learnt online or in batch.

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
        Inverse means.
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
    >>> from sklearn_onlineem import ExponentialMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.exponential(1, (500, 2)), rng.exponential(50, (500, 2))])
    >>> mixture = ExponentialMixture(2, random_state=0).fit(X)
    >>> np.sort(mixture.means_[:, 0]).round()
    array([ 1., 51.])
    """

    def _family(self):
        return Exponential()

    @property
    def rates_(self):
        """Rates of the components, an ndarray of shape (n_components, n_features)."""
        return 1.0 / self.means_


class GammaMixture(PositiveMixture):
    r"""Mixture of products of gamma distributions, their shapes learnt or given.

    Parameters
    ----------
    n_components : int, default=1
    shape : float, default=None
        Shape of all variables. None: learnt, one for each component and feature.
    zero_value : float or None, default=1e-6
        What an exact 0, at which gamma densities are 0 or infinite, is taken to be (with a
        warning). None: zeros are an error.
    solver, eta0, beta, schedule, batch_size, online_passes, max_iter, tol, stopping, n_init
    init, weights_init, means_init, weight_concentration_prior, prior, warm_start
    random_state, n_jobs, verbose, verbose_interval, callbacks
        As in :class:`PoissonMixture`; `prior` takes ``pseudo_count``, ``mean_log`` and ``mean``, or
        with a given shape ``shape`` and ``rate`` of a gamma distribution.

    Attributes
    ----------
    shapes_, rates_ : ndarray of shape (n_components, n_features)
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
    >>> from sklearn_onlineem import GammaMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.gamma(5, 1, (2000, 1)), rng.gamma(50, 1, (2000, 1))])
    >>> mixture = GammaMixture(2, random_state=0).fit(X)
    >>> np.sort(mixture.means_.ravel()).round()
    array([ 5., 50.])
    """

    _model_parameters = (*BaseMixture._model_parameters, "shape")
    _parameter_constraints: dict = {
        **BaseMixture._parameter_constraints,
        "shape": [None, Interval(Real, 0, None, closed="neither")],
        "zero_value": [None, Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components=1,
        *,
        shape=None,
        zero_value=1e-6,
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
        self.shape = shape
        self.zero_value = zero_value

    def _family(self):
        return Gamma() if self.shape is None else FixedShapeGamma(self.shape)

    def _prepared(self, X):
        zeros = X == 0
        if self.zero_value is None or not zeros.any():
            return X
        warn_user(f"{type(self).__name__}: {zeros.sum()} zeros are taken to be {self.zero_value}.")
        return np.where(zeros, X.dtype.type(self.zero_value), X)

    @property
    def shapes_(self):
        """Shapes, an ndarray of shape (n_components, n_features)."""
        return self._exposed(self._shapes_and_rates()[0])

    @property
    def rates_(self):
        """Rates, an ndarray of shape (n_components, n_features)."""
        return self._exposed(self._shapes_and_rates()[1])

    def _shapes_and_rates(self):
        model = self.model_
        return model.family.shapes_and_rates(model.parameters)

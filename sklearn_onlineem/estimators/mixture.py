"""Mixtures of any family."""

from __future__ import annotations

from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem.estimators._mixture import BaseMixture
from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    CompoundDirichlet,
    DiagonalGaussian,
    Exponential,
    Family,
    FullGaussian,
    Gamma,
    Laplace,
    Multinomial,
    Poisson,
    SphericalGaussian,
    TiedGaussian,
    Wishart,
)

__all__ = ["Mixture"]

FAMILIES = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "compound_dirichlet": CompoundDirichlet,
    "exponential": Exponential,
    "gamma": Gamma,
    "gaussian_diag": DiagonalGaussian,
    "gaussian_full": FullGaussian,
    "gaussian_spherical": SphericalGaussian,
    "gaussian_tied": TiedGaussian,
    "laplace": Laplace,
    "multinomial": Multinomial,
    "poisson": Poisson,
    "wishart": Wishart,
}


class Mixture(BaseMixture):
    r"""Mixture of any family of distributions, also of your own.

    Parameters
    ----------
    n_components : int, default=1
    family : str or Family, default="gaussian_full"
        "gaussian_full", "gaussian_tied", "gaussian_diag", "gaussian_spherical", "poisson",
        "multinomial", "compound_dirichlet", "bernoulli", "categorical", "exponential", "gamma",
        "laplace", "wishart", or an instance of a :class:`~sklearn_onlineem.families.Family`.
    solver, eta0, beta, schedule, batch_size, online_passes, max_iter, tol, stopping, n_init
    init, weights_init, means_init, weight_concentration_prior, prior, warm_start
    random_state, n_jobs, verbose, verbose_interval, callbacks
        As in :class:`PoissonMixture`; `prior` takes the arguments of the family's
        `prior_statistics`.

    Attributes
    ----------
    parameters_ : object
        The family's parameters of all components.
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
    >>> from sklearn_onlineem import Mixture
    >>> from sklearn_onlineem.families import Categorical
    >>> X = np.array([[0, 1], [0, 1], [2, 0], [2, 0]])
    >>> labels = Mixture(2, family=Categorical(n_categories=3), random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _model_parameters = (*BaseMixture._model_parameters, "family")
    _parameter_constraints: dict = {
        **BaseMixture._parameter_constraints,
        "family": [StrOptions(set(FAMILIES)), Family],
    }

    def __init__(
        self,
        n_components=1,
        *,
        family="gaussian_full",
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
        self.family = family

    def _family(self):
        return FAMILIES[self.family]() if isinstance(self.family, str) else self.family

    @property
    def parameters_(self):
        """The family's parameters of all components."""
        return self.model_.parameters

"""Gaussian mixtures that learn from streams."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.estimators._mixture import BaseMixture
from sklearn_onlineem.families import (
    DiagonalGaussian,
    FullGaussian,
    SphericalGaussian,
    TiedGaussian,
)
from sklearn_onlineem.models import MixtureModel

__all__ = ["GaussianMixture"]

FAMILIES = {
    "full": FullGaussian,
    "tied": TiedGaussian,
    "diag": DiagonalGaussian,
    "spherical": SphericalGaussian,
}


class GaussianMixture(BaseMixture):
    r"""Gaussian mixture, learnt online or in batch: scikit-learn's, with `partial_fit`.

    Each step minimises the EM bound of a batch plus 1/eta times the joint KL divergence to the
    old model, which for each component is

    .. math::
        \tilde m &= \frac{a m + \sum_n g_n x_n}{a + g}, \qquad
        a = w/\eta, \; g = \textstyle\sum_n g_n \\
        \tilde S &= \frac{a (S + (m - \tilde m)(m - \tilde m)')
        + \sum_n g_n (x_n - \tilde m)(x_n - \tilde m)'}{a + g}

    with responsibilities :math:`g_n` that add up to 1 over components and rows.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
    reg_covar : float or "relative", default="relative"
        What each M-step adds to the variances. A number is taken as it is, as in scikit-learn
        (whose default is 1e-6); "relative" is 1e-6 times the variance of each feature in the first
        data.
    precisions_init : array-like, default=None
        Precisions to start from, shaped like `precisions_`.
    init_params : str, default=None
        scikit-learn's name for `init`; if given, it wins.
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
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Of shape (n_components, n_features, n_features) full, (n_features, n_features) tied,
        (n_components, n_features) diagonal or (n_components,) spherical.
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
    lower_bound_ : float
        Mean log-likelihood of the last pass.
    lower_bounds_ : list of float

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 4.
    .. [2] Cappe & Moulines, "On-line expectation-maximization algorithm for latent data models",
       JRSS-B 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> mixture = GaussianMixture(2, random_state=0)
    >>> for _ in range(50):
    ...     X = rng.normal(loc=rng.choice([-5.0, 5.0], size=(100, 1)))
    ...     mixture = mixture.partial_fit(X)
    >>> np.sort(mixture.means_.ravel()).round()
    array([-5.,  5.])
    """

    _model_parameters = (*BaseMixture._model_parameters, "covariance_type", "reg_covar")
    _parameter_constraints: dict = {
        **BaseMixture._parameter_constraints,
        "covariance_type": [StrOptions(set(FAMILIES))],
        "reg_covar": [StrOptions({"relative"}), Interval(Real, 0, None, closed="left")],
        "precisions_init": [None, "array-like"],
        "init_params": [None, StrOptions({"kmeans", "k-means++", "random", "random_from_data"})],
    }

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        reg_covar="relative",
        precisions_init=None,
        init_params=None,
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
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.precisions_init = precisions_init
        self.init_params = init_params

    def _family(self):
        reg_covar = None if self.reg_covar == "relative" else self.reg_covar
        return FAMILIES[self.covariance_type](reg_covar=reg_covar)

    @property
    def _init(self):
        return self.init if self.init_params is None else self.init_params

    def _start_parameters(self):
        return ["means_init", "precisions_init"]

    def _given_start(self, data):
        if self.means_init is None or self.precisions_init is None:
            return None
        family = self._family().bind(data.X, data.sample_weight)
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        somewhere = np.zeros((self.n_components, self.n_features_in_))
        covariance = self._covariances_of(self.precisions_init, self.n_features_in_)
        parameters = family.gaussians(somewhere, covariance)
        return super()._with_given(MixtureModel(family, uniform, parameters))

    def _with_given(self, model):
        if self.precisions_init is not None:
            covariance = self._covariances_of(self.precisions_init, self.n_features_in_)
            parameters = model.family.gaussians(model.parameters.mean, covariance)
            model = MixtureModel(model.family, model.weights, parameters)
        return super()._with_given(model)

    def _covariances_of(self, precisions, d):
        """Invert the given precisions, into the shape that the family stores."""
        shape = {
            "full": (self.n_components, d, d),
            "tied": (d, d),
            "diag": (self.n_components, d),
            "spherical": (self.n_components,),
        }[self.covariance_type]
        precisions = self._checked_start("precisions_init", precisions, shape)
        if self.covariance_type in ("diag", "spherical"):
            self._require(bool((precisions > 0).all()))
            return (1.0 / precisions).reshape(self.n_components, -1)
        matrices = precisions.reshape(-1, d, d)
        self._require(np.allclose(matrices, matrices.transpose(0, 2, 1)))
        self._require(bool((np.linalg.eigvalsh(matrices) > 0).all()))
        return np.linalg.inv(matrices)

    def _require(self, valid):
        if not valid:
            raise ValueError(
                f"precisions_init of {type(self).__name__} must be symmetric and positive definite."
            )

    # ----------------------------------------------------------------------------- fitted values

    def _in_shape(self, values):
        """Drop the axes of length 1 along which something is shared."""
        family = self.model_.family
        if isinstance(family, TiedGaussian):
            values = values[0]
        elif isinstance(family, SphericalGaussian):
            values = values[:, 0]
        return self._exposed(values)

    @property
    def covariances_(self):
        """Covariances of the components."""
        return self._in_shape(self.model_.parameters.covariance)

    @property
    def precisions_(self):
        """Inverse covariances of the components."""
        return self._in_shape(self.model_.parameters.precision)

    @property
    def precisions_cholesky_(self):
        """Upper triangular factors P of the precisions, P P' = precision."""
        return self._in_shape(self.model_.parameters.precision_factor)

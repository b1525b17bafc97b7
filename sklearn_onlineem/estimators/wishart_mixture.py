"""Mixtures of matrices."""

from __future__ import annotations

from numbers import Real

from sklearn.utils._param_validation import Interval

from sklearn_onlineem.estimators._mixture import BaseMixture
from sklearn_onlineem.families import FixedDegreesWishart, Wishart

__all__ = ["WishartMixture"]


class WishartMixture(BaseMixture):
    r"""Mixture of Wishart distributions: clusters of covariance matrices.

    Each row of the data is a symmetric positive-definite matrix, flattened.

    Parameters
    ----------
    n_components : int, default=1
    degrees_of_freedom : float, default=None
        Of all components. None: learnt, one for each.
    solver, eta0, beta, schedule, batch_size, online_passes, max_iter, tol, stopping, n_init
    init, weights_init, means_init, weight_concentration_prior, prior, warm_start
    random_state, n_jobs, verbose, verbose_interval, callbacks
        As in :class:`PoissonMixture`; `prior` takes ``pseudo_count``, ``mean_log_det`` and
        ``mean``, or with given degrees of freedom ``degrees`` and ``inverse_scale`` of a Wishart
        distribution.

    Attributes
    ----------
    degrees_of_freedom_ : ndarray of shape (n_components,)
    scales_ : ndarray of shape (n_components, side, side)
        Scale matrices; degrees of freedom times scale is the mean.
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
    >>> from sklearn_onlineem import WishartMixture
    >>> rng = np.random.default_rng(0)
    >>> roots = rng.normal(size=(400, 2, 10)) * np.repeat([1.0, 5.0], 200)[:, None, None]
    >>> X = (roots @ roots.transpose(0, 2, 1)).reshape(400, 4)
    >>> mixture = WishartMixture(2, random_state=0).fit(X)
    >>> mixture.degrees_of_freedom_.round(-1)
    array([10., 10.])
    """

    _model_parameters = (*BaseMixture._model_parameters, "degrees_of_freedom")
    _parameter_constraints: dict = {
        **BaseMixture._parameter_constraints,
        "degrees_of_freedom": [None, Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components=1,
        *,
        degrees_of_freedom=None,
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
        self.degrees_of_freedom = degrees_of_freedom

    def _family(self):
        if self.degrees_of_freedom is None:
            return Wishart()
        return FixedDegreesWishart(self.degrees_of_freedom)

    @property
    def degrees_of_freedom_(self):
        """Degrees of freedom, an ndarray of shape (n_components,)."""
        return self._exposed(self._degrees_and_scales()[0])

    @property
    def scales_(self):
        """Scale matrices, an ndarray of shape (n_components, side, side)."""
        return self._exposed(self._degrees_and_scales()[1])

    def _degrees_and_scales(self):
        model = self.model_
        return model.family.degrees_and_scales(model.parameters)

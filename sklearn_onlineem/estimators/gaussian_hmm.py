"""Gaussian hidden Markov models."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.estimators._hmm import BaseHMM
from sklearn_onlineem.estimators.gaussian_mixture import FAMILIES
from sklearn_onlineem.families._checks import finite, positive_semidefinite

__all__ = ["GaussianHMM"]


class GaussianHMM(BaseHMM):
    r"""Hidden Markov model with Gaussian emissions: hmmlearn's, with `partial_fit`.

    NaN stands for what was not observed, be it a row or single values, and is marginalised.

    Parameters
    ----------
    n_components : int, default=1
        Number of hidden states.
    covariance_type : {"diag", "full", "tied", "spherical"}, default="diag"
    reg_covar : float or "relative", default="relative"
        What each M-step adds to the variances; "relative" is 1e-6 times the variance of each
        feature in the first data.
    means_init : array-like of shape (n_components, n_features), default=None
        Means to start from.
    covars_init : array-like, default=None
        Covariances to start from: of shape (n_components, n_features) diagonal, (n_components,
        n_features, n_features) full, (n_features, n_features) tied or (n_components,) spherical.
    means_prior : array-like broadcasting to (n_components, n_features), default=0.0
        Mean of the normal prior of the means.
    means_weight : float, default=0.0
        Its precision, in pseudo-rows; 0: no prior.
    covars_prior : float or array-like of shape (n_features, n_features), default=None
        Scale of the prior of the covariances: what is added to the sums of squares, on the
        diagonal if it is a number. None: nothing.
    covars_weight : float, default=1.0
        Its weight. As in hmmlearn, what exceeds 1 (diagonal and spherical) or n_features (full and
        tied) is added to the numbers of rows that the sums are divided by.
    termination, absorbing_states, params, startprob_init, transmat_init, startprob_prior
    transmat_prior, prior, init, algorithm, solver, eta0, beta, schedule, batch_size
    online_passes, max_iter, tol, stopping, n_init, warm_start, random_state, n_jobs, verbose
    verbose_interval, callbacks
        As in :class:`HMM`; among `params`, "m" stands for the means and "c" for the covariances.

    Attributes
    ----------
    means_ : ndarray of shape (n_components, n_features)
    covars_ : ndarray of shape (n_components, n_features, n_features)
        Covariance matrices, whatever `covariance_type` is, as in hmmlearn.
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
    >>> from sklearn_onlineem import GaussianHMM
    >>> rng = np.random.default_rng(0)
    >>> hmm = GaussianHMM(2, random_state=0)
    >>> for _ in range(20):
    ...     sequence = rng.normal(np.repeat([[-5.0], [5.0]], 30, axis=0))
    ...     hmm = hmm.partial_fit([sequence])
    >>> np.sort(hmm.means_.ravel()).round()
    array([-5.,  5.])
    """

    _emission_letters = "emc"

    _model_parameters = (*BaseHMM._model_parameters, "covariance_type", "reg_covar")
    _parameter_constraints: dict = {
        **BaseHMM._parameter_constraints,
        "covariance_type": [StrOptions(set(FAMILIES))],
        "reg_covar": [StrOptions({"relative"}), Interval(Real, 0, None, closed="left")],
        "means_init": [None, "array-like"],
        "covars_init": [None, "array-like"],
        "means_prior": [Real, "array-like"],
        "means_weight": [Interval(Real, 0, None, closed="left")],
        "covars_prior": [None, Interval(Real, 0, None, closed="left"), "array-like"],
        "covars_weight": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="diag",
        reg_covar="relative",
        means_init=None,
        covars_init=None,
        means_prior=0.0,
        means_weight=0.0,
        covars_prior=None,
        covars_weight=1.0,
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
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.means_init = means_init
        self.covars_init = covars_init
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight

    def _family(self):
        reg_covar = None if self.reg_covar == "relative" else float(self.reg_covar)
        return FAMILIES[self.covariance_type](
            reg_covar=reg_covar,
            learns_means=not {"e", "m"}.isdisjoint(self.params),
            learns_covariances=not {"e", "c"}.isdisjoint(self.params),
        )

    def _given_emissions(self, family, rows):
        if self.means_init is None or self.covars_init is None:
            return None
        return family.gaussians(self._given_means(), self._given_covars(family))

    def _with_given_emissions(self, family, parameters):
        if self.means_init is not None:
            parameters = family.gaussians(self._given_means(), parameters.covariance)
        if self.covars_init is not None:
            parameters = family.gaussians(parameters.mean, self._given_covars(family))
        return parameters

    def _given_means(self):
        shape = (self.n_components, self.n_features_in_)
        return self._checked_start("means_init", self.means_init, shape)

    def _given_covars(self, family):
        """`covars_init` in the shape of the family, which has further axes of length 1."""
        n_features = self.n_features_in_
        matrices = np.broadcast_to(np.eye(n_features), (self.n_components, n_features, n_features))
        shape = family.from_matrices(matrices).shape
        values = np.asarray(self.covars_init, dtype=np.float64)
        if _without_units(values.shape) == _without_units(shape):
            values = values.reshape(shape)
        values = self._checked_start("covars_init", values, shape)
        variances = values if values.ndim == 2 else np.einsum("kii->ki", values)
        if variances.min() <= 0.0:
            raise ValueError(f"covars_init of {type(self).__name__} must be positive definite.")
        return values

    def _emission_prior(self, family):
        if self.prior is not None:
            return super()._emission_prior(family)
        if self.covars_prior is None and self.means_weight == 0.0 and self.covars_weight <= 1.0:
            return None
        shape = (self.n_components, self.n_features_in_)
        scatter = 0.0 if self.covars_prior is None else self.covars_prior
        return family.pseudo_moments(
            *shape,
            mean=finite("means_prior", self.means_prior, shape),
            mean_weight=self.means_weight,
            scatter=positive_semidefinite("covars_prior", scatter, self.n_features_in_),
            degrees=max(0.0, self.covars_weight - self._certain_weight()),
        )

    def _certain_weight(self):
        """What hmmlearn takes off `covars_weight`."""
        return 1.0 if self.covariance_type in ("diag", "spherical") else self.n_features_in_

    @property
    def means_(self):
        """Means of the states, an ndarray of shape (n_components, n_features)."""
        return self._exposed(self.model_.parameters.mean)

    @property
    def covars_(self):
        """Covariance matrices of the states, (n_components, n_features, n_features)."""
        return self._exposed(self.model_.family.covariance_matrices(self.model_.parameters))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _without_units(shape):
    return tuple(size for size in shape if size != 1)

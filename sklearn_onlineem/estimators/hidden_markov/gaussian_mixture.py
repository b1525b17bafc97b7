"""Hidden Markov models whose states emit mixtures of Gaussians."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem._checks import above, require
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable, gaussian_family, learnt_parts
from sklearn_onlineem.estimators._start import TakesPrior
from sklearn_onlineem.estimators.hidden_markov.gaussian import GaussianHMM
from sklearn_onlineem.estimators.mixtures.gaussian import unit_gaussians
from sklearn_onlineem.estimators.parameters import COUNT, POSITIVE, estimator, parameter
from sklearn_onlineem.families import Gaussian, MixtureOf
from sklearn_onlineem.families.covariance_shapes import TiedInGroups
from sklearn_onlineem.families.mixture_emissions import Submixtures, SubmixtureStatistics

# Pseudo-rows of the penalty of each covariance.
_PENALTY = 0.1


def _masks_of_covars(hmm):
    return "k" if hmm.covariance_type == "tied" else "k kj"


@estimator
class GMMHMM(GaussianHMM):
    r"""Hidden Markov model whose states emit Gaussian mixtures: hmmlearn's, with `partial_fit`.

    .. math:: p(v_t \mid h_t = k) = \sum_j c_{kj} \, N(v_t \mid m_{kj}, S_{kj})

    A state may thus have several places, tails or a skew, while its duration stays that of one
    state. Rows and single values may be missing (NaN), and are marginalised. For mixtures of other
    families, pass ``family=MixtureOf(Poisson(), 2)``, for example, to :class:`HMM`.

    Parameters
    ----------
    n_mix : int, default=1
        Number of Gaussians of each state.
    covariance_type : {"diag", "full", "tied", "spherical"}, default="diag"
        Whether each Gaussian has variances of features or a matrix, all those of one state share a
        matrix, as in hmmlearn, or each has one variance.
    params : str or dict, default="ste"
        Which of start (s), transitions (t), weights (w), means (m) and covariances (c) are learnt;
        e is the latter three. The rest stays as it starts, or as it was set. Or a dict of masks,
        True where an entry is learnt: "startprob", "transmat" and "emissions" as of all hidden
        Markov models, "weights" of shape (n_components,), "means" and "covars" of shape
        (n_components,) or (n_components, n_mix), tied "covars" of shape (n_components,). Parts
        without a mask are learnt. See :ref:`known_models`.
    weights_init : array-like of shape (n_components, n_mix), default=None
        Weights to start from, rows adding up to 1.
    means_init : array-like of shape (n_components, n_mix, n_features), default=None
        Means to start from.
    covars_init : array-like, default=None
        Covariances to start from, of the shape of `covars_`.
    weights_prior : float or array-like, default=None
        Concentration of the Dirichlet priors of the weights, broadcasting to (n_components, n_mix).
        None: 1, no prior.
    prior : dict, "auto", LearntPrior or None, default="auto"
        Hyper-parameters of the conjugate prior of means and covariances, as of `GaussianMixture`
        with the same `covariance_type`, and "weight_concentration" of the weights; or the result of
        `as_prior` of a fitted estimator. None: maximum likelihood, but for the parameters below,
        under which Gaussians may shrink onto one row. "auto": if none of these is set, and `n_mix`
        is above 1, a penalty of each covariance [2]_: a tenth of a pseudo-row whose squares are the
        variances of the first data, times (n_components n_mix)^(-2 / n_features), as of clusters
        that fill the data. Else as None.
    means_prior : array-like broadcasting to (n_components, n_mix, n_features), default=0.0
        Mean of the normal prior of the means.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components, n_mix)
        Weights of the Gaussians of each state.
    means_ : ndarray of shape (n_components, n_mix, n_features)
    covars_ : ndarray
        Variances (n_components, n_mix, n_features) diagonal, matrices (n_components, n_mix,
        n_features, n_features) full or (n_components, n_features, n_features) tied, or variances
        (n_components, n_mix) spherical, as in hmmlearn.

    See Also
    --------
    HMM : Formulas, and mixtures of any family.
    GaussianHMM : One Gaussian for each state.
    families.MixtureOf : The family of the emissions.

    References
    ----------
    .. [1] Rabiner, "A tutorial on hidden Markov models and selected applications in speech
       recognition", Proc. IEEE 1989, section IV.A.
    .. [2] Chen & Tan, "Inference for multivariate normal mixtures", JMVA 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GMMHMM
    >>> rng = np.random.default_rng(0)
    >>> states = np.repeat([0, 1, 0, 1], 200)
    >>> places = np.where(rng.random(800) < 0.5, [[-4.0], [1.0]], [[4.0], [2.0]]).T
    >>> X = rng.normal(places[np.arange(800), states, None], 0.3)
    >>> slow = [[0.99, 0.01], [0.01, 0.99]]
    >>> hmm = GMMHMM(2, n_mix=2, transmat_init=slow, random_state=0).fit(X)
    >>> np.sort(hmm.means_.ravel()).round()
    array([-4.,  1.,  2.,  4.])
    >>> np.flatnonzero(np.diff(hmm.predict(X)))
    array([199, 399, 599])
    """

    n_mix: int = parameter(default=1, valid=[COUNT], structural=True)
    weights_init: object = parameter(default=None, valid=[None, "array-like"])
    weights_prior: object = parameter(default=None, valid=[None, POSITIVE, "array-like"])

    _sizes = {"k": "n_components", "j": "n_mix"}

    def _shape(self):
        return TiedInGroups(self.n_mix) if self.covariance_type == "tied" else super()._shape()

    def _family(self):
        learnt = learnt_parts(self)
        masks = {name: self._of_parts(name, learnt[name]) for name in _OF_PARTS}
        gaussian = gaussian_family(self, self._shape(), masks, "covars", "emissions")
        return MixtureOf(gaussian, self.n_mix, learns_weights=learnt["weights"])

    def _of_parts(self, name, mask):
        """Return a mask of all Gaussians, from one of them or of states."""
        if not isinstance(mask, np.ndarray):
            return mask
        fits, n = mask.ndim == 1 or mask.shape[1] == self.n_mix, self.n_components
        shapes = f"of shape ({n},) or ({n}, n_mix={self.n_mix})"
        require(fits, f"params[{name!r}]", shapes, mask.shape)
        return np.repeat(mask, self.n_mix) if mask.ndim == 1 else mask.ravel()

    def _emission_prior(self, family, n_features):
        gaussian, shape = family.family, (self.n_components, self.n_mix)
        own = self._own_prior(gaussian, shape, n_features)
        if own is None:
            own = self._penalty(family, n_features)
        nothing = np.zeros(shape)
        if own is None:
            found = TakesPrior._emission_prior(self, family, n_features)
        else:
            found = SubmixtureStatistics(nothing, own)
        if self.weights_prior is None:
            return found
        excess = above("weights_prior", self.weights_prior, 0.0, shape) - 1.0
        if found is None:
            found = SubmixtureStatistics(nothing, self._pseudo_rows(gaussian, n_features))
        return found + SubmixtureStatistics(excess, found.inner.scale(0.0))

    def _penalty(self, family, n_features):
        """Return pseudo-rows that keep Gaussians from shrinking onto single rows, or None."""
        if self._hyperparameters != "auto" or self.n_mix == 1 or family.spread is None:
            return None
        squares = family.spread * (self.n_components * self.n_mix) ** (-2.0 / n_features)
        return self._pseudo_rows(family.family, n_features, np.diag(squares), _PENALTY)

    def _pseudo_rows(self, gaussian, n_features, covariance=0.0, weight=0.0):
        n = self.n_components * self.n_mix
        return gaussian.pseudo_moments(
            n, n_features, mean=0.0, mean_weight=0.0, scatter=weight * covariance, degrees=weight
        )

    def _parts(self, family=None):
        return super()._parts(family or MixtureOf(Gaussian(self._shape()), self.n_mix))

    def _standard(self, family, n_components, n_features):
        n_mix = family.n_mix
        inner = unit_gaussians(family.family, n_components * n_mix, n_features)
        return Submixtures(np.full((n_components, n_mix), 1.0 / n_mix), inner)

    weights_ = Settable[Floats](letters="we", masks="k")

    means_ = Settable[Floats](letters="me", masks="k kj")

    covars_ = Settable[Floats](letters="ce", masks=_masks_of_covars)


_OF_PARTS = "means", "covars", "emissions"

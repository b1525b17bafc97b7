"""Standard errors of fitted parameters and of forecasts, from the observed information."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse
from scipy.special import expit, logit, ndtri
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem._checks import check_bool, check_count, check_number
from sklearn_onlineem._typing import Floats, SequenceData
from sklearn_onlineem.diagnostics.information import Missing
from sklearn_onlineem.diagnostics.reading import coordinates_at, model_and_data, prior_of
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.kalman.kalman_filter import KalmanFilter
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel

# Least diagonal of a root of the information, relative to the root of its largest entry.
_TINY, _LEAST = np.finfo(float).tiny, 1e-6


def topic_errors(topics, proportions, counts, smoothing=0.0, sample_weight=None):
    r"""Return standard errors of the words' probabilities in topics, (n_components, n_words).

    Given the proportions of documents, (n_documents, n_components), their `counts` of words, CSR,
    and `smoothing` pseudo-counts of each word, the observed information has a block for each word,

    .. math::
        p_{dw} &= \sum_k \theta_{dk} \phi_{kw}, \\
        B_w &= \sum_d c_{dw} \theta_d \theta_d' / p_{dw}^2
        + \beta \operatorname{diag}(1 / \phi_w^2), \\
        \operatorname{Var} \hat\phi_w
        &= B_w^{-1} - B_w^{-1} \Big(\sum_v B_v^{-1}\Big)^{-1} B_w^{-1},

    as topics add up to 1. Errors are too small by what is unknown of proportions, most of all in
    short documents. Probabilities of 0 are known. ValueError is raised for words whose
    probabilities the documents do not determine, such as those in fewer documents than there are
    topics, unless `smoothing` does.
    """
    counts = sparse.csc_array(counts, dtype=np.float64)
    weight = np.ones(counts.shape[0]) if sample_weight is None else sample_weight

    def variance(word):
        """Return the topics in which a word is, and B^-1 of these."""
        phi = topics[:, word]
        seen = np.flatnonzero(phi > 0.0)
        entries = slice(counts.indptr[word], counts.indptr[word + 1])
        documents = counts.indices[entries]
        # In units of the probabilities, in which entries are counts.
        shares = proportions[np.ix_(documents, seen)] * phi[seen]
        shares /= shares.sum(axis=1, keepdims=True)
        tokens = counts.data[entries] * weight[documents]
        information = (shares.T * tokens) @ shares + smoothing * np.eye(len(seen))
        try:
            root = linalg.cholesky(information / max(information.max(initial=0.0), _TINY))
        except linalg.LinAlgError:
            root = None
        if root is None or (len(root) and np.diag(root).min() < _LEAST):
            raise ValueError(f"The documents do not determine the probabilities of word {word}.")
        return seen, phi[seen, None] * np.linalg.inv(information) * phi[seen]

    K, n_words = topics.shape
    total, errors = np.zeros((K, K)), np.zeros((K, n_words))
    for word in range(n_words):
        seen, inverse = variance(word)
        total[np.ix_(seen, seen)] += inverse
    adjustment = np.linalg.inv(total)
    for word in range(n_words):
        seen, inverse = variance(word)
        inverse -= inverse @ adjustment[np.ix_(seen, seen)] @ inverse
        errors[seen, word] = np.sqrt(np.maximum(np.diag(inverse), 0.0))
    return errors


# A smaller eigenvalue is 0 up to errors of differences and of convergence.
LEAST_INFORMATION = 1e-6
# Distance from the maximum, in standard errors, above which a warning is given.
_NEAR = 0.25


@dataclass(frozen=True)
class StandardErrors:
    """Estimates with their standard errors, by the names of fitted attributes.

    Attributes
    ----------
    estimates : dict of ndarray
        ``"weights_"``, ``"means_"``, ``"covariances_"``, ...
    errors : dict of ndarray
        Standard errors, of the same names and shapes.
    kinds : dict of str
        The range of each: "real", "positive", "probability", or "covariance".
    """

    estimates: dict[str, Floats]
    errors: dict[str, Floats]
    kinds: dict[str, str]

    def __post_init__(self):
        dictionaries = self.estimates, self.errors, self.kinds
        valid = all(isinstance(d, dict) for d in dictionaries)
        if not valid or len({frozenset(d) for d in dictionaries}) > 1:
            raise ValueError("estimates, errors and kinds must be dictionaries of the same names.")
        for name, kind in self.kinds.items():
            if not isinstance(kind, str) or kind not in _INTERVALS:
                raise ValueError(f"kinds must be among {sorted(_INTERVALS)}, got {kind!r:.60}.")
            values = self.estimates[name], self.errors[name]
            ndim = 2 if kind == "covariance" else 0
            are_floats = all(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in values)
            if not are_floats or values[0].shape != values[1].shape or values[0].ndim < ndim:
                raise ValueError(f"estimates and errors of {name} must be arrays of one shape.")

    def intervals(self, level: float = 0.95) -> dict[str, Floats]:
        """Return confidence intervals as arrays of shape (2, ...): lower and upper ends.

        They are symmetric for real numbers, for logarithms of positive ones (variances of
        covariances included), and for log-odds of probabilities.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval contains the truth, in (0, 1), else ValueError is raised.
        """
        check_number("level of intervals", level, 0.0, 1.0)
        width = ndtri(0.5 + 0.5 * float(level))
        return {
            name: _INTERVALS[self.kinds[name]](value, width * self.errors[name])
            for name, value in self.estimates.items()
        }


def _real(value, reach):
    return np.stack([value - reach, value + reach])


def _positive(value, reach):
    ratio = np.exp(reach / value)
    return np.stack([value / ratio, value * ratio])


def _probability(value, reach):
    with np.errstate(divide="ignore"):
        odds, spread = logit(value), value * (1.0 - value)
    reach = np.divide(reach, spread, out=np.zeros_like(value), where=spread > 0.0)
    return expit(np.stack([odds - reach, odds + reach]))


def _covariance(value, reach):
    ends, i = _real(value, reach), np.arange(value.shape[-1])
    ends[..., i, i] = _positive(value[..., i, i], reach[..., i, i])
    return ends


_INTERVALS = {
    "real": _real,
    "positive": _positive,
    "probability": _probability,
    "covariance": _covariance,
}


def standard_errors(
    estimator: OnlineEM, X: SequenceData, robust: bool = False, **where: object
) -> StandardErrors:
    r"""Return standard errors of the fitted parameters.

    .. math::
        H = n (I_{x,z} - I_{z|x}), \qquad
        \operatorname{Var} g(\hat\theta) \approx J H^{-1} J', \quad
        J = \partial g / \partial \theta

    is the observed information by Louis' identity: that of complete data less that of hidden
    variables given the data. With `robust` the variance is the sandwich
    :math:`J H^{-1} (\sum_n s_n s_n') H^{-1} J'` with scores :math:`s_n`, which is valid for wrong
    models, too. With a prior, they are those of the posterior near its mode. The number of
    components and their labels are taken as known.

    For a Kalman filter they are those of `em_vars`. The parameters that are known, and a prior,
    must determine the coordinates of the states; for one state its noise variance is enough. The
    covariance of first states requires more sequences than states have dimensions, or a prior. For
    a mixture of Markov chains, the lengths of the sequences and the visits of each symbol are
    given. Laplace densities have no derivatives at their medians, and the expected information of
    complete data takes their place. Of an edit distance, `operations_` is an array in the order of
    its keys, and probabilities below 1e-8 are taken as known. For topics, the proportions of
    the documents are taken as known, so that errors are too small, most of all for short documents.
    Probabilities of `CategoricalMixture` are one array, its columns side by side.

    Parameters
    ----------
    estimator : OnlineEM
        A fitted mixture or hidden Markov model of Gaussian, Poisson, Bernoulli, multinomial,
        categorical, exponential, gamma, Student's t, Laplace, Wishart or compound Dirichlet
        components, Markov chains or regressions, a Kalman filter, `EditDistance`, or
        `LatentDirichletAllocation`; at a maximum, so fitted with a small `tol`. Your own families
        are refused.
    X : array-like, or list of array-likes
        The data that it was fitted to, in any form that its `fit` takes. A weight of 2 means two
        equal rows.
    robust : bool, default=False
        Whether to use the sandwich, which requires many sequences; not for topics.
    **where : dict
        Further data of `fit`: `y`, `sample_weight`, `lengths`, `groups`.

    Warns
    -----
    ConvergenceWarning
        If the model is not near the maximum.

    Raises
    ------
    NotFittedError, TypeError
        If the estimator is not fitted, or is none of this library.
    ValueError
        If the data are invalid or the model is of another kind; if a component has no weight; if
        the information is singular, at no maximum or because parameters are not determined, which
        the message names.

    References
    ----------
    Louis, "Finding the observed information matrix when using the EM algorithm", JRSS-B 1982;
    Oakes, "Direct calculation of the information matrix via the EM algorithm", JRSS-B 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.diagnostics import standard_errors
    >>> X = np.random.default_rng(0).normal(size=(400, 1))
    >>> errors = standard_errors(GaussianMixture(1).fit(X), X)
    >>> bool(np.isclose(errors.errors["means_"], X.std() / 20.0))
    True
    >>> low, high = errors.intervals()["covariances_"]
    >>> bool(low < 1.0 < high)
    True
    """
    check_bool("robust of standard_errors", robust)
    model, data = model_and_data(estimator, X, **where)
    if isinstance(model, LatentDirichletModel):
        if robust:
            raise ValueError("robust=True is not implemented for topics.")
        prior, topics = prior_of(estimator), np.ascontiguousarray(model.topics_T.T)
        by_topic = topic_errors(
            topics, model.posterior(data), data.X, prior.smoothing, data.sample_weight
        )
        counts = np.asarray(estimator.components_, dtype=np.float64)
        scale = counts.sum(axis=1, keepdims=True)
        return StandardErrors(
            {"components_": counts}, {"components_": scale * by_topic}, {"components_": "positive"}
        )
    statistics, coordinates = coordinates_at(estimator, model, data)
    coordinates.check_determined(data.total_weight, prior_of(estimator))
    if robust and len(data) < 2:
        raise ValueError("robust=True requires several observations, got one.")
    missing = Missing(coordinates, data)
    # Directions of unit information, one a row.
    units = np.eye(math.prod(coordinates.shape)).reshape(-1, *coordinates.shape)
    basis = np.array([coordinates.direction(unit).ravel() for unit in units])
    information = np.eye(len(basis)) - basis @ missing.dense() @ basis.T
    values, vectors = np.linalg.eigh(0.5 * (information + information.T))
    if not values[0] > LEAST_INFORMATION:
        moves = (vectors[:, 0] ** 2).reshape(coordinates.shape)
        shares = {name: moves[:, columns].sum() for name, columns in coordinates.parts.items()}
        raise ValueError(
            f"The observed information is not positive definite (least eigenvalue {values[0]:.2g}"
            " of that of complete data): the fit is at no maximum, or its parameters are not"
            f" determined, least of all the {max(shares, key=shares.get)}. Fit with a smaller tol,"
            f" {coordinates.remedy}, or with more known parameters."
        )
    inverse = (vectors / values) @ vectors.T
    check_converged(coordinates, statistics, inverse, data.total_weight)
    if robust:
        inverse = inverse @ (basis @ missing.squares() @ basis.T) @ inverse
    views = coordinates.shown_by(estimator)
    errors, estimates = _errors(coordinates, basis, inverse / data.total_weight, views), {}
    for name, part in views.items():
        estimates[name] = np.array(part.get(model), dtype=np.float64)
        # A single component has attributes without an axis of components.
        value = getattr(estimator, name, None)
        if isinstance(value, np.ndarray):
            estimates[name] = estimates[name].reshape(value.shape)
            errors[name] = errors[name].reshape(value.shape)
    return StandardErrors(estimates, errors, {name: part.kind for name, part in views.items()})


def check_converged(coordinates, statistics, inverse, n, stacklevel=3):
    """Warn if the maximum is some standard errors away, by the length of Newton's step."""
    score = coordinates.unit_score(coordinates.score(statistics)).ravel()
    distance = math.sqrt(max(n * (score @ inverse @ score), 0.0))
    if distance > _NEAR:
        warnings.warn(
            f"The fit is about {distance:.2g} standard errors from the maximum, at which errors are"
            " valid. Fit with a smaller tol (or a smaller floor such as reg_covar).",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def _errors(coordinates, basis, covariance, views):
    """Return the roots of the variances of attributes, by the delta method."""
    along = [coordinates.derivatives(row.reshape(coordinates.shape), views) for row in basis]
    errors = {}
    for name in views:
        gradient = np.array([derivatives[name] for derivatives in along])
        flat = gradient.reshape(len(basis), -1)
        variances = np.einsum("ij,ij->j", flat, covariance @ flat)
        errors[name] = np.sqrt(np.maximum(variances, 0.0)).reshape(gradient.shape[1:])
    return errors


# Share of the variance of a forecast below which directions of no information do not matter.
_NEGLIGIBLE = 1e-2


def forecast_moments(
    estimator: KalmanFilter, X: SequenceData, n_steps: int = 1, **where: object
) -> tuple[Floats, Floats]:
    r"""Return forecasts of a Kalman filter whose covariances include errors of its parameters.

    .. math::
        \operatorname{Var}(v_{T+s} \mid v_{1..T}) \approx
        \operatorname{Var}_{\hat\theta}(v_{T+s} \mid v_{1..T}) + J_s H^{-1} J_s', \quad
        J_s = \partial \operatorname{E}_\theta(v_{T+s} \mid v_{1..T}) / \partial \theta

    with the observed information H of `standard_errors`. The first term is the covariance of
    ``KalmanFilter.forecast(..., return_cov=True)``, for which parameters are known; the second is
    that of the mean by the delta method. Without it intervals are too short for short sequences.

    The parameters need not be determined, only the forecasts: changes of the coordinates of the
    states do not matter. Moments of first states are taken as known unless there are more sequences
    than states have dimensions.

    Parameters
    ----------
    estimator : KalmanFilter
        Fitted, at a maximum, so with a small `tol`.
    X : array-like, or list of array-likes
        The sequences that it was fitted to, in any form that its `fit` takes, with NaN for missing
        values. The forecasts continue them.
    n_steps : int, default=1
        Rows ahead.
    **where : dict
        Further data of `fit`: `lengths`, `groups`.

    Returns
    -------
    means : ndarray of shape (n_steps, n_features), or (n_sequences, n_steps, n_features)
        As `forecast` returns them; the former for one 2-D sequence.
    covariances : ndarray of shape (..., n_features, n_features)

    Warns
    -----
    ConvergenceWarning
        If the model is not near the maximum.

    Raises
    ------
    NotFittedError, TypeError
        If the estimator is not fitted, or is no Kalman filter.
    ValueError
        If the data or `n_steps` are invalid; or if the data have no information on a change of the
        parameters that moves the forecasts, or the fit is at no maximum.

    References
    ----------
    Ansley & Kohn, "Prediction mean squared error for state space models with estimated parameters",
    Biometrika 1986; Hamilton, "A standard error for the estimated state vector of a state-space
    model", Journal of Econometrics 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.diagnostics import forecast_moments
    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(30, 1)), axis=0)
    >>> drift = KalmanFilter(
    ...     transition_matrices=1.0, observation_matrices=1.0, observation_covariance=1e-3,
    ...     em_vars=["transition_offsets", "transition_covariance"], solver="batch", tol=1e-10,
    ... ).fit(X)
    >>> variances = drift.forecast(X, 4, return_cov=True)[1].ravel()
    >>> (forecast_moments(drift, X, 4)[1].ravel() / variances).round(2)  # 1 + step / 29
    array([1.03, 1.07, 1.1 , 1.14])
    """
    if not isinstance(estimator, KalmanFilter):
        raise TypeError(f"estimator must be a KalmanFilter, got {type(estimator).__name__}.")
    check_count("n_steps of forecast_moments", n_steps)
    model, data = model_and_data(estimator, X, **where)
    with error_context(estimator):
        means, covariances = estimator.forecast(X, n_steps, return_cov=True, **where)
        added = _added_covariances(estimator, model, data, int(n_steps))
    return means, covariances + added.reshape(covariances.shape).astype(covariances.dtype)


def _added_covariances(estimator, model, data, n_steps):
    """Return J H^-1 J', of shape (n_sequences, n_steps, d, d)."""
    if len(data) <= model.n_components:
        model = replace(model, initial=replace(model.initial, learnt=()))
    variances = model.forecast(data, n_steps)[1].diagonal(axis1=2, axis2=3)
    if not any(part.learnt for part in (model.initial, model.transitions, model.emissions)):
        return np.zeros((*variances.shape, variances.shape[-1]))
    statistics, coordinates = coordinates_at(estimator, model, data)
    missing = Missing(coordinates, data)
    values, vectors = np.linalg.eigh(np.eye(math.prod(coordinates.shape)) - missing.dense())

    def means(model):
        return model.forecast(data, n_steps)[0]

    directions = vectors.T.reshape(-1, *coordinates.shape)
    moves = np.array([missing.slope(v, means) for v in directions])
    known = values > LEAST_INFORMATION
    # The least that directions without information would add.
    unknown = (moves[~known] ** 2).sum(axis=0) / (LEAST_INFORMATION * data.total_weight)
    if (unknown > _NEGLIGIBLE * variances).any():
        raise ValueError(
            "The data have no information on a change of the parameters that moves the forecasts"
            f" (least eigenvalue {values[0]:.2g} of that of complete data): fit with a smaller tol,"
            " a smaller n_dim_state, or with fewer em_vars."
        )
    inverse = (vectors[:, known] / values[known]) @ vectors[:, known].T
    check_converged(coordinates, statistics, inverse, data.total_weight, stacklevel=4)
    scaled = moves[known] / np.sqrt(data.total_weight * values[known])[:, None, None, None]
    return np.einsum("ints,intr->ntsr", scaled, scaled)

"""Kalman filters that learn their matrices, from whole sequences or from streams."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.estimators._kalman_inference import SystemInference
from sklearn_onlineem.estimators._kalman_parameters import RELATIVE_FLOOR, SHAPES, SystemParameters
from sklearn_onlineem.estimators._sequence_model import SequenceModel
from sklearn_onlineem.estimators._warnings import warn_user
from sklearn_onlineem.families import FullGaussian
from sklearn_onlineem.families._gaussian import variance_floor
from sklearn_onlineem.models.linear_dynamical_start import START_STATES, filled

__all__ = ["KalmanFilter"]

# Pseudo-rows of a stream's start, by parameters of the model per feature.
_START_SHARE = 0.2


class KalmanFilter(SystemParameters, SystemInference, SequenceModel):
    r"""Linear dynamical system learnt by EM: pykalman's, with `partial_fit`.

    .. math::
        h_1 \sim N(m_1, V_1), \qquad h_{t+1} = A h_t + b + N(0, Q), \qquad v_t = C h_t + d + N(0, R)

    Each step minimises the EM bound of a batch of sequences plus 1/eta times the joint KL
    divergence to the old model. With the moments :math:`P` of the states given the batch, and
    :math:`U` those under the old model, summed over a sequence and averaged over sequences,

    .. math::
        \tilde A = \Big(\tfrac{1}{\eta} A U' + P_{t, t-1}\Big)
        \Big(\tfrac{1}{\eta} U' + P_{t-1}\Big)^{-1}, \qquad
        \tilde C = \Big(\tfrac{1}{\eta} C U + v h'\Big) \Big(\tfrac{1}{\eta} U + P_t\Big)^{-1}

    and the covariances are those of the residuals. Any value may be missing (NaN): it is
    integrated out.

    Parameters
    ----------
    n_dim_state : int, default=None
        Dimension of the state. None: that of the arrays given, or 1.
    transition_matrices : array-like of shape (n_dim_state, n_dim_state), default=None
        A. This and the next seven, which have pykalman's names, are start values for what is
        learnt (`em_vars`), and kept as they are for the rest. None: found by `init` for what is
        learnt; the unit matrix, or zeros for means and offsets, for the rest.
    observation_matrices : array-like of shape (n_features, n_dim_state), default=None
        C.
    transition_covariance : array-like of shape (n_dim_state, n_dim_state), default=None
        Q.
    observation_covariance : array-like of shape (n_features, n_features), default=None
        R.
    transition_offsets : array-like of shape (n_dim_state,), default=None
        b.
    observation_offsets : array-like of shape (n_features,), default=None
        d.
    initial_state_mean : array-like of shape (n_dim_state,), default=None
        m_1.
    initial_state_covariance : array-like of shape (n_dim_state, n_dim_state), default=None
        V_1.
    em_vars : list of str or "all", default=None
        Names of the parameters that are learnt; ``[]`` is for a model that is known. None: all but
        `transition_offsets`, as the offsets of the observations, with the mean of the first state,
        can stand in for those.
    transition_covariance_type : {"full", "diag", "spherical"}, default="full"
        What noise the state has; "diagonal" is "diag".
    observation_covariance_type : {"full", "diag", "spherical"}, default="full"
        What noise the rows have.
    reg_covar : float or "relative", default="relative"
        What each M-step adds to variances. "relative" is 1e-6 times the variance of each feature
        in the first data; for states, and where all start values are given, it is 1e-6 times the
        variances at the start.
    prior : dict, default=None
        Conjugate priors, as dicts of the arguments of
        :meth:`LinearGaussian.prior_statistics <sklearn_onlineem.families.LinearGaussian>`: at
        "initial" (normal inverse Wishart; `offset` is the mean), "transition" and "observation"
        (matrix-normal inverse Wishart). None: maximum likelihood.
    init : {"pca", "random"}, default="pca"
        Where what is not given starts: states are the principal components of the rows, together
        with rows before them if there are more states than features, or random ones; the arrays
        are the regressions that they stand for.
    solver : {"online", "batch"}, default="online"
        What `fit` does. "online": `online_passes` in mini-batches of sequences, which come most of
        the way, then batch EM until `tol`; "batch": batch EM only.
    eta0, beta, schedule, batch_size, online_passes, max_iter, tol, stopping, n_init, warm_start
    random_state, n_jobs, verbose, verbose_interval, callbacks
        As in :class:`HMM`.

    Attributes
    ----------
    transition_matrices_ : ndarray of shape (n_dim_state, n_dim_state)
    observation_matrices_ : ndarray of shape (n_features, n_dim_state)
    transition_covariance_ : ndarray of shape (n_dim_state, n_dim_state)
    observation_covariance_ : ndarray of shape (n_features, n_features)
    transition_offsets_ : ndarray of shape (n_dim_state,)
    observation_offsets_ : ndarray of shape (n_features,)
    initial_state_mean_ : ndarray of shape (n_dim_state,)
    initial_state_covariance_ : ndarray of shape (n_dim_state, n_dim_state)
    converged_ : bool
    n_iter_ : int
        Passes of the last `fit`.
    n_steps_ : int
        Updates so far.
    n_samples_seen_ : int
        Sequences so far.
    history_ : sequence of (eta, log_likelihood, kl_divergence)
        The latest updates; log-likelihoods are from before each update.
    model_ : LinearDynamicalModel
        The fitted model, a frozen value.

    Notes
    -----
    States are known only up to an invertible linear map, unless enough of the matrices are fixed:
    compare likelihoods, predictions and imputed values, not matrices.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 6.
    .. [2] Shumway & Stoffer, "An approach to time series smoothing and forecasting using the EM
       algorithm", Journal of Time Series Analysis 3, 1982.
    .. [3] Ghahramani & Hinton, "Parameter estimation for linear dynamical systems", 1996.

    Examples
    --------
    A slow wave in noise, learnt from pieces of 50 rows, and what comes after it:

    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> rng = np.random.default_rng(0)
    >>> t = np.arange(2000)
    >>> X = np.column_stack([np.sin(0.1 * t), np.cos(0.1 * t)]) + 0.3 * rng.normal(size=(2000, 2))
    >>> kalman = KalmanFilter(n_dim_state=2, random_state=0)
    >>> for piece in np.array_split(X, 40):
    ...     kalman = kalman.partial_fit(piece, continues=True)
    >>> future = kalman.forecast(X, n_steps=3)
    >>> wave = np.column_stack([np.sin(0.1 * np.arange(2000, 2003)),
    ...                         np.cos(0.1 * np.arange(2000, 2003))])
    >>> bool(np.abs(future - wave).max() < 0.2)
    True
    """

    _model_parameters = (
        "em_vars", "transition_covariance_type", "observation_covariance_type", "reg_covar",
    )  # fmt: skip
    _parameter_constraints: dict = {
        **SequenceModel._parameter_constraints,
        "n_dim_state": [None, Interval(Integral, 1, None, closed="left")],
        "transition_matrices": [None, Real, "array-like"],
        "observation_matrices": [None, Real, "array-like"],
        "transition_covariance": [None, Real, "array-like"],
        "observation_covariance": [None, Real, "array-like"],
        "transition_offsets": [None, Real, "array-like"],
        "observation_offsets": [None, Real, "array-like"],
        "initial_state_mean": [None, Real, "array-like"],
        "initial_state_covariance": [None, Real, "array-like"],
        "em_vars": [None, StrOptions({"all"}), "array-like", set, frozenset],
        "transition_covariance_type": [StrOptions(set(SHAPES))],
        "observation_covariance_type": [StrOptions(set(SHAPES))],
        "reg_covar": [StrOptions({"relative"}), Interval(Real, 0, None, closed="left")],
        "prior": [None, dict],
        "init": [StrOptions(set(START_STATES))],
    }
    _parameter_constraints.pop("n_components")

    def __init__(
        self,
        n_dim_state=None,
        *,
        transition_matrices=None,
        observation_matrices=None,
        transition_covariance=None,
        observation_covariance=None,
        transition_offsets=None,
        observation_offsets=None,
        initial_state_mean=None,
        initial_state_covariance=None,
        em_vars=None,
        transition_covariance_type="full",
        observation_covariance_type="full",
        reg_covar="relative",
        prior=None,
        init="pca",
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
        self.n_dim_state = n_dim_state
        self.transition_matrices = transition_matrices
        self.observation_matrices = observation_matrices
        self.transition_covariance = transition_covariance
        self.observation_covariance = observation_covariance
        self.transition_offsets = transition_offsets
        self.observation_offsets = observation_offsets
        self.initial_state_mean = initial_state_mean
        self.initial_state_covariance = initial_state_covariance
        self.em_vars = em_vars
        self.transition_covariance_type = transition_covariance_type
        self.observation_covariance_type = observation_covariance_type
        self.reg_covar = reg_covar
        self.prior = prior
        self.init = init
        self.solver = solver
        self.eta0 = eta0
        self.beta = beta
        self.schedule = schedule
        self.batch_size = batch_size
        self.online_passes = online_passes
        self.max_iter = max_iter
        self.tol = tol
        self.stopping = stopping
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.callbacks = callbacks

    def _family(self):
        # For its checks of the rows only; the emissions are in the model.
        return FullGaussian()

    _fitted_family = _family

    def _observe(self, X, y, lengths, groups, reset):
        return super()._observe(
            X, None, lengths, groups, reset
        )  # labels say nothing of such states

    def _filtered_end(self, last):
        means, covariances = self.model_.filtered(last)
        return means[-1].copy(), covariances[-1].copy()

    def _given_start(self, data):
        known = self._known()
        if not self._learnt() <= set(known):
            return None
        if self.reg_covar == "relative":
            return self._model(known, RELATIVE_FLOOR * np.diag(known["observation_covariance"]))
        return self._model(known, np.full(data.X.shape[1], float(self.reg_covar)))

    def _start(self, data, random_state, prior=None):
        given = self._given_start(data)
        if given is not None:
            return given
        k = self._n_hidden
        if len(data.X) < k:
            raise ValueError(
                f"{type(self).__name__} needs at least n_dim_state={k} rows to start from, got"
                f" n_samples={len(data.X)}. Pass a larger (first) batch, or initial values of all"
                " arrays that are learnt."
            )
        X, begins = filled(data)
        if len(X) > 1 and (X == X[0]).all():
            warn_user(f"All rows of {type(self).__name__} are alike.", ConvergenceWarning)
        arrays = self._start_arrays(X, begins, START_STATES[self.init], random_state)
        return self._model(arrays, self._row_floor(X))

    def _row_floor(self, X):
        return variance_floor(X, None, None if self.reg_covar == "relative" else self.reg_covar)

    def _stream_start(self, data, random_state):
        # The start counts for a few rows, lest the first batch be learnt by heart.
        model = self._start(data, random_state)
        return model, _START_SHARE * self._rows_needed(model) * model.own_statistics(data)

    def _rows_needed(self, model):
        n_parameters = max(1, model.n_parameters())
        return n_parameters / self.n_features_in_ / self._rows_per_sequence

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

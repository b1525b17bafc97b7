"""Kalman filters that learn their matrices, from whole sequences or from streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem._checks import MOST
from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Cut, Floats, FloatsOrList, SequenceData, Where
from sklearn_onlineem.data.sequences import with_inputs_before
from sklearn_onlineem.estimators._known import Settable, missing_parts, set_known
from sklearn_onlineem.estimators._start import LearntPrior, TakesPrior
from sklearn_onlineem.estimators.fitted import exposed, fitted_property
from sklearn_onlineem.estimators.inputs import InputsReader, TakesInputs
from sklearn_onlineem.estimators.kalman._start import START_STATES, SystemInitialiser
from sklearn_onlineem.estimators.kalman._system import SHAPES, System, system_prior, varying_names
from sklearn_onlineem.estimators.learning import generator
from sklearn_onlineem.estimators.parameters import COUNT, by_name, estimator, parameter
from sklearn_onlineem.estimators.sequence_forms import in_container
from sklearn_onlineem.estimators.sequences import SequenceEstimator
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import error_context, filled
from sklearn_onlineem.families import Gaussian
from sklearn_onlineem.models.kalman.linear_dynamical import (
    FIELDS_WITH_INPUTS,
    VARYING,
    LinearDynamicalModel,
)
from sklearn_onlineem.models.live_filters import MomentFilter
from sklearn_onlineem.structure import Component, assembled, checked_structure

_ARRAY = [None, Real, "array-like"]


class KalmanReader(InputsReader):
    """Reads sequences; each row has the inputs of the one before, and its own, if there are any."""

    def __init__(self, estimator, fresh=False):
        super().__init__(estimator, fresh)
        self._family = Gaussian()  # It only checks the rows.
        if fresh:
            self._n_components = estimator._system().sizes["k"]

    def _end(self):
        # The inputs of the last row of a sequence that goes on stand beside its state.
        end = super()._end()
        return end if end is None else end[:2]

    def _sequences(self, rows):
        inputs, offsets = self._inputs_of(rows), self.form.offsets
        if inputs is None:
            return super()._sequences(rows)
        data = with_inputs_before(rows.X, inputs, offsets, self._last)
        return data.with_rows(replace(rows, X=data.X), offsets)


@estimator
class KalmanFilter(TakesPrior, TakesInputs, SequenceEstimator):
    r"""Linear dynamical system learnt by EM: like pykalman's, with `partial_fit`.

    .. math::
        h_1 &\sim N(m_1, V_1) \\
        h_{t+1} &= A h_t + B u_t + b + N(0, Q) \\
        v_t &= C h_t + D u_t + d + N(0, R)

    Inputs u are known, such as controls or prices; without ``inputs=`` there are none.
    Each step minimises the EM bound of a batch of sequences plus 1/eta times the joint KL
    divergence to the old model. With the moments :math:`P` of the states given the batch, and
    :math:`U` under the old model, summed over a sequence and averaged over sequences,

    .. math::
        \tilde A &= \Big(\tfrac{1}{\eta} A U' + P_{t, t-1}\Big)
        \Big(\tfrac{1}{\eta} U' + P_{t-1}\Big)^{-1} \\
        \tilde C &= \Big(\tfrac{1}{\eta} C U + v h'\Big) \Big(\tfrac{1}{\eta} U + P_t\Big)^{-1}

    and the covariances are those of the residuals. Any value may be missing (NaN), and is
    integrated out.

    Inputs have no model: of them, and of states, the moments seen so far stand for U.

    Parameters
    ----------
    n_dim_state : int, default=None
        Dimension of the state. None: that of the arrays given, or 1.
    transition_matrices : array-like of shape (n_dim_state, n_dim_state), default=None
        A. Matrices of shape (n_rows - 1, n_dim_state, n_dim_state) vary in time, and are known: the
        first leads from the first row of each sequence to the second. So may the offsets, and the
        matrices and offsets of the observations, with one for each row. This and the next seven
        arrays, which have pykalman's names, are start values if they are learnt (`em_vars`), and
        fixed otherwise. None: found by `init` if learnt; otherwise the unit matrix, or zeros for
        means and offsets.
    observation_matrices : array-like of shape (n_features, n_dim_state), default=None
        C.
    transition_covariance : array-like of shape (n_dim_state, n_dim_state), default=None
        Q. In all covariances, variances of 0 stay 0. What leads to variables without noise stays.
    observation_covariance : array-like of shape (n_features, n_features), default=None
        R.
    transition_offsets : array-like of shape (n_dim_state,), default=None
        b.
    observation_offsets : array-like of shape (n_features,), default=None
        d.
    initial_state_mean : array-like of shape (n_dim_state,), default=None
        m_1.
    initial_state_covariance : array-like of shape (n_dim_state, n_dim_state), default=None
        V_1. Variances of infinity on its diagonal are those of exact diffuse starts [5]_:
        likelihoods and moments are the limits as they grow. They stay.
    transition_input_weights : array-like of shape (n_dim_state, n_inputs), default=None
        B: how the inputs of a row move the state to the next one. This array, and the next, only
        count with inputs; without a start value and not learnt they are 0.
    observation_input_weights : array-like of shape (n_features, n_inputs), default=None
        D: how inputs move their own row.
    structure : list of components, default=None
        Components of a series, such as ``[Trend(), Season(12)]`` of
        :mod:`sklearn_onlineem.structure`, which determine `n_dim_state` and all arrays. Variances
        of their noise, and rates of those that fade, are learnt; other first states are diffuse.
        Each column of X has components of its own. See :ref:`structure`.
    em_vars : list of str or "all", default=None
        Names of the parameters that are learnt; ``[]`` for a known model. None: all but
        `transition_offsets`, which the offsets of the observations, with the mean of the first
        state, can replace, and but those that vary in time.
    params : dict, default=None
        Masks of arrays by their names, True where an entry is learnt, of their shapes; or True or
        False for whole ones. Fixed entries are those of the array, which must be given. For others,
        `em_vars` says it. Those of diagonal noise may be of shape (n_dim_state,) or (n_features,).
        Of correlated noise, covariances of some variables with each other may be fixed, or be 0
        between blocks. See :ref:`known_models`.
    transition_covariance_type : {"full", "diag", "spherical"}, default="full"
        Shape of the noise of the state; "diagonal" is "diag". With a structure, components have
        independent noise, and "spherical" is refused.
    observation_covariance_type : {"full", "diag", "spherical"}, default="full"
        Shape of the noise of the rows.
    reg_covar : float or "relative", default="relative"
        What each M-step adds to variances. "relative" is 1e-6 times the variance of each feature in
        the first data, or at the start if all start values are given; for states it is 1e-9 times
        the variances at the start, as their noise may be small.
    prior : dict or LearntPrior, default=None
        Conjugate priors, as dicts of the arguments of
        :class:`~sklearn_onlineem.families.linear_gaussian.LinearGaussian`'s `prior_statistics`: at
        "initial" (normal inverse Wishart; `offset` is the mean), "transition" and "observation"
        (matrix-normal inverse Wishart, where inputs are further columns of the matrix). Or the
        result of `as_prior` of a fitted estimator. None:
        maximum likelihood.
    init : {"auto", "pca", "cca", "random"}, default="auto"
        Start of arrays that are not given: regressions on guessed states. "pca": principal
        components of the rows (together with earlier rows if there are more states than features).
        "cca": the canonical variates of the rows before that best predict those to come [4]_.
        "random": variates at random. "auto": of the first two, the likelier after ten passes of
        batch EM over the first 2048 rows; "pca" if `transition_matrices` or `observation_matrices`
        are given, or the variates would be of more than 512 values.

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
    transition_input_weights_ : ndarray of shape (n_dim_state, n_inputs)
        With inputs only, as the next.
    observation_input_weights_ : ndarray of shape (n_features, n_inputs)
    filtered_state_ : tuple of ndarrays of shapes (n_dim_state,) and (n_dim_state, n_dim_state)
        Mean and covariance of the last state given the rows so far, of a sequence that goes on:
        only after `partial_fit` with ``continues=True``.

    See Also
    --------
    GaussianHMM : A finite number of states.
    PerSequence : Transformers of rows before it in a pipeline.

    Notes
    -----
    States are identified only up to an invertible linear map, unless enough of the matrices are
    fixed: compare likelihoods, predictions and imputed values, not matrices.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 4.3.
    .. [2] Shumway & Stoffer, "An approach to time series smoothing and forecasting using the EM
       algorithm", Journal of Time Series Analysis 3, 1982.
    .. [3] Ghahramani & Hinton, "Parameter estimation for linear dynamical systems", 1996.
    .. [4] Larimore, "Canonical variate analysis in identification, filtering, and adaptive
       control", CDC 1990.
    .. [5] Durbin & Koopman, "Time Series Analysis by State Space Methods", 2nd ed., 2012,
       chapter 5.

    Examples
    --------
    A slow wave in noise, learnt from pieces of 50 rows, and forecast:

    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> rng = np.random.default_rng(0)
    >>> t = 0.1 * np.arange(2003)
    >>> wave = np.column_stack([np.sin(t), np.cos(t)])
    >>> X = wave[:2000] + 0.3 * rng.normal(size=(2000, 2))
    >>> kalman = KalmanFilter(n_dim_state=2, random_state=0)
    >>> for piece in np.array_split(X, 40):
    ...     kalman = kalman.partial_fit(piece, continues=True)
    >>> bool(np.abs(kalman.forecast(X, n_steps=3) - wave[2000:]).max() < 0.2)
    True
    """

    n_dim_state: int | None = parameter(default=None, valid=[None, COUNT], kw_only=False)
    transition_matrices: object = parameter(default=None, valid=_ARRAY, structural=True)
    observation_matrices: object = parameter(default=None, valid=_ARRAY, structural=True)
    transition_covariance: object = parameter(default=None, valid=_ARRAY, structural=True)
    observation_covariance: object = parameter(default=None, valid=_ARRAY, structural=True)
    transition_offsets: object = parameter(default=None, valid=_ARRAY, structural=True)
    observation_offsets: object = parameter(default=None, valid=_ARRAY, structural=True)
    initial_state_mean: object = parameter(default=None, valid=_ARRAY, structural=True)
    initial_state_covariance: object = parameter(default=None, valid=_ARRAY, structural=True)
    transition_input_weights: object = parameter(default=None, valid=_ARRAY, structural=True)
    observation_input_weights: object = parameter(default=None, valid=_ARRAY, structural=True)
    structure: object = parameter(
        default=None, valid=[None, Component, "array-like"], structural=True
    )
    em_vars: object = parameter(
        default=None,
        valid=[None, StrOptions({"all"}), "array-like", set, frozenset],
        structural=True,
    )
    params: Mapping[str, object] | None = parameter(
        default=None, valid=[None, dict], structural=True
    )
    transition_covariance_type: str = parameter(
        default="full", valid=[StrOptions(set(SHAPES))], structural=True
    )
    observation_covariance_type: str = parameter(
        default="full", valid=[StrOptions(set(SHAPES))], structural=True
    )
    reg_covar: float | str = parameter(
        default="relative",
        valid=[StrOptions({"relative"}), Interval(Real, 0, MOST, closed="both")],
        structural=True,
    )
    prior: Mapping[str, object] | LearntPrior | None = parameter(
        default=None, valid=[None, dict, LearntPrior]
    )
    init: str = parameter(default="auto", valid=[StrOptions({"auto", *START_STATES})])

    _takes = frozenset({"missing"})
    _other_starts = FIELDS_WITH_INPUTS

    def _system(self, varying=()):
        noise_types = {
            "transition_covariance": self.transition_covariance_type,
            "observation_covariance": self.observation_covariance_type,
        }
        if self.structure is not None:
            others = [*FIELDS_WITH_INPUTS, "n_dim_state", "em_vars", "params"]
            given = [name for name in others if getattr(self, name) is not None]
            if given:
                raise ValueError(f"structure determines {given[0]}: leave it out.")
            parts = tuple(checked_structure(self.structure))
            return System.of_structure(parts, self.reg_covar, **noise_types)
        given, varying = {n: getattr(self, n) for n in FIELDS_WITH_INPUTS}, frozenset(varying)
        return System(
            given, self.n_dim_state, self.em_vars, self.params, noise_types, self.reg_covar, varying
        )

    _reader = KalmanReader

    def _n_inputs(self, fresh):
        return self._system().sizes.get("m") if fresh else self._fitted.state.model.n_inputs

    def _initialiser(self):
        return SystemInitialiser(self._system(), self.init, self._prior)

    def _prior(self, model, n_features):
        if self._learnt_prior is not None:
            k = self._system().of_columns(model.n_features).n_states
            if model.n_components != k:
                raise ValueError(
                    f"prior was learnt with n_dim_state={model.n_components}, but the estimator has"
                    f" {k}."
                )
        given = self._hyperparameters
        return system_prior(given, model) if given else None

    def _check_structure(self, may_change=frozenset(), shape=None):
        # Learnt arrays may start from other values next time.
        super()._check_structure(may_change | self._system().learnt(), shape)
        if shape is not None:
            return
        model = self.model_
        system = self._system().of_columns(model.n_features)
        if model.n_components != system.n_states:
            raise ValueError(
                f"the fitted model has n_dim_state={model.n_components}, but the parameters now"
                f" give {system.n_states}; call fit again."
            )

    def _learning(self, model):
        varying = () if model.varying is None else model.varying.given
        system = self._system(varying).of_columns(model.n_features)
        return replace(system, n_inputs=model.n_inputs).learning(model)

    def _bound(self, model, data):
        return super()._bound(model, data).seeing(data)

    def _with_end(self, state, data):
        state, end = super()._with_end(state, data)
        n = state.model.n_inputs
        return state, (*end, data.X[-1, n : 2 * n].astype(np.float64)) if n else end

    def _check_continues(self, continues):
        super()._check_continues(continues)
        if continues:
            self._check_constant("sequences cannot be continued")

    def _check_constant(self, what):
        """Raise ValueError if arrays vary in time, as it is unknown at which row they are."""
        fitted = self.__dict__.get("_fitted")
        if fitted is not None:
            varying = fitted.state.model.varying
            names = () if varying is None else [*varying.given]
        else:
            names = varying_names(vars(self))
        if names:
            raise ValueError(
                f"{type(self).__name__}: {what} with {names[0]} that vary in time; pass whole"
                " sequences."
            )

    def _seen(self):
        if not self.__dict__.keys() & {"_fitted", "_given"}:
            # If nothing is learnt, arrays are enough.
            known = type(self)(**self.get_params(deep=False))
            try:
                known._validate_params()
                if not known._system().learnt():
                    set_known(known, {})
            except ours(TypeError, ValueError):
                pass
            if known.__sklearn_is_fitted__():
                return known
        try:
            return super()._seen()
        except NotFittedError as error:
            if "_given" in self.__dict__ or missing_parts(self, {}):
                raise
            raise NotFittedError(
                f"{error} KalmanFilter.from_parameters takes its arrays as they are, and em_vars=[]"
                " says that nothing is learnt."
            ) from None

    # ---------------------------------------------------------------------------------- inference

    def _moments(self, method, X, *cut, **where):
        seen = self._seen()
        parts, form = seen._made(method, X, *cut, **where)
        return tuple(form.restored(exposed(seen, part)) for part in parts)

    def filter(
        self, X: SequenceData, *cut: Cut, **where: Unpack[Where]
    ) -> tuple[FloatsOrList, FloatsOrList]:
        """Return the moments of the states given the rows so far, p(h_t | v_1..t).

        Returns
        -------
        means : ndarray of shape (n_rows, n_dim_state), or list
        covariances : ndarray of shape (n_rows, n_dim_state, n_dim_state), or list
            Lists have an array for each sequence, if X has one entry for each.

        Examples
        --------
        A random walk with steps and noise of variance 1:

        >>> from sklearn_onlineem import KalmanFilter
        >>> walk = KalmanFilter(em_vars=[], transition_covariance=1.0, observation_covariance=1.0)
        >>> means, covariances = walk.fit([[0.0], [3.0]]).filter([[0.0], [3.0]])
        >>> means.ravel().round(2), covariances.ravel().round(2)
        (array([0. , 1.8]), array([0.5, 0.6]))
        """
        return self._moments("filtered", X, *cut, **where)

    def smooth(
        self, X: SequenceData, *cut: Cut, lags: bool = False, **where: Unpack[Where]
    ) -> tuple[FloatsOrList, ...]:
        """Return the moments of the states given whole sequences (Rauch, Tung & Striebel).

        Parameters
        ----------
        lags : bool, default=False
            Whether to also return the covariances of consecutive states.

        Returns
        -------
        means : ndarray of shape (n_rows, n_dim_state), or list
        covariances : ndarray of shape (n_rows, n_dim_state, n_dim_state), or list
        lag_covariances : ndarray of shape (n_rows, n_dim_state, n_dim_state), or list
            With ``lags=True``: Cov(h_t, h_t-1), 0 for the first row of a sequence.
        """
        means, covariances, lag_covariances = self._moments("smoothed", X, *cut, **where)
        return (means, covariances, lag_covariances) if lags else (means, covariances)

    def transform(self, X: SequenceData, *cut: Cut, **where: Unpack[Where]) -> FloatsOrList:
        """Return the means of the states given whole sequences, as `smooth` does.

        Returns
        -------
        means : ndarray of shape (n_rows, n_dim_state), or list
            A list of arrays, one for each sequence, if X has one entry for each.
        """
        return self.smooth(X, *cut, **where)[0]

    def predict(
        self, X: SequenceData, *cut: Cut, return_cov: bool = False, **where: Unpack[Where]
    ) -> FloatsOrList | tuple[FloatsOrList, FloatsOrList]:
        """Return the expectation of each row given those before it.

        Parameters
        ----------
        return_cov : bool, default=False
            Whether to also return covariances.

        Returns
        -------
        means : ndarray of shape (n_rows, n_features), or list
        covariances : ndarray of shape (n_rows, n_features, n_features), or list
            The variance of a column that earlier rows leave undetermined (a diffuse start) is
            infinite, and its covariances with other columns are NaN.
        """
        means, covariances = self._moments("predicted", X, *cut, **where)
        return (means, covariances) if return_cov else means

    def impute(self, X: SequenceData, *cut: Cut, **where: Unpack[Where]) -> FloatsOrList:
        """Return X with missing values replaced by their expectations given whole sequences.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features), or list
            Observed values are unchanged. The output follows `set_output`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import KalmanFilter
        >>> walk = KalmanFilter(em_vars=[], transition_covariance=1.0, observation_covariance=1e-6)
        >>> walk.fit([[0.0], [3.0]]).impute([[0.0], [np.nan], [np.nan], [3.0]]).ravel().round(2)
        array([0., 1., 2., 3.])
        """
        seen = self._seen()
        rows, form = seen._made("imputed", X, *cut, **where)
        return in_container(self, form.restored(exposed(seen, rows)), X)

    def decompose(
        self, X: SequenceData, lengths: ArrayLike | None = None, **where: Unpack[Where]
    ) -> dict[str, tuple[FloatsOrList, FloatsOrList]]:
        """Return the components of series, given all rows.

        Returns
        -------
        components : dict of tuple (ndarray of shape (n_rows,), ndarray of shape (n_rows,))
            Means and variances, by names such as "level", "slope" and "season"; but for slopes,
            they add up to the series without its noise. Arrays are of shape (n_rows, n_features) if
            X has several columns. Lists have an array for each sequence, if X has one entry for
            each.

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, has no `structure`, or X is invalid.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import KalmanFilter
        >>> from sklearn_onlineem.structure import Season, Trend
        >>> series = np.arange(40.0)[:, None] + np.tile([3.0, -3.0], 20)[:, None]
        >>> series += 0.1 * np.random.default_rng(0).normal(size=series.shape)
        >>> found = KalmanFilter(structure=Trend() + Season(2)).fit(series).decompose(series)
        >>> [*found], found["season"][0][:4].round()
        (['level', 'slope', 'season'], array([ 3., -3.,  3., -3.]))
        """
        seen = self._seen()
        fitted = zip(self._structural_parameters, seen._fitted.structure, strict=True)
        structure = dict(fitted)["structure"]
        if structure is None:
            raise ValueError(f"{type(self).__name__}: decompose requires a structure.")
        (means, covariances, *_), form = seen._made("smoothed", X, lengths, **where)
        found, unit = {}, np.eye(seen.n_features_in_)
        for name, output in assembled(structure).outputs.items():
            outputs = np.kron(unit, output)
            parts = [means @ outputs.T, np.einsum("di,nij,dj->nd", outputs, covariances, outputs)]
            if name == "inputs":
                cut = {"lengths": lengths, "groups": where.get("groups")}
                known = seen._input().form_of(where.get("inputs"), np.float64, **cut)
                parts[0] = known.X @ seen.observation_input_weights_.T
            parts[1] = np.maximum(parts[1], 0.0)
            parts = [part[:, 0] if len(unit) == 1 else part for part in parts]
            found[name] = tuple(form.restored(exposed(seen, part)) for part in parts)
        return found

    def filter_update(
        self,
        filtered_state_mean: ArrayLike | None = None,
        filtered_state_covariance: ArrayLike | None = None,
        observation: ArrayLike | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the filtered moments after one more row.

        Parameters
        ----------
        filtered_state_mean : array-like of shape (n_dim_state,), default=None
            Mean of the state given the rows so far; None before the first row.
        filtered_state_covariance : array-like of shape (n_dim_state, n_dim_state), default=None
            Its covariance; None with the mean, before the first row.
        observation : array-like of shape (n_features,), default=None
            The row, with NaN or a mask for missing values; None: nothing was observed.

        Returns
        -------
        filtered_state_mean : ndarray of shape (n_dim_state,)
        filtered_state_covariance : ndarray of shape (n_dim_state, n_dim_state)

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, only one of the two moments is given, or a shape is
            wrong; if the model has inputs, which `live_filter` takes.
        """
        seen = self._seen()
        live = seen.live_filter()
        if seen.model_.n_inputs:
            raise ValueError(
                f"{type(self).__name__}: filter_update takes no inputs, and the model has"
                f" {seen.model_.n_inputs}; use live_filter()."
            )
        if (filtered_state_mean is None) != (filtered_state_covariance is None):
            raise ValueError(
                f"{type(self).__name__}: pass both filtered_state_mean and"
                " filtered_state_covariance, or neither."
            )
        if filtered_state_mean is not None:
            live.start_from(filtered_state_mean, filtered_state_covariance)
        return live.update(
            np.full(seen.n_features_in_, np.nan) if observation is None else filled(observation)
        )

    def live_filter(self, *, continues: bool = False) -> MomentFilter:
        """Return a filter that takes one row at a time.

        Parameters
        ----------
        continues : bool, default=False
            Whether its rows follow those of the last `partial_fit`, which had ``continues=True``:
            then it begins with `filtered_state_`, else with a new sequence.

        Returns
        -------
        live_filter : MomentFilter
            Later updates of the estimator do not change it.
        """
        self._check_constant("there is no live filter")
        return self._live_filter(MomentFilter, continues)

    def _ahead_of(self, data, future, n_steps):
        return self.model_.forecast(data, n_steps, future)

    @by_name("n_sequences is passed by name, and random_state is a parameter of the estimator")
    def sample(
        self,
        n_samples: int = 1,
        *,
        n_sequences: int | None = None,
        inputs: SequenceData | None = None,
    ) -> tuple[FloatsOrList, FloatsOrList]:
        """Draw rows from the fitted model, given inputs if it has any.

        Parameters
        ----------
        n_samples : int, default=1
            Rows of a sequence; not used with inputs.
        n_sequences : int, default=None
            Number of sequences. None: one, as arrays instead of lists. Not used with inputs.
        inputs : array-like, default=None
            Known inputs: an array, or a list with one for each sequence. A row is drawn for each of
            theirs. None: the model has none.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or list of such arrays
        states : ndarray of shape (n_samples, n_dim_state), or list of such arrays

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, `n_samples` or `n_sequences` is below 1, memory is too
            small, inputs are invalid, or moments overflow.
        """
        seen = self._seen()
        with error_context(self):
            form = seen._input().form_of(inputs, np.float64)
        if form is None:
            return super().sample(n_samples, n_sequences=n_sequences)
        with error_context(self), single_threaded_blas(form.offsets[-1]):
            blank = np.empty((form.offsets[-1], seen.n_features_in_))
            like = with_inputs_before(blank, form.X, form.offsets)
            data, states = seen.model_.sample(len(like), generator(seen), like)
        return form.restored(seen._as_given(data.outputs.X)), form.restored(states)

    # --------------------------------------------------------------------------------- attributes

    _sizes = {"k": "n_dim_state"}

    def _fitted_sizes(self):
        # Arrays that vary in time may be longer.
        sizes = super()._fitted_sizes()
        return {axis: size for axis, size in sizes.items() if axis not in VARYING.values()}

    def _known_sizes(self, given):
        sizes = self._system().sizes
        # Arrays say how many columns have the structure.
        return sizes if self.structure is None else {a: n for a, n in sizes.items() if a == "m"}

    def _parts(self):
        return LinearDynamicalModel.own_parts

    def _blank(self, sizes, n_features, given):
        arrays = {name.removesuffix("_"): values for name, values in given.items()}
        system = self._system(varying_names(arrays))
        n_features = max(n_features, sizes.get("k", 0) // (system.n_of_column or MOST))
        system = replace(system.of_columns(int(n_features)), n_inputs=sizes.get("m", 0))
        return system.known_model(system.known(n_features, given))

    def _with(self, model, given):
        return self._learning(super()._with(model, given))

    @fitted_property
    def filtered_state_(self) -> tuple[Floats, Floats]:
        return tuple(map(partial(exposed, self), self._end()[:2]))

    initial_state_mean_ = Settable[Floats](optional="initial_state_mean")
    initial_state_covariance_ = Settable[Floats](
        optional="initial_state_covariance", may_be_infinite=True
    )
    transition_matrices_ = Settable[Floats](optional="transition_matrices")
    transition_offsets_ = Settable[Floats](optional=True)
    transition_covariance_ = Settable[Floats](optional="transition_covariance")
    observation_matrices_ = Settable[Floats](optional="observation_matrices")
    observation_offsets_ = Settable[Floats](optional=True)
    observation_covariance_ = Settable[Floats](optional="observation_covariance")
    transition_input_weights_ = Settable[Floats](optional=True, requires="inputs")
    observation_input_weights_ = Settable[Floats](optional=True, requires="inputs")

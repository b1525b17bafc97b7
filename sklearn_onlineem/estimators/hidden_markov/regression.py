"""Hidden Markov models whose states are regressions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem._checks import check_count, finite_start, relative_shares
from sklearn_onlineem._typing import Floats, FloatsOrList, IntegersOrList, SequenceData
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.data.rows import Rows, RowsWithInputs
from sklearn_onlineem.data.sequences import Sequences, SequencesWithInputs, lagged
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators._regressions import RegressionParameters, ShortRuns, with_inputs_of
from sklearn_onlineem.estimators.fitted import FittedAttribute
from sklearn_onlineem.estimators.hidden_markov._base import BaseHMM
from sklearn_onlineem.estimators.hidden_markov._start import HiddenMarkovInitialiser
from sklearn_onlineem.estimators.inputs import InputsReader, TakesInputs
from sklearn_onlineem.estimators.learning import generator
from sklearn_onlineem.estimators.parameters import COUNT_FROM_0, by_name, estimator, parameter
from sklearn_onlineem.estimators.sequences import observed_rows
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.families import BernoulliRegression, PoissonRegression
from sklearn_onlineem.families._start_coordinates import standardised
from sklearn_onlineem.models.hidden_markov.regression_forecasts import forecast_of_regressions
from sklearn_onlineem.models.live_filters import RegressionFilter
from sklearn_onlineem.models.terminations import GivenLength


class RegressionHMMReader(InputsReader):
    """Reads sequences and their inputs; models take lags, inputs and rows side by side."""

    def _end(self):
        # The last row of a sequence that goes on stands beside its state.
        end = super()._end()
        return end if end is None else end[0]

    def _sequences(self, rows):
        (n_rows, n_features), values = rows.X.shape, rows.X
        lags = self._estimator.lags if self._fresh else self._estimator._n_lags
        missing = np.isnan(values)
        if (missing.any(axis=1) & ~missing.all(axis=1)).any():
            raise ValueError("X has NaN in rows with other values. Only whole rows can be missing.")
        past = lagged(values, self.form.offsets, lags, self._last)
        inputs = self._inputs_of(rows)
        if inputs is None:
            if self._fresh and not lags:
                raise ValueError(
                    "inputs must be passed, or lags be 1 or more. Without inputs and lags there is"
                    " GaussianHMM."
                )
            inputs = np.empty((n_rows, 0), rows.dtype)
        if self._fresh:
            self.attributes["_n_lags"] = lags
        rows = replace(rows, X=np.hstack([past, inputs, values]))
        if self._fresh:
            self._family = self._estimator._family(rows.X.shape[1] - n_features)
        sequences = Sequences.unchecked(rows, self.form.offsets)
        data = SequencesWithInputs.of(sequences, rows.X.shape[1] - n_features)
        if data.observed is not None:
            # Those without lags are lags of the next ones.
            unseen = rows.X[~data.observed & ~missing.any(axis=1)]
            self._family.check(np.where(np.isnan(unseen), 0.0, unseen))
        if self._fresh and lags and data.observed is not None and not data.observed.any():
            raise ValueError(
                f"no row of X (n_samples={n_rows}) has the {lags} rows before it that lags={lags}"
                " needs: pass more rows at first."
            )
        return data


@dataclass(frozen=True)
class RegressionHMMInitialiser(ShortRuns, HiddenMarkovInitialiser):
    """Regressions start as those of mixtures, from rows in any order."""

    @staticmethod
    def _rows(data):
        return RowsWithInputs.of(observed_rows(data), data.n_inputs)

    def _started(self, data, family, rows, *arguments):
        start, shape = self, (data.n_rows, self.n_components)
        if np.shape(self.init) == shape:
            kept = slice(None) if data.observed is None else data.observed
            start = replace(self, init=relative_shares("init", self.init, shape)[kept])
        elif not isinstance(self.init, str):
            centres = finite_start("init", self.init, (self.n_components, data.n_features))
            outputs = rows.X[:, data.n_inputs :]
            to = standardised(outputs, None)
            nearest = pairwise_distances_argmin(to(outputs), to(centres.astype(outputs.dtype)))
            start = replace(self, init=np.eye(self.n_components)[nearest])
        return HiddenMarkovInitialiser._started(start, data, family, rows, *arguments)


def _has_no_noise(hmm):
    return hmm.response != "gaussian"


@estimator
class RegressionHMM(RegressionParameters, TakesInputs, BaseHMM):
    r"""Hidden Markov model whose states are regressions on inputs, and on earlier rows.

    .. math::
        p(v, h \mid x) = \pi_{h_1} \prod_{t > 1} a_{h_{t-1} h_t} \prod_t
        N(v_t;\; A^1_{h_t} v_{t-1} + \dots + A^p_{h_t} v_{t-p} + B_{h_t} x_t + c_{h_t},\; R_{h_t})

    Inputs x are known, such as prices, temperatures or calendar effects; they have no model. Rows
    that are not observed leave out their term, and so do rows with lags that are not: the first p
    rows of a sequence, and the p rows after a missing one. Time passes in them. Each online step
    minimises the EM bound of a batch, given inputs, plus 1/eta times the KL divergence to the old
    model in expectation over the inputs and lags that each state has seen, whose moments it
    carries.

    With ``response="bernoulli"`` rows are bits, and states are logistic regressions on inputs and
    lags, see `families.BernoulliRegression`. With ``response="poisson"`` rows are counts, and log
    rates are linear in inputs and in the logarithms of 1 + lags, see `families.PoissonRegression`.

    Parameters
    ----------
    response : {"gaussian", "bernoulli", "poisson"}, default="gaussian"
        Whether rows are real numbers with normal noise, or bits, 0 or 1, whose log odds are linear,
        or counts, whole numbers from 0 up, whose log rates are. The M-step of the first two is
        closed; that of counts is a part of a Newton step, by which the likelihood never falls. Bits
        and counts have no `covariance_type` and `reg_covar`.
    lags : int, default=0
        How many earlier rows of the same sequence the regressions take besides inputs: p.
    init : str or array-like, default="short-em"
        Start of the regressions: as in `RegressionMixture`, with responsibilities of shape
        (n_rows, n_components) for the rows of all sequences; or centres of rows of X, of shape
        (n_components, n_features).
    prior : dict, "auto", LearntPrior or None, default=None
        Hyper-parameters of the conjugate prior, as in `RegressionMixture`, of bits and counts
        ``matrix_precision`` and ``offset_precision``; or the result of `as_prior` of a fitted
        estimator. "auto" and None are maximum likelihood.

    Attributes
    ----------
    coef_ : ndarray of shape (n_components, n_features, lags * n_features + n_inputs)
        Coefficients in each state: first of the row before, then of the one before that, and so on,
        and then of the inputs.
    intercept_ : ndarray of shape (n_components, n_features)
        Expected rows, log odds of bits, or log rates, in each state where lags and inputs are 0.
    covariances_ : ndarray
        Covariances of the noise, of shape (n_components, n_features, n_features) full,
        (n_components, n_features) diagonal or (n_components,) spherical.

    See Also
    --------
    RegressionMixture : The same for rows without order.
    GaussianHMM : Without inputs and lags.

    References
    ----------
    .. [1] Hamilton, "A new approach to the economic analysis of nonstationary time series and the
       business cycle", Econometrica 1989; Hamilton, "Time Series Analysis", 1994, chapter 22.

    Examples
    --------
    Consumption follows the price in one regime, and not in the other:

    >>> import numpy as np
    >>> from sklearn_onlineem import RegressionHMM
    >>> rng = np.random.default_rng(0)
    >>> price, slope = rng.normal(size=400), np.repeat([-2.0, 0.0, -2.0, 0.0], 100)
    >>> X = (5.0 + slope * price + 0.1 * rng.normal(size=400))[:, None]
    >>> hmm = RegressionHMM(2, random_state=0).fit(X, inputs=price)
    >>> np.sort(hmm.coef_.ravel()).round(1), np.flatnonzero(np.diff(hmm.predict(X, inputs=price)))
    (array([-2.,  0.]), array([ 99, 199, 299]))
    """

    response: str = parameter(
        default="gaussian",
        valid=[StrOptions({"gaussian", "bernoulli", "poisson"})],
        structural=True,
    )
    lags: int = parameter(default=0, valid=[COUNT_FROM_0], structural=True)

    _n_lags = FittedAttribute[int]("How many earlier rows the fitted model takes.")

    _reader = RegressionHMMReader

    def _n_inputs(self, fresh):
        n_lagged = None if fresh else self._n_lags * self.n_features_in_
        return None if fresh else self.model_.family.n_inputs - n_lagged

    def _family(self, n_inputs=1):
        if self.response == "gaussian":
            return super()._family(n_inputs)
        for name in ("covariance_type", "reg_covar"):
            if getattr(self, name) != self._defaults[name]:
                raise ValueError(f"{name} requires response='gaussian', got {self.response!r}.")
        if self.response == "bernoulli":
            return BernoulliRegression(n_inputs)
        return PoissonRegression(n_inputs, n_lags=self.lags)

    def _initialiser(self):
        return RegressionHMMInitialiser.of(self)

    # ------------------------------------------------------------------------------- fitted values

    def _features_of(self, sizes, given):
        return sizes.get("p")

    def _attributes_of(self, given, n_steps):
        return {"_n_lags": self.lags} if n_steps == 0 else {}

    def _known_family(self, sizes):
        n_lagged = self.lags * sizes.get("p", 0)
        n_inputs = sizes.get("d", max(1, n_lagged))
        if n_inputs < n_lagged:
            raise ValueError(
                f"coef must have {n_lagged} columns or more with lags={self.lags}, got {n_inputs}."
            )
        return self._family(n_inputs)

    def _standard(self, family, n_components, n_features):
        return family.blank(n_components, n_features)

    covariances_ = Settable[Floats](optional=_has_no_noise, requires="response='gaussian'")

    def _bound(self, model, data):
        rows = observed_rows(data)
        return with_inputs_of(model, rows) if len(rows) else super()._bound(model, data)

    def _with_end(self, state, data):
        state, end = super()._with_end(state, data)
        return state, None if end is None else (end, data.X[-1].astype(np.float64))

    # ----------------------------------------------------------------------------------- inference

    def _ahead_of(self, data, future, n_steps):
        return forecast_of_regressions(self.model_, data, future, self._n_lags)

    def live_filter(self, *, continues: bool = False) -> RegressionFilter:
        return self._live_filter(partial(RegressionFilter, lags=self._seen()._n_lags), continues)

    live_filter.__doc__ = BaseHMM.live_filter.__doc__.replace("StateFilter", "RegressionFilter")

    @by_name("n_sequences is passed by name, and random_state is a parameter of the estimator")
    def sample(
        self,
        n_samples: int = 1,
        *,
        n_sequences: int | None = None,
        inputs: SequenceData | None = None,
    ) -> tuple[FloatsOrList, IntegersOrList]:
        """Draw rows from the fitted model, given inputs if it has any.

        Before its first row, each sequence was where its first state rests: where expected rows
        equal those before them, of bits and counts nearly.

        Parameters
        ----------
        n_samples : int, default=1
            Rows of a sequence; not used if the model determines the lengths, or with inputs.
        n_sequences : int, default=None
            Number of sequences. None: one, as arrays instead of lists. Not used with inputs.
        inputs : array-like, default=None
            Known inputs: an array, or a list with one for each sequence. A row is drawn for each of
            theirs. None: the model has none.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or list of such arrays
        states : ndarray of int of shape (n_samples,), or list of such arrays

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, `n_samples` or `n_sequences` is below 1, inputs are
            invalid, or are passed to a model that determines the lengths; if rows overflow, as
            those of lags that are too large will.
        """
        seen, name = self._seen(), type(self).__name__
        check_count(f"n_samples of {name}", n_samples)
        check_count(f"n_sequences of {name}", n_sequences, optional=True)
        n, is_nested = int(n_sequences or 1), n_sequences is not None
        with error_context(self):
            model, rng, n_features = seen.model_, generator(seen), seen.n_features_in_
            form = seen._input().form_of(inputs, np.float64)
            lengths, known = np.full(n, int(n_samples)), None
            if form is not None:
                if not isinstance(model.termination, GivenLength):
                    raise ValueError("inputs have lengths, and the model determines them, too.")
                lengths, known, is_nested = np.diff(form.offsets), form.X, form.is_nested
            else:
                room("n_samples * n_sequences", (n, int(n_samples), n_features))
            drawn = []
            for length in lengths:
                like = Sequences(Rows(np.empty((length, 0))), np.array([0, length]))
                drawn.append(model._sampled_states(1, rng, like)[1])
            cuts = np.cumsum([len(states) for states in drawn])[:-1]
            inputs = np.empty((sum(map(len, drawn)), 0)) if known is None else known
            with np.errstate(over="ignore", invalid="ignore"), single_threaded_blas(len(inputs)):
                rows = [
                    _drawn_rows(model, seen._n_lags, states, part, rng)
                    for states, part in zip(drawn, np.split(inputs, cuts), strict=True)
                ]
            if not all(np.isfinite(part).all() for part in rows):
                raise ValueError(
                    "rows that are drawn overflow: coefficients of lags are too large."
                )
        rows = [seen._as_given(part) for part in rows]
        return (rows, drawn) if is_nested else (rows[0], drawn[0])


def _drawn_rows(model, n_lags, states, inputs, rng):
    """Return rows of one sequence, given states and inputs."""
    family, parameters, q = model.family, model.parameters, inputs.shape[1]
    if not n_lags:
        return family.sample_outputs(parameters, states, inputs, rng)
    n_lagged, rows = family.n_inputs - q, []
    past = np.tile(family.rest(parameters, states[0], inputs[0]), n_lags)
    for t in range(len(states)):
        x = np.append(past, inputs[t])[None]
        rows.append(family.sample_outputs(parameters, states[t : t + 1], x, rng)[0])
        past = np.append(rows[-1], past)[:n_lagged]
    return np.array(rows)

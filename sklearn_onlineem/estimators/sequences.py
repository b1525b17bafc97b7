"""Estimators whose samples are sequences: how they read, fit and score data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Self, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from sklearn_onlineem._checks import check_bool, check_count, require
from sklearn_onlineem._typing import Cut, Floats, FloatsOrList, IntegersOrList, SequenceData, Where
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.stages.memories import Remember
from sklearn_onlineem.estimators._labels import ReadsLabels
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.fitted import (
    FitTransformMixin,
    InformationCriteria,
    exposed,
    rollback,
)
from sklearn_onlineem.estimators.learning import OnlineDefaults, generator
from sklearn_onlineem.estimators.parameters import (
    AUTO,
    COUNT,
    by_name,
    estimator,
    fit_context,
    parameter,
)
from sklearn_onlineem.estimators.sequence_forms import (
    SequenceOutput,
    check_rows_of_y,
    dates_after,
    framed,
    sequence_form,
    with_columns_of_symbols,
)
from sklearn_onlineem.estimators.threads import single_threaded_blas, threads_for
from sklearn_onlineem.estimators.validation import (
    INVALID,
    check_values,
    error_context,
    raise_named,
    ready,
)
from sklearn_onlineem.models.forecasts import checked_levels

# Mini-batches of `fit` have so many rows, as those of mixtures, but a pass takes a number of steps
# between two, and a batch has a number of sequences. Fits are as good as in batches of 10.
_BATCH_ROWS, _FEWEST_STEPS, _MOST_STEPS, _FEWEST_IN_BATCH = 1000, 20, 50, 10


class SequencesInput(ReadsLabels):
    """Reads sequences in all forms of the user; the family checks the values."""

    def read(
        self, X, y=None, lengths=None, groups=None, continues=False, sample_weight=None,
        classes=None,
    ):  # fmt: skip
        """Return sequences, converted and checked; the first may continue the last of the fit."""
        try:
            if "symbols" in self._estimator._takes and lengths is None and groups is None:
                X = with_columns_of_symbols(X)
            self.form = sequence_form(X, lengths, groups, self._converted)
            check_rows_of_y(self.form, y)
            X, labels = self.form.X, None
            if classes is not None or (y is not None and self._takes_labels):
                y = None if y is None else self.form.flat(y)
                labels = self._components(y, X.shape[0], classes)
            n_threads = threads_for(self._n_jobs, X.size * self._n_components)
            data = self._sequences(Rows.unchecked(X, None, labels, n_threads))
            if sample_weight is not None:
                weight = self.form.weights(sample_weight)
                if continues:
                    goes_on = not self._fresh and self._estimator._fitted.end is not None
                    ends = weight[[0, -1] if goes_on else [-1]]
                    what = "1 for a sequence that goes on, as only whole ones are repeated"
                    require((ends == 1.0).all(), "sample_weight", what, ends.tolist())
                data = data.weighted(weight)[np.flatnonzero(weight)]
            family = self._estimator._family() if self._family is None else self._family
            check_values(data, family, self._fresh)
        except INVALID as error:
            raise_named(error, self._estimator)
        if continues and not self._fresh:
            return data.continued(self._end())
        return data

    def _end(self):
        """Return the distribution of the last state, of a sequence that goes on, or None."""
        return self._estimator._fitted.end

    def _sequences(self, rows):
        return Sequences.unchecked(rows, self.form.offsets)

    def _converted(self, X):
        found = None if self._fresh else ready(self._estimator, X, allow_nan=True)
        if found is None:
            found, self.attributes = self._estimator._converted(X, self._fresh, "allow-nan")
        return found


@estimator
class SequenceEstimator(
    SequenceOutput,
    ClassNamePrefixFeaturesOutMixin,
    FitTransformMixin,
    InformationCriteria,
    OnlineEM,
):
    """Base of hidden Markov models and Kalman filters; one observation is one sequence.

    Parameters
    ----------
    batch_size : int or "auto", default="auto"
        Sequences in a mini-batch of `fit`. With ``eta0="auto"``, data of no more sequences are
        fitted by batch EM. "auto": as many as have 1,000 rows, but from a fiftieth to a twentieth
        of all, so that a pass takes 20 to 50 steps, and at least 10.
    n_init : int, default=1
        Number of starts of `fit`; the best result is kept. The first is as with one start, the
        others draw states at random, as with ``init="random"``.

    Attributes
    ----------
    n_samples_seen_ : int
        Sequences so far.
    n_features_in_ : int
        Columns of the data.
    """

    batch_size: int | str = parameter(default="auto", valid=[COUNT, AUTO])
    n_init: int = parameter(default=1, valid=[COUNT])

    _reader = SequencesInput
    _online = OnlineDefaults(tol=1e-2)
    _where = ("lengths", "groups")

    # ------------------------------------------------------------------------------------ fitting

    def _n_in_batch(self, data, settles=False):
        if settles or self.batch_size != "auto":
            return super()._n_in_batch(data, settles)
        n = len(data)
        of_rows = min(math.ceil(_BATCH_ROWS * n / data.n_rows), n // _FEWEST_STEPS)
        return max(_FEWEST_IN_BATCH, of_rows, n // _MOST_STEPS)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Self:
        """Fit the model to all sequences.

        Parameters
        ----------
        X : list of array-likes of shape (length, n_features), or array-like
            Sequences: a list, an array of shape (n_sequences, length, n_features), or rows of shape
            (n_rows, n_features), which are one sequence without `lengths` and `groups`. A row of
            NaN was not observed.
        y : array-like of shape (n_rows,) or list of those, default=None
            With ``semi_supervised=True`` of a hidden Markov model labels, as many different ones as
            states, or numbers of states; -1, None and NaN where unknown. Otherwise ignored. None:
            no label is known. With a 2-D X it must have an entry for each row, so that lengths are
            not taken for it.
        sample_weight : array-like of shape (n_sequences,) or (n_rows,), default=None
            Non-negative weights of sequences; a weight of 2 is equivalent to two equal sequences.
            With a 2-D X there may be one for each row, the same for all rows of a sequence. Weights
            below 1e-100 count as 0; their sum must be above 0, and at most 1e100.
        lengths : array-like of int of shape (n_sequences,), default=None
            With a 2-D X: lengths of the sequences, which follow each other.
        groups : array-like of shape (n_rows,), default=None
            With a 2-D X: the sequence of each row. Works with metadata routing.
        """
        return self._fit(X, y, sample_weight=sample_weight, **where)

    def partial_fit(
        self,
        X: SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        continues: bool = False,
        **where: Unpack[Where],
    ) -> Self:
        """Update the model with a batch of sequences, or with a piece of one that continues.

        The first rows are kept, and the start is made anew from all of them as they come, see
        :ref:`stream_starts`; `n_rows_kept_` counts them. Parameters that were set since the last
        batch take effect with this one; those that shape the model cannot change.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`. A sequence that goes on over several calls must have weight 1.
        continues : bool, default=False
            Whether the first sequence of X continues the last one of the previous call that had
            ``continues=True``. For an endless sequence, pass True with every piece, including the
            first. Pieces may have any sizes. States of earlier pieces are not revised: see
            :ref:`sequences`. Requires ``termination="given_length"``.
        """
        self._check_continues(continues)
        where = {"sample_weight": sample_weight, "continues": continues, **where}
        self._partial_fit(X, y, self._with_end if continues else None, **where)
        return self

    def _with_end(self, state, data):
        """Return the state with the ends of its models, if several, and the `end` of the fit."""
        last = data[len(data) - 1 :] if len(data) > 1 else data
        memories = state.carry.get(Remember.name)
        if memories is None:
            return state, state.model.filtered_end(last)
        memories = memories.with_ends(last)
        end = memories.ends[memories.weights.argmax()]
        return state.carrying(Remember.name, memories), end

    def _check_continues(self, continues):
        """Raise ValueError if `continues` is no bool, or sequences of the model cannot continue."""
        check_bool(f"continues of {type(self).__name__}", continues)
        termination = getattr(self, "termination", "given_length")
        if continues and termination != "given_length":
            raise ValueError(
                f"{type(self).__name__}: continues=True requires termination='given_length', got"
                f" {termination!r}, with which sequences end."
            )

    # ---------------------------------------------------------------------------------- inference

    def _end(self):
        """Return the parts of the distribution of the last state, of a sequence that goes on."""
        end = self._fitted.end
        if end is None:
            raise AttributeError(
                f"{type(self).__name__} has filtered_state_ only after partial_fit with"
                " continues=True."
            )
        return end if isinstance(end, tuple) else (end,)

    def _live_filter(self, kind, continues):
        seen = self._seen()
        with error_context(self):
            check_bool("continues of live_filter", continues)
            if continues and seen._fitted.end is None:
                raise ValueError(
                    "no sequence goes on: live_filter(continues=True) needs that the last"
                    " partial_fit had continues=True."
                )
        before = [part.copy() for part in seen._end()] if continues else []
        categories = seen._fitted.attributes.get("_categories")
        return kind(seen.model_, *before, **({"categories": categories} if categories else {}))

    def score_samples(self, X: SequenceData, *cut: Cut, **where: Unpack[Where]) -> Floats:
        """Return the log-likelihood of each sequence.

        After `partial_fit` with ``solver="adaptive"`` it is that of the mixture of its models.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_sequences,)
            In nats; -inf for a sequence that the model cannot make.
        """
        return self._made("log_likelihood", X, *cut, **where)[0]

    def score_rows(
        self, X: SequenceData, *cut: Cut, continues: bool = False, **where: Unpack[Where]
    ) -> FloatsOrList:
        """Return the log-likelihood of each row given those before it, log p(v_t | v_1..t-1).

        They are low for unexpected rows, and add up to `score_samples` over a sequence. Where a
        hidden Markov model determines lengths, they include that the sequence goes on, or ends.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_rows,), or list
            In nats; 0 for a row of NaN.
        """
        self._check_continues(continues)
        return self._infer("row_log_likelihoods", X, *cut, continues=continues, **where)

    def score(
        self,
        X: SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> float:
        """Return the mean log-likelihood of the sequences in nats; higher is better.

        Parameters
        ----------
        y : array-like of shape (n_rows,), default=None
            Ignored; but with a 2-D X it must have an entry for each row, so that lengths are not
            taken for it.

        Returns
        -------
        log_likelihood : float
        """
        log_likelihoods, form = self._made("log_likelihood", X, **where)
        with error_context(self):
            check_rows_of_y(form, y)
            if sample_weight is None:
                return float(log_likelihoods.mean())
            weight = form.weights(sample_weight)
        counted = weight > 0.0  # Others may be impossible.
        return float(np.average(log_likelihoods[counted], weights=weight[counted]))

    def forecast(
        self,
        X: SequenceData,
        n_steps: int = 1,
        *,
        return_cov: bool = False,
        quantiles: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Floats | tuple[Floats, ...]:
        """Return the expectations of the rows after the end of each sequence.

        They only use the rows of X, which may end with missing ones. If a model determines lengths,
        forecasts are conditional on going on. See :ref:`forecasting`.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`, with NaN for missing values. Results for data frames of pandas
            with dates, or periods, are data frames with those that follow.
        n_steps : int, default=1
            Rows ahead.
        return_cov : bool, default=False
            Whether to also return covariances, for which the parameters are known; those of
            :func:`~sklearn_onlineem.diagnostics.forecast_moments` include the uncertainty of the
            parameters of Kalman filters.
        quantiles : array-like of shape (n_quantiles,), default=None
            Probabilities in (0, 1). Quantiles of each column are returned, too: with ``[0.05,
            0.95]`` the ends of intervals of 90 %. Columns of numbers and counts have quantiles.

        Returns
        -------
        means : ndarray of shape (n_steps, n_features), or (n_sequences, n_steps, n_features)
            The former for one 2-D sequence; a data frame, or a list of these, if X has dates. Of
            nominal columns, the most probable symbols.
        covariances : ndarray of shape (..., n_features, n_features)
            With ``return_cov=True``.
        quantiles : ndarray of shape (n_quantiles, ..., n_features)
            With `quantiles`; if X has dates a list, with the same forms as `means`.

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, X is invalid or impossible, or surely ends; if `n_steps`
            is not a whole number above 0, or dates do not have a frequency that pandas can infer;
            if the emissions have no means, covariances or quantiles.

        Examples
        --------
        A chain that stays in a state for ten rows on average, and was in the state of the mean 4:

        >>> from sklearn_onlineem import GaussianHMM
        >>> hmm = GaussianHMM.from_parameters(
        ...     startprob=[0.5, 0.5], transmat=[[0.9, 0.1], [0.1, 0.9]], means=[[0.0], [4.0]],
        ...     covars=[[1.0], [1.0]],
        ... )
        >>> mean, (low, high) = hmm.forecast([[0.1], [4.2]], 3, quantiles=[0.05, 0.95])
        >>> mean.ravel().round(2), low.ravel().round(2), high.ravel().round(2)
        (array([3.6 , 3.28, 3.02]), array([-0.01, -0.59, -0.83]), array([5.59, 5.55, 5.5 ]))
        """
        seen, name = self._seen(), f"of {type(self).__name__}"
        check_count(f"n_steps {name}", n_steps)
        levels = None if quantiles is None else checked_levels(f"quantiles {name}", quantiles)
        ahead, form = seen._ahead(X, int(n_steps), **where)
        with error_context(seen):
            dates = dates_after(X, form, int(n_steps))
            tables = [ahead.mean, *([] if levels is None else ahead.quantiles(levels))]
            covariances = ahead.covariance if return_cov else None
        of_one = 0 if is_one(form, where) else slice(None)

        def given(table):
            rows = seen._as_given(table.reshape(-1, table.shape[-1])).reshape(table.shape)
            return rows[of_one] if dates is None else framed(X, rows, dates)[of_one]

        mean, *found = map(given, tables)
        parts = [mean]
        if return_cov:
            parts.append(exposed(seen, covariances[of_one]))
        if levels is not None:
            parts.append(np.stack(found) if dates is None else found)
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _ahead(self, X, n_steps, **where):
        """Return the distributions of rows to come, and the form of X."""
        return self._made("forecast", X, given=(n_steps,), **where)

    def fit_transform(
        self,
        X: SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> FloatsOrList:
        """Fit, and return the result of `transform` for X.

        Returns
        -------
        transformed : ndarray of shape (n_rows, n_features_out), or list
        """
        with rollback(self):
            return self.fit(X, y, sample_weight=sample_weight, **where).transform(X, **where)

    @by_name("n_sequences is passed by name, and random_state is a parameter of the estimator")
    def sample(
        self, n_samples: int = 1, *, n_sequences: int | None = None
    ) -> tuple[FloatsOrList, FloatsOrList] | tuple[FloatsOrList, IntegersOrList]:
        """Draw rows from the fitted model.

        Parameters
        ----------
        n_samples : int, default=1
            Rows of a sequence; not used if the model determines the lengths.
        n_sequences : int, default=None
            Number of sequences. None: one, as arrays instead of lists.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or list of such arrays
        states : ndarray, or list of ndarrays
            Of shape (n_samples,), or (n_samples, n_dim_state) for Kalman filters.

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, `n_samples` or `n_sequences` is below 1, or memory is
            too small; if sequences whose lengths are modelled cannot end, or would have more than a
            million rows on average.
        """
        seen, name = self._seen(), type(self).__name__
        check_count(f"n_samples of {name}", n_samples)
        check_count(f"n_sequences of {name}", n_sequences, optional=True)
        n, n_samples = int(n_sequences or 1), int(n_samples)
        with error_context(self):
            which = "n_samples" if n == 1 else "n_samples * n_sequences"
            room(which, (n, n_samples, getattr(seen, "n_features_in_", 1)))
            like = Sequences(Rows(np.empty((n_samples, 0))), np.array([0, n_samples]))
            with single_threaded_blas(n_samples * n):
                data, states = seen.model_.sample(n, generator(seen), like)
        X = seen._as_given(data.X)
        if n_sequences is None:
            return X, states
        cuts = data.offsets[1:-1]
        return np.split(X, cuts), np.split(states, cuts)

    def _evidence(self, X, *cut, **where):
        found, form = self._made("log_likelihood", X, *cut, **where)
        return float(found.sum()), form.offsets[-1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def is_one(form, where):
    """Return whether X was one sequence, an array."""
    return not form.is_nested and all(where.get(name) is None for name in ("lengths", "groups"))


def observed_rows(data):
    """Return the rows to start from, those with an observed value."""
    rows = Rows.unchecked(data.X, data.rows.sample_weight, data.rows.labels, data.n_threads)
    if data.observed is None:
        return rows
    rows = rows[np.flatnonzero(data.observed)]
    return replace(rows, has_gaps=bool(np.isnan(rows.X).any()))

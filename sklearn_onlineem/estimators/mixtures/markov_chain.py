"""Mixtures of Markov chains: clusters of sequences of symbols."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Self, Unpack

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sklearn_onlineem._kernels._rows import are_ready
from sklearn_onlineem._typing import Floats, Integers, SequenceData, Where
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.estimators._columns import (
    first_categories,
    has_texts,
    named,
    table_of,
    with_codes,
)
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators._rows import RowsInput
from sklearn_onlineem.estimators.fitted import exposed, fitted_property, rollback
from sklearn_onlineem.estimators.learning import generator
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.parameters import COUNT, estimator, parameter
from sklearn_onlineem.estimators.sequence_forms import (
    SequenceForm,
    SequenceOutput,
    is_nested,
    sequence_form,
    with_columns_of_symbols,
)
from sklearn_onlineem.estimators.validation import (
    check_in_memory,
    checked_lengths,
    converted,
    error_context,
    filled,
)
from sklearn_onlineem.families.markov_chain import MarkovChain, n_symbols_of, transition_counts

# A wrong code must be an error, not an allocation of its square: codes are below the first number,
# or that of all rows, and below the second.
_FEW_SYMBOLS, _MOST_SYMBOLS = 1 << 8, 1 << 12
_NO_ROWS = (
    "a column of symbols (n_features=1) holds one sequence or several: pass lengths=[len(X)] or"
    " groups=..., or the list [X]. Without these, rows of a 2-D X are counts of transitions."
)


class ChainsInput(RowsInput):
    """Reads sequences as rows of counts, and such rows.

    Entries of a list or of a 3-D array, and of a `SequenceForm`, are sequences if they have one
    column or one dimension, and matrices of counts if they are square. A 2-D X, or a list of lists,
    has rows of counts.
    """

    def _converted(self, X):
        if isinstance(X, SequenceForm):
            return self._counted(X)
        check_in_memory("X", X)
        X = with_columns_of_symbols(X)
        if is_nested(X):
            form = sequence_form(X)
            if form.X.shape[1] == 1:
                return self._counted(form)
            n_columns = form.X.shape[1]
            if (np.diff(form.offsets) != n_columns).any():
                raise ValueError(
                    f"X has entries of {n_columns} columns that are not all square. Sequences have"
                    " one column, of symbols, and matrices of counts as many columns as rows."
                )
            X = np.asarray(filled(form.X)).reshape(-1, n_columns**2)
        else:
            is_list = isinstance(X, list | tuple)
            shape = np.shape(next(iter(X), None)) if is_list else getattr(X, "shape", ())[1:]
            if shape == (1,):
                raise ValueError(_NO_ROWS)
        return super()._converted(X)

    def read(self, X, y=None, sample_weight=None, classes=None, lengths=None, groups=None):
        if lengths is not None or groups is not None:
            with error_context(self._estimator):
                convert = partial(_texts_or_codes, self._estimator)
                X = sequence_form(X, lengths, groups, convert)
                if sample_weight is not None:
                    sample_weight = X.weights(sample_weight)
        return super().read(X, y, sample_weight, classes)

    def _counted(self, form):
        """Return the counts of transitions in sequences, in the columns of the first data."""
        estimator, X, given = self._estimator, form.X, self._estimator.n_symbols
        if self._fresh:
            table = table_of(X)
            nominal = {} if table is None else {0: given}
            known = first_categories(estimator, table, nominal, self._fresh)
        else:
            known = estimator._fitted.attributes.get("_categories", {})
        values = symbol_column(estimator, with_codes(X, known) if known else X)[:, 0]
        if not self._fresh:
            most = n_symbols_of(estimator.n_features_in_)
            why = "as in the first data; n_symbols sets their number"
        elif given is not None:
            most, why = given, f"n_symbols={given}"
        else:
            most, why = min(max(_FEW_SYMBOLS, len(values)), _MOST_SYMBOLS), "more need n_symbols"
        symbols, n_symbols = _codes(values, most, why), most
        if self._fresh:
            n_symbols = given or (len(known[0]) if known else int(symbols.max()) + 1)
            n_columns = n_symbols * (n_symbols + 1)
            room("n_symbols", (self._n_components, n_columns))
            sizes = {"n_features_in_": n_columns, "_dtype": values.dtype}
            self.attributes = {**sizes, "_categories": known}
        self._is_checked = True  # They are counts.
        counts = transition_counts(symbols, form.offsets, n_symbols, values.dtype)
        has_starts = self._fresh or estimator.n_features_in_ == counts.shape[1]
        return counts if has_starts else counts[:, n_symbols:]

    def _batch(self, X, weight, y, n_threads):
        if X.shape[1] == 1:
            raise ValueError(_NO_ROWS)
        n_symbols, given = n_symbols_of(X.shape[1]), self._estimator.n_symbols
        if self._fresh and given not in (None, n_symbols):
            raise ValueError(
                f"n_symbols is {given}, but X has {X.shape[1]} columns: counts of the transitions"
                f" between {n_symbols} symbols."
            )
        return super()._batch(X, weight, y, n_threads)


def symbol_column(estimator, X):
    """Return a column of symbols as floats, an array of shape (n_rows, 1)."""
    if sparse.issparse(X):
        raise TypeError("Sequences must be dense, but X is sparse.")
    if type(X) is np.ndarray and X.dtype.kind in "iu":
        X = X.astype(np.float64, order="C")
    if not are_ready(X, 1):
        # Its attributes are of the column, not of its counts, and not used.
        X, _ = converted(estimator, X, fresh=True)
    if X.shape[1] != 1:
        raise ValueError(f"Sequences have one column, of symbols, but X has {X.shape[1]}.")
    return X


def _texts_or_codes(estimator, X):
    """Return a column of texts or categories as it is, and of codes as floats."""
    table = table_of(X)
    is_column = table is not None and len(table.shape) == 2 and table.shape[1] == 1
    if not is_column or not has_texts(table[:, 0]):
        return symbol_column(estimator, X)
    return nw.to_native(table, pass_through=True)


def _codes(values, n_symbols, why):
    """Return values as integers below `n_symbols`."""
    wrong = np.flatnonzero(~((values >= 0) & (values < n_symbols) & (values == np.floor(values))))
    if len(wrong):
        raise ValueError(
            f"X has the symbol {values[wrong[0]]:.17g}, but symbols must be integer codes in"
            f" 0..{n_symbols - 1} ({why})."
        )
    return values.astype(np.int64)


@estimator
class MarkovChainMixture(SequenceOutput, BaseMixture):
    r"""Mixture of Markov chains: clusters of sequences of symbols, learnt online or in batch.

    .. math::
        p(x_1, \dots, x_T \mid T) = \sum_k w_k \, \pi_{k x_1} \prod_{t > 1} A_{k x_{t-1} x_t}

    One sample is one sequence, with its label and its weight. Its statistics are counts: of its
    first symbol, and of pairs of consecutive symbols. X may be

    - sequences of codes 0, 1, ..., or of letters, texts or categories, which the first data number,
      as `fit` does codes from 1 up: a list of texts, or of arrays of shape (length, 1) or
      (length,), an array of shape (n_samples, length, 1), or a column of shape (n_rows, 1) with
      `lengths` or `groups`;
    - rows of counts, dense or CSR, which is never made dense: of shape (n_samples, S + S * S), the
      first symbol one-hot and the flattened matrix of transitions from row to column; or of shape
      (n_samples, S * S), the transitions alone. A row may add up several sequences;
    - matrices of counts: an array of shape (n_samples, S, S), S > 1, or a list of them.

    All give the same model. Scores are log-likelihoods of sequences given their lengths, which are
    not modelled; scores of counts are those of one sequence with these counts. If the first data
    are transitions alone, scores are given the first symbol, for sequences too.

    Parameters
    ----------
    n_symbols : int, default=None
        Number of symbols. None: one more than the largest code in the first data, which must then
        be below 256, or below 4096 and the length of all sequences; or as many as there are texts,
        declared categories, or, in `fit`, codes from the least one on; or according to the columns
        of counts. Symbols beyond are an error.
    means_init : array-like of shape (n_components, n_features), default=None
        Expected counts to start from. Probabilities are their shares in the first symbol and in
        each row of the transitions.
    prior : dict, "auto", LearntPrior or None, default="auto"
        Dirichlet priors: `concentration` of the rows of the transition matrices, which broadcasts
        to (n_components, S, S), and `start_concentration` of the first symbol, to (n_components,
        S). 1, the default of each, is no prior; 2 adds a count to each. Or the result of `as_prior`
        of a fitted estimator. "auto": 1.5 for both, half a count. None: maximum likelihood, in
        which transitions that a component never saw get 1e-12, and those from a symbol that it
        never left are equal.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components, n_symbols)
        Probabilities of the first symbol. Of transitions alone: how often the symbols are left.
    transmat_ : ndarray of shape (n_components, n_symbols, n_symbols)
        Probabilities of the transitions from row to column.
    categories_ : list of ndarray
        Its array has what the codes of the symbols stand for.
    means_ : ndarray of shape (n_components, n_features)
        Expected counts, in the columns of rows of counts: probabilities times how often sequences
        of the component visit each symbol in the data, see
        :class:`~sklearn_onlineem.families.MarkovChain`.
    n_features_in_ : int
        Columns of rows of counts, n_symbols + n_symbols**2 if the first data were sequences.

    See Also
    --------
    CategoricalHMM : Sequences that change between states on their way.

    References
    ----------
    .. [1] Cadez, Heckerman, Meek, Smyth & White, "Model-based clustering and visualization of
       navigation patterns on a web site", Data Mining and Knowledge Discovery 7, 2003.

    Examples
    --------
    >>> from sklearn_onlineem import MarkovChainMixture
    >>> words = ["ababab", "aabbaabb", "bababa", "bbaabba"]
    >>> labels = MarkovChainMixture(2, random_state=0).fit_predict(words)
    >>> bool(labels[0] == labels[2] != labels[1] == labels[3])
    True
    """

    n_symbols: int | None = parameter(default=None, valid=[None, COUNT], structural=True)

    _reader = ChainsInput
    _takes = frozenset({"sparse", "positive", "symbols"})
    _where = ("lengths", "groups")

    # Pipelines pass it on unasked, and refuse steps that do not know it.
    __metadata_request__score = {"sample_weight": None}

    def _family(self):
        return MarkovChain()

    _sizes = {"k": "n_components", "s": "n_symbols"}
    means_ = replace(BaseMixture.means_, parts="lengths startprob transmat")

    def _features_of(self, sizes, given):
        return sizes.get("d") or ("s" in sizes and sizes["s"] * (sizes["s"] + 1)) or None

    startprob_ = Settable[Floats]()

    transmat_ = Settable[Floats]()

    # ------------------------------------------------------------------------------------ fitting

    def fit(
        self,
        X: SequenceData,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Self:
        """Fit the model to all sequences.

        Parameters
        ----------
        X : list of array-likes of shape (length, 1), or array-like
            Sequences or counts, see the class.
        y : array-like of shape (n_samples,), default=None
            With ``semi_supervised=True`` labels of the sequences, as many different ones as
            components, or numbers of components; -1, None and NaN where unknown. Otherwise ignored.
            None: no label is known.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; a weight of 2 is equivalent to two equal sequences. Weights below
            1e-100 count as 0; their sum must be above 0, and at most 1e100.
        lengths : array-like of int of shape (n_samples,), default=None
            With an X of one column: lengths of the sequences, which follow each other.
        groups : array-like of shape (n_rows,), default=None
            With an X of one column: the sequence of each row; sequences have the order of their
            first rows.
        """
        return super().fit(X, y, sample_weight, **where)

    def partial_fit(
        self,
        X: SequenceData,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Self:
        """Update the model with one batch of whole sequences.

        The first sequences are kept, and the start is made anew from all of them as they come, see
        :ref:`stream_starts`. Without `n_symbols` the first batch must have all symbols.
        """
        return super().partial_fit(X, y, sample_weight, **where)

    def fit_transform(
        self,
        X: SequenceData,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Floats:
        """Fit, and return the result of `transform` for X.

        Returns
        -------
        transformed : ndarray of shape (n_samples, n_components)
        """
        with rollback(self):
            return self.fit(X, y, sample_weight, **where).transform(X, **where)

    # ---------------------------------------------------------------------------------- inference

    def score_samples(
        self,
        X: SequenceData,
        lengths: ArrayLike | None = None,
        *,
        predictive: bool = False,
        **where: Unpack[Where],
    ) -> Floats:
        """Return the log-likelihood of each sequence.

        Parameters
        ----------
        predictive : bool, default=False
            Whether to use the posterior predictive distribution, a product of Polya distributions
            over the symbols, instead of the model. It requires ``solver="bayesian"``.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_samples,)
            In nats.
        """
        return super().score_samples(X, predictive, lengths=lengths, **where)

    def sample(
        self, n_samples: int = 1, lengths: ArrayLike | None = None
    ) -> tuple[list[Integers], Integers]:
        """Draw sequences from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of sequences.
        lengths : int or array-like of shape (n_samples,), default=None
            Symbols in each, at least 1. None: the mean length of its component, rounded.

        Returns
        -------
        X : list of ndarrays of shape (length, 1)
        y : ndarray of shape (n_samples,)
            The component of each sequence.
        """
        seen = self._seen()
        seen._check_n_samples(n_samples)
        model, rng = seen.model_, generator(seen)
        y = rng.choice(model.n_components, size=n_samples, p=model.weights)
        name = f"lengths of {type(self).__name__}"
        if lengths is None:
            lengths = model.family.mean_lengths(model.parameters)[y]
        lengths = np.broadcast_to(checked_lengths(name, lengths, n_samples, least=1), n_samples)
        room(name, (int(lengths.sum(dtype=object)),))
        symbols, offsets = model.family.sample_sequences(model.parameters, y, rng, lengths)
        known = seen._fitted.attributes.get("_categories")
        if known:
            return np.split(named(known[0], symbols)[:, None], offsets[1:-1]), y
        return np.split(exposed(seen, symbols[:, None]), offsets[1:-1]), y

    @fitted_property
    def categories_(self) -> list[NDArray[np.generic]]:
        known = self._fitted.attributes.get("_categories")
        return [known[0].copy() if known else np.arange(self.startprob_.shape[1])]

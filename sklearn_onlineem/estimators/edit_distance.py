"""A distance of strings that is learnt: memoryless transducers."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem.data import StringPairs
from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._symbols import SymbolCodes, are_text, pairs_of
from sklearn_onlineem.estimators._threads import threads_for
from sklearn_onlineem.estimators._transducer_inference import TransducerInference
from sklearn_onlineem.estimators._validation import naming
from sklearn_onlineem.models import EditStatistics, EditTransducer, FullOperations, TiedOperations
from sklearn_onlineem.models.edit_operations import KINDS

__all__ = ["EditDistance"]

PARAMETRIZATIONS = {"tied": TiedOperations, "full": FullOperations}

# Shares of match, mismatch, deletion and insertion that EM starts from.
_START = np.array([0.7, 0.1, 0.1, 0.1])
# Concentration of the default prior where each pair of symbols has a probability of its own: a
# symbol may always be kept, and rarely anything else.
_FULL_PRIOR = {"match": 1.5, "mismatch": 1.01, "delete": 1.1, "insert": 1.1}
_LARGEST_FULL_ALPHABET = 3000


class EditDistance(
    TransducerInference, ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnlineEM
):
    r"""Stochastic edit distance, learnt from pairs of strings by online or batch EM.

    A script of independent operations makes both strings, and an end, drawn with probability
    :math:`\delta_\#`, stops it. The distance is minus the log-probability of all scripts
    (stochastic), or of the best one (Viterbi):

    .. math:: d_S(x, y) = -\log p(x, y), \qquad d_V(x, y) = -\log \max_{script} p(x, y, script)

    With the mean numbers :math:`\bar\gamma_c` of operations of kind c that the pairs of a batch are
    expected to have, a step is

    .. math::
        \gamma_c = \frac{\delta_c / (\eta \delta_\#) + \bar\gamma_c}{1 / \eta + 1}, \qquad
        \tilde\delta_c = \frac{\gamma_c}{1 + \sum_{c'} \gamma_{c'}}, \qquad
        \tilde\delta_\# = \frac{1}{1 + \sum_{c'} \gamma_{c'}}

    Neither is a metric: a string has a distance from itself. Distances grow with length.

    Parameters
    ----------
    parametrization : {"tied", "full"}, default="tied"
        "tied": probabilities of match, mismatch, deletion, insertion and end, where symbols of a
        kind are equally probable. "full": one for each pair of symbols, each deletion and each
        insertion.
    alphabet : iterable of hashables, default=None
        The symbols that are known, for streams. None: those in the first data.
    operations_init : dict, default=None
        Probabilities to begin with, of "match", "mismatch", "delete", "insert" and "end". They are
        scaled to add up to 1.
    operation_prior : float or dict, default=None
        Concentration, 1 or more, of the Dirichlet prior on the operations: what it is for each
        probability, or a dict from "match", "mismatch", "delete" and "insert" to what it is for
        each operation of that kind. None: 1 (no prior) where they are tied. In the full
        parametrization, where most pairs of symbols are never seen, 1.5 for each match, 1.01 for
        each mismatch, 1.1 for each deletion and insertion.
    kind : {"stochastic", "viterbi"}, default="stochastic"
        The distance that `transform` returns, and other methods unless told.
    solver : {"online", "batch"}, default="online"
        What `fit` does. "online": `online_passes` in mini-batches of pairs, which come most of the
        way, then batch EM until `tol`; "batch": batch EM only.
    eta0 : float or "auto", default="auto"
        First learning rate, above 0. "auto" fits it to the size of the batches.
    beta : float, default=0.6
        Decay of the learning rate, in [0, 1]; the forgetting factor where
        ``schedule="forgetting"``.
    schedule : str or callable, default="power"
        "power", "harmonic", "constant", "forgetting", "bayesian", or any callable t -> eta.
    batch_size : int, default=500
        Pairs in a mini-batch of `fit`. No more pairs are fitted by batch EM.
    online_passes : int, default=1
        Shuffled passes in mini-batches, before batch EM settles the rest.
    max_iter : int, default=100
        Most passes over the data, of both kinds.
    tol : float, default=1e-3
        Passes end when `stopping` falls below, in nats per pair.
    stopping : {"likelihood", "kl"}, default="likelihood"
        What is compared with `tol`: the change of the mean log-likelihood, or the KL divergence
        between the models before and after a pass.
    warm_start : bool, default=False
        Whether `fit` goes on from the fitted model, with its alphabet.
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
    symbols_ : list
        The alphabet. Symbols that are not in it share one more place: where operations are tied, an
        unknown symbol is as probable as any other, and equal ones match; in the full
        parametrization all have the probabilities of that place.
    operations_ : dict
        Probabilities of "match", "mismatch", "delete", "insert" and "end", summed over symbols.
    substitution_probabilities_ : ndarray of shape (n_symbols + 1, n_symbols + 1)
        Full parametrization: from row to column, in the order of `symbols_`, unknown ones last.
    deletion_probabilities_, insertion_probabilities_ : ndarray of shape (n_symbols + 1,)
        Full parametrization.
    converged_ : bool
    n_iter_ : int
        Passes of the last `fit`.
    n_steps_ : int
        Updates so far.
    n_samples_seen_ : int
        Pairs so far.
    history_ : sequence of (eta, log_likelihood, kl_divergence)
        The latest updates; log-likelihoods are from before each update.
    model_ : EditTransducer
        The fitted model, a frozen value. In it, operations that are less probable than 1e-50 count
        as this probable, so that all distances are finite.

    Notes
    -----
    Neither needs a whole lattice in memory. Distances need one row of it; expected operations a few
    dozen, and every so many of the others, which are then done again. Targets of 2000 symbols and
    more are taken one by one, shorter ones 16 at a time.

    References
    ----------
    .. [1] Ristad & Yianilos, "Learning string-edit distance", IEEE PAMI 1998.
    .. [2] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, appendix.

    Examples
    --------
    >>> from sklearn_onlineem import EditDistance
    >>> pairs = [("recieve", "receive"), ("adress", "address"), ("teh", "the")] * 10
    >>> edit = EditDistance().fit(pairs)
    >>> edit.distance("wierd", "weird") < edit.distance("wierd", "word")
    True
    >>> print(edit.align("adres", "address"))
    a-dre-s
    | ||| |
    address
    """

    _validated_attributes = ("symbols_", "_codes", "_makes_text")
    _model_parameters = ("parametrization", "alphabet")
    _common_attributes = ("symbols_",)
    n_init = 1  # there is one start

    _parameter_constraints: dict = {
        **OnlineEM._parameter_constraints,
        "parametrization": [StrOptions(set(PARAMETRIZATIONS))],
        "alphabet": [None, "array-like", str, set, frozenset],
        "operations_init": [None, dict],
        "operation_prior": [None, float, int, dict],
        "kind": [StrOptions({"stochastic", "viterbi"})],
    }

    def __init__(
        self,
        parametrization="tied",
        *,
        alphabet=None,
        operations_init=None,
        operation_prior=None,
        kind="stochastic",
        solver="online",
        eta0="auto",
        beta=0.6,
        schedule="power",
        batch_size=500,
        online_passes=1,
        max_iter=100,
        tol=1e-3,
        stopping="likelihood",
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        verbose_interval=10,
        callbacks=None,
    ):
        self.parametrization = parametrization
        self.alphabet = alphabet
        self.operations_init = operations_init
        self.operation_prior = operation_prior
        self.kind = kind
        self.solver = solver
        self.eta0 = eta0
        self.beta = beta
        self.schedule = schedule
        self.batch_size = batch_size
        self.online_passes = online_passes
        self.max_iter = max_iter
        self.tol = tol
        self.stopping = stopping
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.callbacks = callbacks

    # ----------------------------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Fit the model to all pairs.

        Parameters
        ----------
        X : list of (source, target), or array-like of shape (n_pairs, 2)
            Strings, or sequences of hashable symbols.
        y : ignored

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the parameters or the data are invalid; the message names the estimator.
        """
        return self._fit(lambda reset: self._data_of(X, reset))

    def partial_fit(self, X, y=None):
        """Update the model with a batch of pairs.

        Parameters
        ----------
        X : list of (source, target), or array-like of shape (n_pairs, 2)
            The first batch also gives the alphabet, unless that is a parameter.
        y : ignored

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the batch is invalid; the estimator is left as it was.
        """
        return self._partial_fit(lambda reset: self._data_of(X, reset))

    def _data_of(self, X, reset, y=None):
        """Convert pairs; with `reset`, take their symbols, or the parameter's, for the alphabet."""
        with naming(self):
            sources, targets = pairs_of(X)
            if not reset:
                return self._pairs(sources, targets)
            codes = SymbolCodes()
            given = self.alphabet is not None
            for strings in ([self._ordered_alphabet()],) if given else (sources, targets):
                codes.encode(strings)
            if not codes.codes:
                raise ValueError("X has no symbols: all strings are empty.")
            self._codes, self.symbols_ = codes.codes, list(codes.codes)
            self._makes_text = are_text(sources) and are_text(targets)
            return self._pairs(sources, targets)

    def _ordered_alphabet(self):
        """The alphabet; a set is put in an order that all machines agree on."""
        is_set = isinstance(self.alphabet, set | frozenset)
        return sorted(self.alphabet, key=repr) if is_set else list(self.alphabet)

    def _pairs(self, sources, targets):
        codes = SymbolCodes(self._codes)
        sources, targets = codes.encode(sources), codes.encode(targets)
        n_cells = (sources.lengths + 1.0) @ (targets.lengths + 1.0)
        return StringPairs(sources, targets, threads_for(self.n_jobs, n_cells))

    def _operations(self):
        n_symbols = len(self.symbols_) + 1
        if self.parametrization == "full" and n_symbols > _LARGEST_FULL_ALPHABET:
            raise ValueError(
                f"parametrization='full' takes alphabets of less than {_LARGEST_FULL_ALPHABET}"
                f" symbols, got {n_symbols - 1}; use 'tied'."
            )
        return PARAMETRIZATIONS[self.parametrization](n_symbols)

    def _start(self, data, random_state, prior=None):
        given = self._given_start(data)
        if given is not None:
            return given
        lengths = np.maximum(data.sources.lengths, data.targets.lengths)
        end = 1.0 / (1.0 + max(lengths.mean(), 1.0))
        operations = self._operations()
        return EditTransducer(operations, operations.spread([*(1.0 - end) * _START, end]))

    def _given_start(self, data):
        if self.operations_init is None:
            return None
        values = self._by_kind("operations_init", self.operations_init, KINDS, 0.0)
        if set(self.operations_init) != set(KINDS) or not 0.0 < values[-1] < values.sum():
            raise ValueError(
                f"operations_init must have {', '.join(KINDS)}, with an end above 0 and an"
                " operation above 0."
            )
        operations = self._operations()
        return EditTransducer(operations, operations.spread(values / values.sum()))

    def _by_kind(self, name, given, kinds, least):
        """Numbers for each kind from a dict; `least` where it has none."""
        values = np.array([given.get(kind, least) for kind in kinds], dtype=np.float64)
        unknown = set(given) - set(kinds)
        if unknown or not np.isfinite(values).all() or values.min() < least:
            raise ValueError(
                f"{name} must be finite numbers, {least:g} or more, for {', '.join(kinds)};"
                f" got {given!r}."
            )
        return values

    def _start_prior(self, data):
        """One pseudo-pair: what the first batch lacks may yet come."""
        return self._start(data, None).own_statistics()

    def _prior(self, model):
        concentration = self.operation_prior
        if concentration is None:
            concentration = _FULL_PRIOR if self.parametrization == "full" else 1.0
        if not isinstance(concentration, dict):
            concentration = dict.fromkeys(KINDS[:-1], concentration)
        excess = self._by_kind("operation_prior", concentration, KINDS[:-1], 1.0) - 1.0
        if not excess.any():
            return None
        operations = model.operations
        n_of_kind = operations.by_kind(np.ones(operations.n_probabilities))
        return EditStatistics(operations.spread([*excess * n_of_kind[:-1], 0.0]))

    def _rows_needed(self, model):
        n_operations = 1.0 / model.probabilities[-1]
        return max(1.0, (model.operations.n_probabilities - 1) / n_operations)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

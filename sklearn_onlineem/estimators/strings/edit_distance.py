"""A learnt distance of strings: memoryless transducers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem._checks import LARGEST, check_count, require, shares_as_given
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators._start import Initialiser
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.fitted import FittedAttribute, FitTransformMixin
from sklearn_onlineem.estimators.learning import OnlineDefaults, generator
from sklearn_onlineem.estimators.parameters import COUNT, estimator, fit_context, parameter
from sklearn_onlineem.estimators.strings._input import (
    PairsInput,
    SymbolCodes,
    codes_of,
    pairs_of,
    strings_of,
)
from sklearn_onlineem.estimators.threads import threads_for
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.models.strings.operations import (
    KINDS,
    FullOperations,
    TiedOperations,
    best_moves,
)
from sklearn_onlineem.models.strings.transducer import EditStatistics, EditTransducer

_MARKS = {"match": "|", "mismatch": ".", "delete": " ", "insert": " "}


class Alignment(NamedTuple):
    """Alignment of the symbols of a source and of a target.

    Attributes
    ----------
    operations : list of (kind, source symbol, target symbol)
        "match", "mismatch", "delete" or "insert"; None for no symbol.
    distance : float
        Minus the log-probability of this script, in nats.

    Examples
    --------
    >>> operations = [("match", "a", "a"), ("delete", "b", None), ("mismatch", "c", "d")]
    >>> print(Alignment(operations, 3.0))
    abc
    | .
    a-d
    """

    operations: list
    distance: float

    def __str__(self):
        columns = [
            ("-" if kind == "insert" else str(a), _MARKS[kind], "-" if kind == "delete" else str(b))
            for kind, a, b in self.operations
        ]
        widths = [max(map(len, column)) for column in columns]
        gap = " " if max(widths, default=1) > 1 else ""
        lines = (
            gap.join(
                column[line].ljust(width) for column, width in zip(columns, widths, strict=True)
            )
            for line in range(3)
        )
        return "\n".join(line.rstrip() for line in lines)


PARAMETRIZATIONS = {"tied": TiedOperations, "full": FullOperations}

# Shares of match, mismatch, deletion and insertion that EM starts from.
_START = np.array([0.7, 0.1, 0.1, 0.1])
_LARGEST_FULL_ALPHABET = 3000


@dataclass(frozen=True)
class TransducerInitialiser(Initialiser):
    """Start probabilities of the kinds of operations, with scripts as long as the strings."""

    estimator: EditDistance

    def given(self, data):
        if self.estimator.operations_init is None:
            return None
        values = _of_all_kinds("operations_init", self.estimator.operations_init)
        operations = self.operations(data.n_symbols)
        return EditTransducer(operations, operations.spread(values / values.sum()))

    def estimated(self, data, random_state):
        lengths = np.maximum(data.sources.lengths, data.targets.lengths)
        end = 1.0 / (1.0 + max(lengths.mean(), 1.0))
        operations = self.operations(data.n_symbols)
        return EditTransducer(operations, operations.spread([*(1.0 - end) * _START, end]))

    def stream_model(self, data, random_state):
        # One pseudo-pair, as operations that the first batch lacks may occur later.
        model = self.estimated(data, random_state)
        return model, model.own_statistics()

    def operations(self, n_symbols):
        """Return the parametrisation for `n_symbols`, with the place of unknown ones."""
        kind = self.estimator.parametrization
        if kind == "full" and n_symbols > _LARGEST_FULL_ALPHABET:
            raise ValueError(
                f"parametrization='full' takes alphabets of less than {_LARGEST_FULL_ALPHABET}"
                f" symbols, got {n_symbols - 1}; use 'tied'."
            )
        return PARAMETRIZATIONS[kind](n_symbols)


def by_kind(name, given, kinds, least):
    """Return a number for each kind of operation from a dict; `least` for those it lacks."""
    values = np.array([given.get(kind, least) for kind in kinds], dtype=np.float64)
    unknown = set(given) - set(kinds)
    are_valid = not unknown and ((values >= least) & (values <= LARGEST)).all()
    what = f"finite numbers, from {least:g} to {LARGEST:g}, for {', '.join(kinds)}"
    require(are_valid, name, what, given)
    return values


def _of_all_kinds(name, given):
    """Return probabilities of all kinds of operations and the end from a dict, not yet scaled."""
    kinds = ", ".join(KINDS)
    require(isinstance(given, Mapping), name, f"a dict from {kinds} to numbers", given)
    values = by_kind(name, given, KINDS, 0.0)
    is_whole = set(given) == set(KINDS) and 0.0 < values[-1] < values.sum()
    require(is_whole, name, f"a dict of {kinds}, with an end and an operation above 0", given)
    return values


def _put_operations(model, given):
    """Scale the probabilities of each kind of operation; even ones where the kind had none."""
    operations = model.operations
    values = shares_as_given("operations_", _of_all_kinds("operations_", given))
    n_of_kind = operations.by_kind(np.ones(operations.n_probabilities))
    before = operations.by_kind(model.probabilities)
    factors = n_of_kind * values / np.where(before > 0.0, before, 1.0)
    probabilities = np.where(
        operations.spread(n_of_kind * (before > 0.0)) > 0.0,
        model.probabilities * operations.spread(factors),
        operations.spread(values),
    )
    return replace(model, probabilities=probabilities)


def _put_symbols(model, symbols):
    n_symbols, n_known = len(codes_of(symbols, "symbols_")), model.operations.n_symbols - 1
    if n_symbols != n_known:
        raise ValueError(f"symbols_ has {n_symbols} symbols, but {n_known} are expected.")
    return model


def _operations(edit):
    model = edit.model_
    return dict(zip(KINDS, model.operations.by_kind(model.probabilities).tolist(), strict=True))


# Settings of attributes that only the full parametrization has.
_FULL = {
    "optional": lambda edit: edit.parametrization == "tied",
    "requires": "parametrization='full'",
}


# Concentration of the default prior of the full parametrization, in which symbols mostly match.
_FULL_PRIOR = {"match": 1.5, "mismatch": 1.01, "delete": 1.1, "insert": 1.1}


@estimator
class EditDistance(ClassNamePrefixFeaturesOutMixin, FitTransformMixin, OnlineEM):
    r"""Stochastic edit distance, learnt from pairs of strings by online or batch EM.

    Both strings are made by a script of independent operations, which an end with probability
    :math:`\delta_\#` stops. The distance is minus the log-probability of all scripts (stochastic),
    or of the best one (Viterbi):

    .. math:: d_S(x, y) = -\log p(x, y), \qquad d_V(x, y) = -\log \max_{script} p(x, y, script)

    With the expected numbers :math:`\bar\gamma_c` of operations of kind c in the pairs of a batch,
    a step is

    .. math::
        \gamma_c = \frac{\delta_c / (\eta \delta_\#) + \bar\gamma_c}{1 / \eta + 1}, \qquad
        \tilde\delta_c = \frac{\gamma_c}{1 + \sum_{c'} \gamma_{c'}}, \qquad
        \tilde\delta_\# = \frac{1}{1 + \sum_{c'} \gamma_{c'}}

    Neither is a metric: the distance of a string from itself is not 0. Distances grow with length.

    Parameters
    ----------
    parametrization : {"tied", "full"}, default="tied"
        "tied": probabilities of match, mismatch, deletion, insertion and end, with equal
        probabilities of the symbols. "full": one for each pair of symbols, each deletion and each
        insertion.
    alphabet : iterable of hashables, default=None
        The known symbols, for streams. None: those in the first data.
    operations_init : dict, default=None
        Probabilities to begin with, of "match", "mismatch", "delete", "insert" and "end", scaled to
        add up to 1.
    operation_prior : float or dict, default=None
        Concentration, 1 or more, of the Dirichlet prior on the operations: one number for all
        probabilities, or a dict from "match", "mismatch", "delete" and "insert" to numbers for each
        operation of the kind. None: 1 (no prior) if tied. In the full parametrization, where most
        pairs of symbols are never seen, 1.5 for each match, 1.01 for each mismatch, 1.1 for each
        deletion and insertion.
    kind : {"stochastic", "viterbi"}, default="stochastic"
        The distance of `transform`, and the default of other methods.
    batch_size : int, default=500
        Pairs in a mini-batch of `fit`. With ``eta0="auto"``, data of no more pairs are fitted by
        batch EM.

    Attributes
    ----------
    symbols_ : list
        The alphabet. All unknown symbols share one more place. If operations are tied, an unknown
        symbol is as probable as any other, and equal ones match; in the full parametrization all
        have the probabilities of that place.
    operations_ : dict
        Probabilities of "match", "mismatch", "delete", "insert" and "end", summed over symbols.
        This and the next three can be set, see :ref:`known_models`. In the full parametrization it
        scales probabilities by symbol.
    substitution_probabilities_ : ndarray of shape (n_symbols + 1, n_symbols + 1)
        Full parametrization: from row to column, in the order of `symbols_`, unknown ones last.
        The end has what all operations leave.
    deletion_probabilities_, insertion_probabilities_ : ndarray of shape (n_symbols + 1,)
        Full parametrization.

    See Also
    --------
    EditDistanceClassifier : The nearest word of a dictionary by such a distance.

    References
    ----------
    .. [1] Ristad & Yianilos, "Learning string-edit distance", IEEE PAMI 1998.
    .. [2] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", arXiv:1902.04107, appendix D. The update here minimises the bound of EM
       plus inertia; the printed one, which divides the expected counts of a pair by their sum,
       does not.

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

    parametrization: str = parameter(
        default="tied", valid=[StrOptions(set(PARAMETRIZATIONS))], structural=True, kw_only=False
    )
    alphabet: object = parameter(
        default=None, valid=[None, "array-like", str, set, frozenset], structural=True
    )
    operations_init: Mapping[str, object] | None = parameter(default=None, valid=[None, dict])
    operation_prior: float | Mapping[str, object] | None = parameter(
        default=None, valid=[None, Real, dict]
    )
    kind: str = parameter(default="stochastic", valid=[StrOptions({"stochastic", "viterbi"})])
    batch_size: int = parameter(default=500, valid=[COUNT])

    _reader = PairsInput
    _online = OnlineDefaults(keeps_first_rows=False)

    # ----------------------------------------------------------------------------------- fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to all pairs.

        Parameters
        ----------
        X : list of (source, target), or array-like of shape (n_pairs, 2)
            Strings, or sequences of hashable symbols.
        y : object
            Ignored.
        sample_weight : array-like of shape (n_pairs,), default=None
            Non-negative weights; a weight of 2 is equivalent to two equal pairs. Weights below
            1e-100 count as 0; their sum must be above 0, and at most 1e100.
        """
        return self._fit(X, sample_weight=sample_weight)

    def partial_fit(
        self, X: object, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the model with a batch of pairs.

        Parameters
        ----------
        X : list of (source, target), or array-like of shape (n_pairs, 2)
            The first batch also defines the alphabet, unless that is a parameter.
        """
        self._partial_fit(X, sample_weight=sample_weight)
        return self

    def _start(self):
        return TransducerInitialiser(self)

    def _pseudo_statistics(self, model, n_features):
        concentration = self.operation_prior
        if concentration is None:
            concentration = _FULL_PRIOR if self.parametrization == "full" else 1.0
        if not isinstance(concentration, dict):
            concentration = dict.fromkeys(KINDS[:-1], concentration)
        excess = by_kind("operation_prior", concentration, KINDS[:-1], 1.0) - 1.0
        if not excess.any():
            return None
        operations = model.operations
        n_of_kind = operations.by_kind(np.ones(operations.n_probabilities))
        return EditStatistics(operations.spread([*excess * n_of_kind[:-1], 0.0]))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    # ---------------------------------------------------------------------------------- inference

    @property
    def _n_features_out(self):
        return 1

    def score_samples(self, X: object) -> Floats:
        """Return the log-likelihood of each pair.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_pairs,)
            In nats.
        """
        return self._infer("log_likelihood", X)

    def score(self, X: object, y: object = None) -> float:
        """Return the mean log-likelihood of the pairs in nats; higher is better.

        Returns
        -------
        log_likelihood : float
        """
        return float(self.score_samples(X).mean())

    def transform(self, X: object) -> Floats:
        """Return the distances of pairs, of the kind of the parameter `kind`.

        Returns
        -------
        distances : ndarray of shape (n_pairs, 1)
            In nats.
        """
        return self._seen()._distances(X, None)[:, None]

    def distance(self, x: object, y: object, kind: str | None = None) -> float:
        """Return the distance of a source and a target, in nats.

        Parameters
        ----------
        x, y : str or sequence of hashables
            A source and a target; the symbols of a str are its code points.
        kind : {"stochastic", "viterbi"}, default=None
            Of all scripts, or of the best one. None: the parameter of the estimator.

        Returns
        -------
        distance : float
        """
        seen = self._seen()
        seen._check_no_words(x, y)
        return float(seen._distances([(x, y)], kind)[0])

    def _check_no_words(self, x, y):
        """Raise ValueError if lists are of words, not of the symbols of a word."""
        symbols = [symbol for word in (x, y) if isinstance(word, list | tuple) for symbol in word]
        are_words = all(isinstance(symbol, str) and len(symbol) > 1 for symbol in symbols)
        if self._makes_text and symbols and are_words:
            raise ValueError(
                f"{type(self).__name__}: x and y are lists of unknown symbols, {symbols[0]!r} the"
                " first. Pass two strings; pairwise takes lists of strings."
            )

    def _distances(self, X, kind):
        data, model = self._input().read(X), self.model_
        return -(model.best_log_probability if self._is_best(kind) else model.log_likelihood)(data)

    def _is_best(self, kind):
        kind = self.kind if kind is None else kind
        is_known = kind in ("stochastic", "viterbi")
        require(is_known, f"kind of {type(self).__name__}", "'stochastic' or 'viterbi'", kind)
        return kind == "viterbi"

    def pairwise(self, X: object, Y: object = None, kind: str | None = None) -> Floats:
        """Return the distances of all sources from all targets.

        Parameters
        ----------
        X : list of strings or of sequences of hashables
            Sources.
        Y : list of strings or of sequences of hashables, default=None
            Targets. None: X.
        kind : {"stochastic", "viterbi"}, default=None
            As in `distance`.

        Returns
        -------
        distances : ndarray of shape (n_sources, n_targets)
            In nats.
        """
        seen = self._seen()
        best = seen._is_best(kind)
        with error_context(self):
            codes = SymbolCodes(seen._codes)
            sources = codes.encode(strings_of(X, "source {}"))
            targets = sources if Y is None else codes.encode(strings_of(Y, "target {}"))
        if not (len(sources) and len(targets)):
            return np.empty((len(sources), len(targets)))
        n_cells = (sources.lengths + 1.0).sum() * (targets.lengths + 1.0).sum()
        n_threads = threads_for(self.n_jobs, n_cells)
        return -seen.model_.pairwise(sources, targets, best, n_threads)

    def align(self, x: object, y: object) -> Alignment:
        """Return the most probable script of a source and a target.

        Parameters
        ----------
        x, y : str or sequence of hashables
            A source and a target; the symbols of a str are its code points.

        Returns
        -------
        alignment : Alignment
            Its `operations` and `distance`. It prints the strings one above the other, with "|"
            between symbols that match and "." between others. It takes a byte for each pair of
            symbols.
        """
        seen = self._seen()
        seen._check_no_words(x, y)
        data, model = seen._input().read([(x, y)]), seen.model_
        (x,), (y,) = pairs_of([(x, y)])
        known = model.operations.known
        log_weights = model.operations.weights(model.probabilities, log=True).substitutions
        sides = known(data.sources.symbols), known(data.targets.symbols)
        operations = []
        for i, j in best_moves(*sides, log_weights):
            a, b = None if i is None else x[i], None if j is None else y[j]
            if i is None or j is None:
                kind = "insert" if i is None else "delete"
            else:
                kind = "match" if a == b else "mismatch"
            operations.append((kind, a, b))
        return Alignment(operations, float(-model.best_log_probability(data)[0]))

    def sample(self, n_samples: int = 1) -> tuple[list[tuple[object, object]], list[Integers]]:
        """Draw pairs of strings.

        Parameters
        ----------
        n_samples : int, default=1
            Number of pairs.

        Returns
        -------
        X : list of (source, target)
            Strings if the data were strings, else tuples of symbols. Unknown symbols are U+FFFD in
            strings, and None in tuples.
        scripts : list of ndarray
            Operations of each pair, as indices of ``model_.probabilities``.
        """
        seen = self._seen()
        name = f"n_samples of {type(self).__name__}"
        check_count(name, n_samples)
        room(name, (int(n_samples),))
        pairs, scripts = seen.model_.sample(n_samples, generator(self))
        X = list(zip(seen._decoded(pairs.sources), seen._decoded(pairs.targets), strict=True))
        return X, np.split(scripts.symbols, scripts.offsets[1:-1])

    def _decoded(self, strings):
        symbols = [*self.symbols_, "\N{REPLACEMENT CHARACTER}" if self._makes_text else None]
        parts = np.split(strings.symbols, strings.offsets[1:-1])
        sequences = ([symbols[code] for code in part] for part in parts)
        return map("".join if self._makes_text else tuple, sequences)

    # ------------------------------------------------------------------------------ fitted values

    _sizes = {}

    def _known_sizes(self, given):
        codes = self._known_codes(given)
        return {} if codes is None else {"b": len(codes) + 1}

    def _features_of(self, sizes, given):
        return 0

    def _known_codes(self, given):
        """Return codes of the symbols that are set, or of the parameter; None if there are none."""
        known = None if self.alphabet is None else codes_of(self.alphabet, "alphabet")
        if "symbols_" not in given:
            return known
        codes = codes_of(given["symbols_"], "symbols_")
        if known is not None and codes != known:
            raise ValueError(f"symbols_ must be those of the parameter alphabet, {[*known]}.")
        return codes

    def _parts(self):
        return EditTransducer.own_parts

    def _blank(self, sizes, n_features, given):
        operations = self._start().operations(sizes.get("b", 2))
        # Nothing but the end.
        return EditTransducer(operations, operations.spread([0.0, 0.0, 0.0, 0.0, 1.0]))

    def _attributes_of(self, given, n_steps):
        if "symbols_" not in given and "_fitted" in self.__dict__:
            return {}
        codes = self._known_codes(given)
        makes_text = all(isinstance(symbol, str) and len(symbol) == 1 for symbol in codes)
        return {"symbols_": [*codes], "_codes": codes, "_makes_text": makes_text}

    symbols_ = Settable[list[object]](
        optional="alphabet",
        read=lambda self: self._fitted.attributes["symbols_"],
        axes=None,
        put_into=_put_symbols,
    )

    _codes = FittedAttribute("Codes of the symbols, a dict.")
    _makes_text = FittedAttribute("Whether all strings of the first data were text.")

    operations_ = Settable[dict[str, float]](
        optional=lambda self: self.parametrization == "full",
        read=_operations,
        axes=None,
        put_into=_put_operations,
    )

    substitution_probabilities_ = Settable[Floats](**_FULL)

    deletion_probabilities_ = Settable[Floats](**_FULL)

    insertion_probabilities_ = Settable[Floats](**_FULL)

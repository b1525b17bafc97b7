"""Base of the hidden Markov models; the estimators add established names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._checks import check_count, require
from sklearn_onlineem._typing import Cut, Floats, FloatsOrList, IntegersOrList, SequenceData, Where
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.estimators._known import Settable, fixed_entries, learnt_parts, with_masks
from sklearn_onlineem.estimators._labels import LearnsClasses
from sklearn_onlineem.estimators._start import (
    PRIOR,
    STARTS,
    LearntPrior,
    TakesPrior,
    bound,
    prior_statistics,
)
from sklearn_onlineem.estimators.fitted import exposed, fitted_property, rollback
from sklearn_onlineem.estimators.hidden_markov._start import (
    TERMINATIONS,
    HiddenMarkovInitialiser,
    chain_model,
    excess,
    segment_durations,
)
from sklearn_onlineem.estimators.parameters import AUTO, COUNT, POSITIVE, estimator, parameter
from sklearn_onlineem.estimators.sequences import (
    SequenceEstimator,
    is_one,
    observed_rows,
)
from sklearn_onlineem.models.hidden_markov.durations import DURATIONS
from sklearn_onlineem.models.hidden_markov.semi_markov import HiddenSemiMarkovModel
from sklearn_onlineem.models.live_filters import StateFilter
from sklearn_onlineem.models.terminations import GivenLength

_CONCENTRATION = [None, POSITIVE, "array-like"]


def _masks_of_transitions(hmm):
    return "kk ke" if hmm.termination == "end_state" else "kk"


@estimator
class BaseHMM(LearnsClasses, TakesPrior, SequenceEstimator):
    """Base of the hidden Markov models: they say which family, and name its parameters.

    Parameters
    ----------
    n_components : int, default=1
        Number of hidden states.
    termination : {"given_length", "end_state", "absorbing_states"}, default="given_length"
        What ends a sequence. "given_length": its length is given, not modelled. The others model
        lengths. "end_state": after its last row a sequence moves to a silent end state, with the
        probabilities `endprob_`. "absorbing_states": it ends at its first visit to one of
        `absorbing_states`, which emits the last row.
    absorbing_states : array-like of int, default=None
        States that are never left. If lengths are given they continue to emit.
    durations : {"poisson", "negative_binomial", "categorical"}, default=None
        What distributions the numbers of rows have for which a state lasts: durations less 1 are
        Poisson or negative binomial, truncated, or they have any probabilities. Transitions are
        those to other states. A sequence may end within a segment if its length is given; else
        it ends after one, and absorbing states last for one row. None: states last as their
        transitions say, with durations that are geometric. See :ref:`durations`.
    max_duration : int, default=None
        The longest duration in rows; required with `durations`.
    left_censored : bool, default=False
        With `durations`, whether sequences begin within a segment, at any of its rows. Otherwise
        they begin with a new segment.
    n_init : int or "auto", default="auto"
        Number of starts of `fit`; the best result is kept. "auto": three for several states, and
        the best goes on after some passes, see :class:`~sklearn_onlineem.em.Auto`; else one. The
        first is as with one start. Others draw at random what is not given: the chain, which may
        tend to stay in its states, and the rows that emissions start from, even with
        ``init="k-means"``; of symbols, the transitions alone.
    durationprob_init : array-like of shape (n_components, max_duration), default=None
        Probabilities of durations of 1, 2, ... rows to begin with, rows adding up to 1, or of which
        the distributions of `durations` that fit them best are the start. Zeros stay zero with
        ``durations="categorical"``. None: in proportion to 1, 1/2, 1/3, ...
    params : str or dict, default="ste"
        Which of start (s), transitions (t), durations with them, and emissions (e) are learnt; the
        rest stays as it starts, or as it was set. Or a dict of masks, True where an entry is
        learnt: "startprob" of shape (n_components,), "transmat" of shape (n_components,
        n_components), "durationprob" True or False, and "emissions" of whole states, of shape
        (n_components,). Parts without a mask are learnt, and what is learnt
        of a row has the rest of its probability. See :ref:`known_models`.
    startprob_init : array-like of shape (n_components,), default=None
        Start probabilities to begin with, which add up to 1. Zeros stay zero. None: uniform.
    transmat_init : array-like of shape (n_components, n_components), default=None
        Transition probabilities to begin with, rows adding up to 1. Zeros stay zero, for
        left-to-right and banded models. With an end state, rows may add up to less than 1, or have
        a further column. None: uniform.
    startprob_prior, transmat_prior : float or array-like, default=None
        Concentration of the Dirichlet priors on the start and on the rows of the transitions. None:
        1, no prior.
    durationprob_prior : float or array-like of shape (n_components, max_duration), default=None
        Concentration of the Dirichlet priors on durations: one less is a number of segments of
        each duration. At least 1 where durations are Poisson or negative binomial. None: 1, no
        prior.
    prior : dict, "auto", LearntPrior or None, default=None
        Hyper-parameters of the family's conjugate prior, the arguments of its `prior_statistics`;
        or the result of `as_prior` of a fitted estimator. None: maximum likelihood. "auto": half a
        pseudo-count of all that a state may emit, of counts, bits and codes, which helps where rows
        have many counts, such as words, and not for symbols of few kinds; a penalty of full and
        tied covariances if the first data have missing values, see :ref:`few_values`; else none.
    init : str or array-like, default="k-means"
        Start of the emissions: "k-means", "k-means++", "random" (responsibilities),
        "random_from_data" (rows as centres), or centres of shape (n_components, n_features). See
        :ref:`starts`.
    algorithm : {"viterbi", "map"}, default="viterbi"
        What `predict` and `decode` return: most probable paths, or most probable states.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
        Probabilities of the first state.
    transmat_ : ndarray of shape (n_components, n_components)
        Probabilities of transitions.
    filtered_state_ : ndarray of shape (n_components,)
        Probabilities of the last state given the rows so far, of a sequence that goes on: only
        after `partial_fit` with ``continues=True``.
    durationprob_ : ndarray of shape (n_components, max_duration)
        Probabilities of durations of 1, 2, ... rows, with `durations` only.
    endprob_ : ndarray of shape (n_components,)
        Probabilities of the end, with ``termination="end_state"`` only.

    References
    ----------
    Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden Variable
    Models", UAI 2020, section 4.2.
    """

    n_components: int = parameter(default=1, valid=[COUNT], structural=True, kw_only=False)
    n_init: int | str = parameter(default="auto", valid=[COUNT, AUTO])
    termination: str = parameter(
        default="given_length", valid=[StrOptions(set(TERMINATIONS))], structural=True
    )
    absorbing_states: object = parameter(default=None, valid=[None, "array-like"], structural=True)
    params: str | Mapping[str, object] = parameter(
        default="ste", valid=[str, dict], structural=True
    )
    durations: str | None = parameter(
        default=None, valid=[None, StrOptions(set(DURATIONS))], structural=True
    )
    max_duration: int | None = parameter(default=None, valid=[None, COUNT], structural=True)
    left_censored: bool = parameter(default=False, valid=["boolean"], structural=True)
    durationprob_init: object = parameter(default=None, valid=[None, "array-like"])
    startprob_init: object = parameter(default=None, valid=[None, "array-like"])
    transmat_init: object = parameter(default=None, valid=[None, "array-like"])
    startprob_prior: object = parameter(default=None, valid=_CONCENTRATION)
    transmat_prior: object = parameter(default=None, valid=_CONCENTRATION)
    durationprob_prior: object = parameter(default=None, valid=_CONCENTRATION)
    prior: Mapping[str, object] | LearntPrior | str | None = parameter(default=None, valid=PRIOR)
    init: object = parameter(default="k-means", valid=[StrOptions(set(STARTS)), "array-like"])
    algorithm: str = parameter(default="viterbi", valid=[StrOptions({"viterbi", "map"})])

    @abstractmethod
    def _family(self):
        """Return the family of the emissions, not yet bound to data."""

    def _initialiser(self):
        return HiddenMarkovInitialiser.of(self)

    # Name of masks of all parameters of a state, and letters of `params` that learn them.
    _whole = ("emissions", "e")

    def _fixed(self):
        """Return what is fixed, as models take it, or None."""
        learnt, n = learnt_parts(self), self.n_components
        if all(part is True for part in learnt.values()):
            return None
        learnt.pop("durationprob")
        start, transmat, emissions = map(learnt.pop, ("startprob", "transmat", "emissions"))
        # The others are parts of the emissions, if these have names.
        if learnt and all(part is False for part in learnt.values()):
            emissions = False
        symbols = learnt.pop("emissionprob", True)
        if emissions is True and any(isinstance(mask, np.ndarray) for mask in learnt.values()):
            emissions = np.ones(n, dtype=bool)  # The family has its masks.
        if transmat is False:
            transmat = np.zeros((n, n + (self.termination == "end_state")), dtype=bool)
        elif self.termination == "end_state" and np.shape(transmat)[-1:] == (n,):
            # The end takes a part in the rest.
            transmat = np.column_stack([transmat, np.ones(n, dtype=bool)])
        if isinstance(symbols, np.ndarray):
            n_symbols = getattr(self, "n_features", None) or symbols.shape[1]
            if symbols.shape[1] % n_symbols:
                raise ValueError(
                    f"params has a mask of {symbols.shape[1]} probabilities of each state, which"
                    f" has n_features={n_symbols} for each column."
                )
            symbols = symbols.reshape(n, -1, n_symbols)
        return fixed_entries(
            n, weights=start, transmat=transmat, components=emissions,
            probabilities=symbols if isinstance(symbols, np.ndarray) else True,
        )  # fmt: skip

    def _learning(self, model):
        family = with_masks(model.family, self._family())
        model = replace(model, family=family, fixed=self._fixed())
        if self.durations is None:
            return model
        return replace(model, durations=segment_durations(self))

    def _prior(self, model, n_features):
        emissions = self._emission_prior(model.family, n_features)
        start, transitions = self.startprob_prior, self.transmat_prior
        lasting = self.durationprob_prior
        if lasting is not None and self.durations is None:
            raise ValueError("durationprob_prior requires durations.")
        if emissions is None and start is None and transitions is None and lasting is None:
            return None
        if emissions is None:
            nothing = np.zeros(self.n_components)
            emissions = model.family.own_statistics(model.parameters, nothing)
        prior = model.chain_statistics(
            excess(start, "startprob_prior", model.start > 0),
            excess(transitions, "transmat_prior", model.transmat > 0),
            emissions,
        )
        if lasting is None:
            return prior
        segments = excess(lasting, "durationprob_prior", model.table > 0)
        holds = self.durations == "categorical" or np.min(segments) >= 0.0
        what = f"at least 1 with durations={self.durations!r}"
        require(holds, "durationprob_prior", what, lasting)
        return replace(prior, durations=segments)

    # ------------------------------------------------------------------------------- fitted values

    def _blank(self, sizes, n_features, given):
        family = self._known_family(sizes)
        parameters = self._standard(family, self.n_components, n_features)
        return chain_model(self, family, parameters)

    def _parts(self, family=None):
        return HiddenSemiMarkovModel._parts_of(family or self._family())

    def _known_family(self, sizes):
        return self._family()

    def _bound(self, model, data):
        rows = observed_rows(data)
        if not len(rows):  # Nothing was observed: units are those of the model.
            states = np.resize(np.arange(self.n_components), 100)
            rows = Rows(model.family.sample(model.parameters, states, np.random.default_rng(0)))
        return replace(model, family=bound(model.family, rows, self.n_components))

    startprob_ = Settable[Floats](letters="s", masks="k")

    transmat_ = Settable[Floats](letters="t", masks=_masks_of_transitions)

    endprob_ = Settable[Floats | None](optional=True, requires="termination='end_state'")

    durationprob_ = Settable[Floats](
        optional=lambda hmm: hmm.durations is None, requires="durations", letters="t", masks=""
    )

    def get_stationary_distribution(self) -> Floats:
        """Return the stationary distribution of the transitions.

        Returns
        -------
        probabilities : ndarray of shape (n_components,)

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, or lengths are modelled, so that there is none.
        """
        check_is_fitted(self)
        model = self.model_
        if not isinstance(model.termination, GivenLength):
            raise ValueError(f"{type(self).__name__}: an absorbed chain has no stationary state.")
        n_states = model.n_components
        equations = np.vstack([model.transmat.T - np.eye(n_states), np.ones(n_states)])
        solution = np.linalg.lstsq(equations, np.eye(n_states + 1)[-1], rcond=None)[0]
        shares = np.maximum(solution, 0.0)
        if isinstance(model, HiddenSemiMarkovModel):
            shares = shares * (model.table @ np.arange(1.0, model.table.shape[1] + 1.0))
        return shares / shares.sum()

    @fitted_property
    def filtered_state_(self) -> Floats:
        return exposed(self, self.model_.states_of_end(self._end()[0]))

    def predict_proba(self, X: SequenceData, *cut: Cut, **where: Unpack[Where]) -> FloatsOrList:
        """Return the posterior probabilities of the states, given whole sequences.

        Returns
        -------
        posterior : ndarray of shape (n_rows, n_components), or list
            A list has an array for each sequence, if X has an entry for each. Rows add up to 1.
        """
        return self._infer("posterior", X, *cut, **where)

    def transform(self, X: SequenceData, *cut: Cut, **where: Unpack[Where]) -> FloatsOrList:
        """Return the posterior probabilities of the states, as `predict_proba` does.

        Returns
        -------
        posterior : ndarray of shape (n_rows, n_components), or list
            Like that of `predict_proba`.
        """
        return self.predict_proba(X, *cut, **where)

    def filter(self, X: SequenceData, *cut: Cut, **where: Unpack[Where]) -> FloatsOrList:
        """Return the probabilities of the states given the rows so far, P(h_t | v_1..t).

        Returns
        -------
        filtered : ndarray of shape (n_rows, n_components), or list
            A list has an array for each sequence, if X has an entry for each. Rows add up to 1.
        """
        return self._infer("filtered", X, *cut, **where)

    def predict_next_proba(
        self, X: SequenceData, n_steps: int = 1, **where: Unpack[Where]
    ) -> Floats:
        """Return the probabilities of the states of the rows after the end of each sequence.

        Parameters
        ----------
        X, n_steps
            As in `forecast`.

        Returns
        -------
        probabilities : ndarray of shape (n_steps, n_components), or (n_sequences, n_steps, \
n_components)
            The former for one 2-D sequence. Rows add up to 1.

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, X is invalid or impossible, or surely ends; if `n_steps`
            is not a whole number above 0.
        """
        seen = self._seen()
        check_count(f"n_steps of {type(self).__name__}", n_steps)
        ahead, form = seen._made("forecast", X, given=(int(n_steps),), **where)
        of_one = 0 if is_one(form, where) else slice(None)
        return exposed(seen, ahead.probabilities[of_one])

    def live_filter(self, *, continues: bool = False) -> StateFilter:
        """Return a filter that takes one row at a time.

        Parameters
        ----------
        continues : bool, default=False
            Whether its rows follow those of the last `partial_fit`, which had ``continues=True``:
            then it begins with `filtered_state_`, else with a new sequence.

        Returns
        -------
        live_filter : StateFilter
            Later updates of the estimator do not change it.
        """
        return self._live_filter(StateFilter, continues)

    def predict(self, X: SequenceData, *cut: Cut, **where: Unpack[Where]) -> IntegersOrList:
        """Return the most probable path of states, or with ``algorithm="map"`` states of rows.

        Returns
        -------
        states : ndarray of shape (n_rows,), or list
            Numbers, or labels with ``semi_supervised=True``. A list has an array for each sequence,
            if X has an entry for each.
        """
        seen = self._seen() if self.semi_supervised else self
        _, states, form = seen._decoded(self.algorithm, X, *cut, **where)
        return form.restored(seen._as_classes(states))

    def fit_predict(
        self,
        X: SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> IntegersOrList:
        """Fit, and return the states of X, as `predict` does.

        Returns
        -------
        states : ndarray of shape (n_rows,), or list
        """
        with rollback(self):
            return self.fit(X, y, sample_weight=sample_weight, **where).predict(X, **where)

    def decode(
        self,
        X: SequenceData,
        lengths: ArrayLike | None = None,
        algorithm: str | None = None,
        **where: Unpack[Where],
    ) -> tuple[float, IntegersOrList]:
        """Return states and their probability.

        Parameters
        ----------
        algorithm : {"viterbi", "map"}, default=None
            "viterbi": the most probable path of each sequence; "map": the most probable state of
            each row. None: the estimator's.

        Returns
        -------
        log_probability : float
            "viterbi": joint log-probability of data and paths in nats, summed over sequences.
            "map": the sum over rows of the probabilities of their states, as in hmmlearn.
        states : ndarray of int of shape (n_rows,), or list
            Numbers, which index `classes_`.
        """
        algorithm = algorithm or self.algorithm
        log_probability, states, form = self._decoded(algorithm, X, lengths=lengths, **where)
        return log_probability, form.restored(states)

    def _decoded(self, algorithm, X, *cut, **where):
        if algorithm == "map":
            posterior, form = self._made("posterior", X, *cut, **where)
            return float(posterior.max(axis=1).sum()), posterior.argmax(axis=1), form
        name = f"algorithm of {type(self).__name__}"
        require(algorithm == "viterbi", name, "'viterbi' or 'map'", algorithm)
        (states, log_probabilities), form = self._made("decoded", X, *cut, **where)
        return float(log_probabilities.sum()), states, form


@estimator
class EmissionProbabilities:
    """Mixin of models whose states emit categories.

    Parameters
    ----------
    emissionprob_init : array-like of shape (n_components, n_features), default=None
        Probabilities to start from. Zeros that `params` fixes stay zero.
    emissionprob_prior : float or array-like of shape (n_components, n_features), default=None
        Concentration of the Dirichlet prior of the probabilities. None: 1, no prior.
    """

    emissionprob_init: object = parameter(default=None, valid=[None, "array-like"])
    emissionprob_prior: object = parameter(default=None, valid=_CONCENTRATION)

    def _emission_prior(self, family, n_features):
        if self.emissionprob_prior is None:
            return super()._emission_prior(family, n_features)
        given, sizes = {"concentration": self.emissionprob_prior}, {"n_features": n_features}
        name = "emissionprob_prior"
        return prior_statistics(family, given, self.n_components, name=name, **sizes)

"""Latent Dirichlet allocation, with scikit-learn's names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import psi
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem._checks import check_bool, check_count, relative_shares, require
from sklearn_onlineem._typing import Floats, RowData
from sklearn_onlineem.data.documents import MOST_TOKENS, MOST_WORDS, Documents, are_counts
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sparse import canonical_csr
from sklearn_onlineem.em import Batch, Gibbs, Stochastic
from sklearn_onlineem.em.solvers import Solver
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators._rows import RowEstimator, RowsInput
from sklearn_onlineem.estimators._start import Initialiser
from sklearn_onlineem.estimators.fitted import exposed, fitted_of, fitted_property
from sklearn_onlineem.estimators.learning import OnlineDefaults, drawn_seed, generator
from sklearn_onlineem.estimators.parameters import (
    COUNT,
    COUNT_FROM_0,
    NOT_NEGATIVE,
    POSITIVE,
    estimator,
    parameter,
)
from sklearn_onlineem.estimators.validation import (
    Reader,
    check_complete,
    checked_lengths,
    column,
    error_context,
)
from sklearn_onlineem.models.topics.inference import LocalGibbs, MaximumAPosteriori
from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel, TopicStatistics


def _umass(both, first, second, n):
    ratios = np.divide(both + 1.0, first, out=np.ones_like(both), where=first > 0.0)
    return np.log(ratios)


def _npmi(both, first, second, n):
    """Return normalised pointwise mutual information; -1 of words that never meet, at most 1."""
    values = np.full_like(both, -1.0)
    values[both == n] = 1.0
    meet = (both > 0.0) & (both < n)
    p = both[meet] / n
    values[meet] = np.log(p * n * n / (first[meet] * second[meet])) / -np.log(p)
    return values


_MEASURES = {"npmi": _npmi, "umass": _umass}


_ELSEWHERE = (
    "fractions and longer documents require e_step='map' with solver='online', or solver='batch'."
)


class DocumentsInput(RowsInput):
    """Reads documents as `fit`, `partial_fit` and `transform` take them.

    If topics are read, `y` has one topic for each document, -1 where any is allowed; or it is an
    array of shape (n_documents, n_components), nonzero for allowed topics.
    """

    def __init__(self, estimator, fresh=False):
        Reader.__init__(self, estimator, fresh)
        self._family, self._prepare = self, None

    def check(self, X):
        """Raise ValueError unless values are counts of words, as families check rows."""
        if X.data.min(initial=0.0) < 0.0:
            name = type(self._estimator).__name__
            raise ValueError(f"Negative values in data passed to {name}: X must hold counts.")
        estimator = self._estimator
        if self.infers:
            # They are taken if they were in the fit, whatever the present parameters.
            takes_fractions = estimator.model_.inference.takes_fractions
        else:
            takes_fractions = estimator._inference().takes_fractions
            takes_fractions &= not estimator._solver().is_stochastic
        if not (takes_fractions or are_counts(X.data)):
            raise ValueError(
                f"X must hold counts, whole numbers, if topics of words are drawn; {_ELSEWHERE}"
            )
        length = np.asarray(X.sum(axis=1, dtype=np.float64)).max(initial=0.0)
        if length > MOST_WORDS:
            raise ValueError(f"X has counts of {length:.3g} in a row, beyond {MOST_WORDS}.")
        if length > MOST_TOKENS and not takes_fractions:
            raise ValueError(
                f"X has {length:.3g} tokens in a row, beyond the {MOST_TOKENS} that are drawn;"
                f" {_ELSEWHERE}"
            )

    def _batch(self, X, weight, y, n_threads):
        X = X if sparse.issparse(X) else sparse.csr_array(X)
        allowed = None if y is None else self._allowed(y, X.shape[0])
        rows = Rows.unchecked(X, weight, None, n_threads)
        return Documents.unchecked(rows, np.arange(X.shape[0]), allowed)

    def _allowed(self, y, n):
        """Return the allowed topics of documents, uint8; None if these are all."""
        shape = (n, self._n_components)
        if np.ndim(y) != 2 or np.shape(y)[1] == 1:
            topics, top = column("y", y), shape[1] - 1
            if len(topics) != n:
                raise ValueError(f"X has {n} rows, and y {len(topics)}.")
            if topics.dtype.kind not in "iu" or topics.min() < -1 or topics.max() > top:
                raise ValueError(
                    f"with semi_supervised=True, y must hold integers: known components 0..{top},"
                    f" and -1 where unknown; got {topics!s:.60}. Otherwise y is ignored."
                )
            allowed = (topics < 0)[:, None] | (topics[:, None] == np.arange(shape[1]))
        else:
            check_complete("y", y)
            y = canonical_csr(y).toarray() if sparse.issparse(y) else np.asarray(y)
            if y.shape != shape:
                raise ValueError(f"y must be of shape {shape} or ({n},), got {y.shape}.")
            if y.dtype.kind not in "biuf" or np.isnan(y).any():
                raise ValueError("y must hold numbers or booleans, nonzero for allowed topics.")
            allowed = y != 0
            empty = np.flatnonzero(~allowed.any(axis=1))
            if len(empty):
                raise ValueError(f"y allows no topic in row {empty[0]}; allow all if unknown.")
        return None if allowed.all() else np.ascontiguousarray(allowed, dtype=np.uint8)


# Documents that the start reads.
_MOST_DOCUMENTS = 100
# Tokens of each, enough to separate its topics.
_MOST_TOKENS = 100_000
# Shape of the gamma variables that separate topics at first, as in scikit-learn.
_NOISE = 100.0
# Pseudo-count of each word, so that later words have topics, too.
_LEAST_COUNT = 0.1


@dataclass(frozen=True)
class TopicInitialiser(Initialiser):
    """First topics: half from Gibbs sampling of some documents, half the mean topic.

    Expectations would not separate similar topics for a long time; draws do at once.
    """

    lda: LatentDirichletAllocation

    def estimated(self, data, random_state):
        frequency = np.asarray(data.X.sum(axis=0, dtype=np.float64)).ravel() + _LEAST_COUNT
        frequency = (frequency / frequency.sum())[:, None]
        # Counts of words and topics in some documents are drawn, from similar topics.
        noise = random_state.gamma(_NOISE, 1.0 / _NOISE, (data.n_features, self.lda.n_components))
        topics_T = frequency * noise
        chosen = random_state.permutation(len(data))[:_MOST_DOCUMENTS]
        model = self.model_of(topics_T / topics_T.sum(axis=0), data.mean_length)
        model = replace(model, inference=LocalGibbs())
        rng = np.random.default_rng(drawn_seed(random_state))
        drawn = model.e_step(_tokens(data[np.sort(chosen)]), rng)[0].counts_T + 1e-10 * frequency
        topics_T = 0.5 * drawn / drawn.sum(axis=0) + 0.5 * frequency
        return self.model_of(topics_T, data.mean_length)

    def model_of(self, topics_T, length):
        """Return a model of these topics, with the first alpha and a mean length of documents."""
        lda, alpha = self.lda, self.lda.doc_topic_prior
        alpha = _CONCENTRATION / lda.n_components if alpha is None else float(alpha)
        alpha, length = np.full(lda.n_components, alpha), np.array([length])
        learns_alpha = lda.learn_doc_topic_prior
        return LatentDirichletModel(topics_T, alpha, length, lda._inference(), learns_alpha)

    def stream_model(self, data, random_state):
        model = self.estimated(data, random_state)
        # They weigh as much as the batch, as in an online step of rate 1: later words may be new.
        return model, model.own_statistics().scale(data.total_weight)


def _tokens(data):
    """Return documents with few tokens: fractions are rounded up, long documents shortened."""
    if data.is_whole and data.lengths.max(initial=0.0) <= _MOST_TOKENS:
        return data
    X, lengths = data.X.copy(), np.repeat(data.lengths, np.diff(data.offsets))
    X.data = np.ceil(X.data * np.minimum(1.0, _MOST_TOKENS / np.maximum(lengths, 1.0)))
    return replace(data, rows=Rows(X, data.sample_weight, n_threads=data.n_threads))


# Documents in a batch: at most so many, and few enough for so many steps in a pass.
_MOST_IN_BATCH, _STEPS_IN_PASS = 100, 20
# Sum of the default prior of proportions.
_CONCENTRATION = 5.0
# Their products with probabilities are finite in single precision.
_PRIORS = Interval(Real, 1e-20, 1e20, closed="both")
_MOST_SWEEPS = np.iinfo(np.intc).max


def _put_topics(model, counts):
    topics = relative_shares("components_", counts, counts.shape)
    return replace(model, topics_T=np.ascontiguousarray((topics / _sums(topics)).T))


def _sums(counts):
    return counts.sum(axis=1, keepdims=True)


def _put_alpha(model, alpha):
    alpha = np.full(model.n_components, alpha)
    least, most = _PRIORS.left, _PRIORS.right
    is_valid = ((alpha >= least) & (alpha <= most)).all()
    require(is_valid, "doc_topic_prior_", f"from {least:g} to {most:g}", alpha)
    return replace(model, alpha=alpha)


def _no_criterion(self) -> NoReturn:
    raise AttributeError(
        f"{type(self).__name__} has neither bic nor aic, as it only has a lower bound of its"
        " likelihood. Compare `perplexity` on held-out documents."
    )


@estimator
class LatentDirichletAllocation(ClassNamePrefixFeaturesOutMixin, RowEstimator):
    r"""Latent Dirichlet allocation: topics of documents, learnt online, in batch, or by sampling.

    .. math::
        \theta_d \sim \mathrm{Dir}(\alpha), \quad z_{dn} \sim \theta_d, \quad
        w_{dn} \sim \phi_{z_{dn}}, \quad \phi_k \sim \mathrm{Dir}(\beta)

    Numbers of tokens are given, not modelled. Takes dense arrays, CSR and CSC of counts. By default
    topics of words are inferred by Gibbs sampling within each document, and the topics are learnt
    by online EM [1]_, in `fit` and in `partial_fit`: one pass is as good as many passes of batch
    variational Bayes. A stream keeps its first documents, a hundred for each topic, until its start
    is final: see :class:`~sklearn_onlineem.em.Online`.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics.
    doc_topic_prior : float, default=None
        :math:`\alpha` of each topic, from 1e-20 to 1e20; the start, if it is learnt. None:
        ``5/n_components``.
    topic_word_prior : float, default=None
        :math:`\beta`, of each word, added to its expected counts; from 1e-20 to 1e20. None:
        ``1/n_components``.
    learn_doc_topic_prior : bool, default=True
        Whether to learn :math:`\alpha`, one for each topic, by maximum likelihood. It is
        overestimated with ``e_step="map"`` and ``solver="batch"``, where False is better by about a
        per cent.
    solver : str or Solver, default="online"
        How `fit` learns. "online": online EM, `max_iter` passes over shuffled mini-batches.
        "batch": batch EM, which infers topics by ``e_step="map"``. "stochastic": stochastic EM,
        `max_iter` sweeps that draw topics of all tokens at once, given the counts of the last sweep
        [3]_. "gibbs": collapsed Gibbs sampling, `max_iter` sweeps [4]_. Strings are short for
        values, which have further settings: see :ref:`solvers`. `partial_fit` always takes an
        online step, with "stochastic" from one draw.
    e_step : {"gibbs", "map"}, default="gibbs"
        How online EM infers the topics of a document. "gibbs": `n_sweeps` sweeps of Gibbs sampling
        within the document, whose conditional probabilities are averaged. "map": rounds of EM,
        three times as fast, but worse if documents are short and topics many.
    n_sweeps : int, default=20
        Sweeps of ``e_step="gibbs"`` over a document.
    burn_in : int, default=10
        Sweeps that are discarded; fewer than `n_sweeps`.
    average : int, default=50
        Last sweeps of `fit` that are averaged, with ``solver="gibbs"`` and ``"stochastic"``.
    eta0 : float or "auto", default="auto"
        First learning rate, above 0. "auto": 1; after the first documents of a stream it depends on
        the size of the batches, as in other estimators.
    batch_size : int, default=None
        Documents in a mini-batch of `fit`. None: 100, or fewer so that a pass takes 20 steps.
    max_iter : int, default=10
        Passes of `fit` over the data, or sweeps; samplers need some 200. 0: `fit` only
        sets the start.
    tol : float, default=0.0
        `fit` ends when `stopping` falls below this, in nats per document. 0.0: only after
        `max_iter`.
    total_samples : float, default=None
        Documents in a stream, over which the prior on topics is spread. None, and while its start
        is made: those seen so far.
    semi_supervised : bool, default=False
        Whether the `y` of `fit` and `partial_fit` holds the allowed topics of documents (labelled
        LDA [5]_): of shape (n_samples,), one topic each, or -1 for any; or of shape (n_samples,
        n_components), nonzero for allowed ones. Otherwise it is ignored.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Pseudo-counts of words in topics: expected numbers of tokens in the documents seen, plus the
        prior. Rows divided by their sums are :math:`\phi`. It can be set, and then stays as it is
        until the next update.
    exp_dirichlet_component_ : ndarray of shape (n_components, n_features)
        :math:`\exp E[\log \phi]` of Dirichlet distributions with these pseudo-counts.
    doc_topic_prior_ : ndarray of shape (n_components,)
        Learnt :math:`\alpha`. It can be set, also to one number for all topics.
    topic_word_prior_ : float
        :math:`\beta`.
    n_batch_iter_ : int
        Updates so far.
    bound_ : float
        Mean lower bound of the log-likelihood per document in the last pass. An AttributeError
        after a fit by "gibbs" or "stochastic", which has none.
    lower_bound_, lower_bounds_ : float, list of float
        The same, and that of each pass of the last `fit`. After a fit by "gibbs" or "stochastic"
        they are not bounds, but log-likelihoods of the tokens of a document, each given all the
        others, which are higher.

    See Also
    --------
    MultinomialMixture : One topic in each document.

    Notes
    -----
    The likelihood of a document has no closed form. `score_samples` is a lower bound of it, and
    `perplexity` estimates that of the second halves of documents given the first, by sampling.
    Random numbers depend on `random_state`, on the update, and on the position of a document in X,
    not on the number of threads or shards.

    References
    ----------
    .. [1] Dupuy & Bach, "Online but Accurate Inference for Latent Variable Models with Local Gibbs
       Sampling", JMLR 2017.
    .. [2] Blei, Ng & Jordan, "Latent Dirichlet Allocation", JMLR 2003.
    .. [3] Zaheer, Wick, Tristan, Smola & Steele, "Exponential Stochastic Cellular Automata for
       Massively Parallel Inference", AISTATS 2016.
    .. [4] Griffiths & Steyvers, "Finding scientific topics", PNAS 2004.
    .. [5] Ramage, Hall, Nallapati & Manning, "Labeled LDA", EMNLP 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import LatentDirichletAllocation
    >>> rng = np.random.default_rng(0)
    >>> topics = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> X = rng.multinomial(50, rng.dirichlet([0.2, 0.2], size=400) @ topics)
    >>> lda = LatentDirichletAllocation(2, random_state=0).fit(X)
    >>> float(lda.transform([[9, 9, 1, 1]]).max().round(1))
    0.9
    >>> sorted(sorted(words) for words in lda.top_words(["ale", "bun", "car", "dog"], 2))
    [['ale', 'bun'], ['car', 'dog']]
    """

    n_components: int = parameter(default=10, valid=[COUNT], structural=True, kw_only=False)
    doc_topic_prior: float | None = parameter(default=None, valid=[None, _PRIORS], structural=True)
    topic_word_prior: float | None = parameter(default=None, valid=[None, _PRIORS])
    learn_doc_topic_prior: bool = parameter(default=True, valid=["boolean"])
    solver: str | Solver = parameter(
        default="online",
        valid=[StrOptions({"online", "adaptive", "batch", "stochastic", "gibbs"}), Solver],
    )
    e_step: str = parameter(default="gibbs", valid=[StrOptions({"gibbs", "map"})])
    n_sweeps: int = parameter(
        default=20, valid=[Interval(Integral, 1, _MOST_SWEEPS, closed="both")]
    )
    burn_in: int = parameter(default=10, valid=[COUNT_FROM_0])
    average: int = parameter(default=50, valid=[COUNT])
    batch_size: int | None = parameter(default=None, valid=[None, COUNT])
    max_iter: int = parameter(default=10, valid=[COUNT_FROM_0])
    tol: float = parameter(default=0.0, valid=[NOT_NEGATIVE])
    total_samples: float | None = parameter(default=None, valid=[None, POSITIVE])
    semi_supervised: bool = parameter(default=False, valid=["boolean"])

    _takes = frozenset({"sparse", "positive"})
    _reader = DocumentsInput
    _handles_missing = False
    _online = OnlineDefaults(eta0=1.0)

    # ------------------------------------------------------------------------------- composition

    def _start(self):
        return TopicInitialiser(self)

    def _pseudo_statistics(self, model, n_features):
        n_components, smoothing = model.n_components, self.topic_word_prior
        if smoothing is None:
            smoothing = 1.0 / n_components
        return TopicStatistics(None, smoothing, 0.0, np.zeros(n_components))

    def _inference(self):
        solver = self._solver()
        if not solver.draws and (self.e_step == "map" or isinstance(solver, Batch)):
            return MaximumAPosteriori()
        return LocalGibbs(self.n_sweeps, self.burn_in, takes_draw=solver.draws)

    def _solver(self):
        if self.solver not in _SAMPLERS:
            return super()._solver()
        return _SAMPLERS[self.solver](average_from=max(1, self.max_iter - self.average + 1))

    def _n_in_batch(self, data, settles=False):
        if not settles and self.batch_size is not None:
            return self.batch_size
        return min(_MOST_IN_BATCH, max(1, len(data) // _STEPS_IN_PASS))

    def _validate_params(self):
        super()._validate_params()
        n, name = self.n_sweeps, f"burn_in of {type(self).__name__}"
        require(self.burn_in < n, name, f"less than n_sweeps={n}", self.burn_in)

    def _learning(self, model):
        inference, learns_alpha = self._inference(), self.learn_doc_topic_prior
        if (model.inference, model.learns_alpha) == (inference, learns_alpha):
            return model
        return replace(model, inference=inference, learns_alpha=learns_alpha)

    # --------------------------------------------------------------------------- fitted attributes

    def _blank(self, sizes, n_features, given):
        uniform = np.full((n_features, self.n_components), 1.0 / n_features)
        return TopicInitialiser(self).model_of(uniform, 1.0)

    def _bound(self, model, data):
        return self._learning(replace(model, length=np.array([data.mean_length])))

    def _attributes_of(self, given, n_steps):
        # Pseudo-counts stay as they were set until the next update.
        if "components_" not in given:
            return {}
        return {"_tokens_set": (n_steps, _sums(given["components_"])[:, 0])}

    components_ = Settable[Floats](
        read=lambda self: exposed(self, self._pseudo_counts()), axes="kd", put_into=_put_topics
    )

    @fitted_property
    def exp_dirichlet_component_(self) -> Floats:
        counts = self._pseudo_counts()
        return exposed(self, np.exp(psi(counts) - psi(counts.sum(axis=1, keepdims=True))))

    def _pseudo_counts(self):
        model, state = self.model_, self._fitted.state
        n_steps, tokens = self._fitted.attributes.get("_tokens_set", (-1, None))
        if n_steps != state.counters.n_steps:
            # With the prior: topics are (n_kv + beta) / (n_k + V beta).
            tokens = state.counters.n_seen * model.length * model.shares
            tokens += self.topic_word_prior_ * len(model.topics_T)
        return np.ascontiguousarray((model.topics_T * tokens).T)

    doc_topic_prior_ = Settable[Floats](
        optional="doc_topic_prior",
        read=lambda self: exposed(self, self.model_.alpha),
        # One for all topics, as in scikit-learn, or one for each.
        axes=lambda alpha: "k" if alpha.ndim else "",
        put_into=_put_alpha,
    )

    @fitted_property
    def topic_word_prior_(self) -> Floats:
        prior = self._fitted.state.prior
        if prior is None:  # of a known model before its first data
            prior = self._pseudo_statistics(self.model_, self.n_features_in_)
        return prior.smoothing

    @property
    def n_batch_iter_(self) -> int:
        return self.n_steps_

    @property
    def bound_(self) -> float:
        fitted = fitted_of(self)
        is_drawn = fitted.chains is not None or fitted.state.model.inference.takes_draw
        if fitted.lower_bounds and is_drawn:
            raise AttributeError(
                f"{type(self).__name__} has no bound_ after a fit by a sampler: lower_bound_ is the"
                " log-likelihood of tokens given all the others. score(X) is a bound."
            )
        return self.lower_bound_

    # ---------------------------------------------------------------------------------- inference

    def _documents(self, X):
        reader = self._input()
        reader.infers = True
        return reader.read(X)

    def transform(self, X: RowData, *, normalize: bool = True) -> Floats:
        """Return the expected proportions of topics in documents.

        Parameters
        ----------
        normalize : bool, default=True
            Whether rows add up to 1. Otherwise they are pseudo-counts: the prior plus expected
            numbers of tokens.

        Returns
        -------
        proportions : ndarray of shape (n_samples, n_components)
        """
        seen = self._seen()
        check_bool(f"normalize of {type(self).__name__}.transform", normalize)
        data = seen._documents(X)
        proportions = seen.model_.posterior(data)
        if not normalize:
            proportions *= (data.lengths + seen.model_.alpha.sum())[:, None]
        return proportions.astype(data.dtype, copy=False)

    def perplexity(self, X: RowData) -> float:
        r"""Return the perplexity of documents by completion; lower is better.

        The tokens of each document are split into halves at random [1]_. One half determines the
        proportions of topics, by 200 sweeps of Gibbs sampling, and the other is scored:
        :math:`\exp(-\sum \log \sum_k \theta_{dk} \phi_{kw} / n)` over its n tokens. So all solvers
        are comparable; scikit-learn's perplexity is a bound instead. Of fractions, which
        ``e_step="map"`` takes, the part beyond whole tokens is a token of less weight, and the
        proportions are inferred as by `transform`.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Counts, as `transform` takes them; documents of a single token are ignored.

        Returns
        -------
        perplexity : float

        References
        ----------
        .. [1] Wallach, Murray, Salakhutdinov & Mimno, "Evaluation Methods for Topic Models", ICML
           2009 (document completion).
        """
        seen = self._seen()
        data = seen._documents(X)
        with error_context(self):
            log_likelihoods, n_tokens = seen.model_.completion(data, generator(seen))
            if not n_tokens.any():
                raise ValueError("X must have a document with at least two tokens.")
        return float(np.exp(-log_likelihoods.sum() / n_tokens.sum()))

    def top_words(self, feature_names: ArrayLike | None = None, n: int = 10) -> list[list[str]]:
        """Return the most probable words of each topic.

        Parameters
        ----------
        feature_names : array-like of shape (n_features,), default=None
            The vocabulary. None: `feature_names_in_`, or numbers of columns where there is none.
        n : int, default=10
            Number of words of each topic.

        Returns
        -------
        words : list of list
            For each topic, the most probable first.

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, there is not one name for each column, or `n` is below
            1.
        """
        seen = self._seen()
        name = type(self).__name__
        check_count(f"n of {name}.top_words", n)
        if feature_names is None:
            feature_names = getattr(seen, "feature_names_in_", np.arange(seen.n_features_in_))
        feature_names = np.asarray(feature_names)
        shape, n_names = feature_names.shape, seen.n_features_in_
        what = f"an array of {n_names} names"
        require(shape == (n_names,), f"feature_names of {name}.top_words", what, shape)
        return [feature_names[words].tolist() for words in seen._top(n)]

    def _top(self, n):
        """Columns of the most probable words of each topic; of equals, the first."""
        return np.argsort(-self.model_.topics_T.T, axis=1, kind="stable")[:, :n]

    def topic_coherence(self, X: RowData, n: int = 10, measure: str = "npmi") -> Floats:
        """Return the coherence of each topic: how often its top words occur together in documents.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Documents to count in; they need not be those of `fit`.
        n : int, default=10
            Number of top words.
        measure : {"npmi", "umass"}, default="npmi"
            "npmi": mean over pairs of words of their pointwise mutual information in documents,
            divided by -log of the probability of both; from -1, never together, to 1, always [1]_.
            "umass": mean of log((D(v, w) + 1) / D(w)), with the number D of documents that have the
            words, and w before v [2]_; pairs whose w never occurs count 0.

        Returns
        -------
        coherence : ndarray of shape (n_components,)
            Higher is better.

        References
        ----------
        .. [1] Lau, Newman & Baldwin, "Machine Reading Tea Leaves", EACL 2014.
        .. [2] Mimno, Wallach, Talley, Leenders & McCallum, "Optimizing Semantic Coherence in Topic
           Models", EMNLP 2011.
        """
        seen = self._seen()
        name = f"{type(self).__name__}.topic_coherence"
        check_count(f"n of {name}", n)
        is_known = isinstance(measure, str) and measure in _MEASURES
        require(is_known, f"measure of {name}", f"one of {list(_MEASURES)}", measure)
        X, means = seen._documents(X).X, []
        for words in seen._top(n):
            occurs = (X[:, words] > 0).astype(np.float64)
            both = (occurs.T @ occurs).toarray()
            pairs = first, second = np.triu_indices(len(words), 1)
            alone = np.diagonal(both)
            values = _MEASURES[measure](both[pairs], alone[first], alone[second], X.shape[0])
            # One word has no pairs.
            means.append(values.mean() if len(values) else 0.0)
        return np.array(means)

    def sample(self, n_samples: int = 1, lengths: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Draw documents.

        Parameters
        ----------
        n_samples : int, default=1
            Number of documents.
        lengths : int or array-like of shape (n_samples,), default=None
            Tokens in each. None: the mean length of the data, rounded.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Counts.
        proportions : ndarray of shape (n_samples, n_components)
            Proportions of topics in each document.
        """
        seen = self._seen()
        seen._check_n_samples(n_samples)
        name = f"lengths of {type(self).__name__}"
        lengths = None if lengths is None else checked_lengths(name, lengths, n_samples)
        X, proportions = seen.model_.sample(int(n_samples), generator(seen), lengths=lengths)
        return exposed(seen, X), exposed(seen, proportions)

    # A bound of the likelihood is too loose for information criteria.
    bic = property(_no_criterion, doc="There is none: the likelihood has a lower bound only.")
    aic = property(_no_criterion, doc="There is none: the likelihood has a lower bound only.")


_SAMPLERS = {"stochastic": Stochastic, "gibbs": Gibbs}

"""Latent Dirichlet allocation: documents whose words come from several topics."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import gammaln, psi

from sklearn_onlineem._checks import array_of
from sklearn_onlineem._kernels import _centred_moments, _topic_sweeps
from sklearn_onlineem._kernels._compound_dirichlet import solve
from sklearn_onlineem._kernels._topic_tables import (
    column_divergences,
    normalise_columns,
    scale_columns,
)
from sklearn_onlineem._typing import Floats, Generator
from sklearn_onlineem.data.documents import MOST_SINGLE, MOST_TOKENS, Documents
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families._collapsed import drawn_proportions
from sklearn_onlineem.families._e_step import log_of
from sklearn_onlineem.families._word_tables import (
    TableField,
    WordSum,
    WordTable,
    few_words,
    word_divergences,
)
from sklearn_onlineem.models._model import Model, matching
from sklearn_onlineem.models.capabilities import Chain, Reinitialises, SampledChains, SplitMergeStep
from sklearn_onlineem.models.split_merge import (
    EMPTY_SHARE,
    LOG_ODDS,
    along_first_axis,
    gain_of,
    learners_and_judges,
)  # fmt: skip
from sklearn_onlineem.models.topics.inference import (
    ALL_TOPICS,
    LocalGibbs,
    TopicInference,
    check_topics,
    padded,
)
from sklearn_onlineem.statistics import Statistics

# Range of a learnt alpha: below it the prior has no effect, above it all have the same proportions.
_LEAST_ALPHA, _LARGEST_ALPHA = 1e-5, 1e4
# Least total count of a topic that determines its words.
_LEAST_TOTAL = 1e-300
# Numbers in a block of dense documents that are drawn.
_BLOCK_VALUES = 1 << 20
# A topic with less than this fraction of the mean of alpha may have no words in new documents.
_FEW = 0.5
# Topics of which a split is tried, documents for it, and passes of EM for the halves.
_MOST_SPLIT, _SPLIT_DOCUMENTS, _SPLIT_PASSES = 2, 256, 3
_SEEDS = 1 << 63


@dataclass(frozen=True)
class TopicStatistics(Statistics):
    r"""Expected statistics of documents and their topics, per document.

    Parameters
    ----------
    counts_T : ndarray of shape (n_words, n_components) or None
        Expected number of tokens of each word and topic. None: 0.
    smoothing : float
        The prior's pseudo-counts of each word in each topic.
    weight : float
        Weight of the documents.
    mean_logs : ndarray of shape (n_components,)
        :math:`\sum_d E[\log \theta_{dk}]`.
    """

    counts_T: Floats | None = TableField()
    smoothing: float
    weight: float
    mean_logs: Floats

    def merge(self, a: float, other: TopicStatistics, b: float) -> TopicStatistics:
        return TopicStatistics(
            _merged(a, vars(self)["counts_T"], b, vars(other)["counts_T"]),
            a * self.smoothing + b * other.smoothing,
            a * self.weight + b * other.weight,
            a * self.mean_logs + b * other.mean_logs,
        )

    def scale(self, a: float) -> TopicStatistics:
        counts_T = _merged(a, vars(self)["counts_T"], 0.0, None)
        return TopicStatistics(counts_T, a * self.smoothing, a * self.weight, a * self.mean_logs)


def _merged(a, x, b, y):
    """Return A x + b y, where None is 0; large arrays are written as rarely as possible."""
    if x is None or y is None:
        factor, values = (b, y) if x is None else (a, x)
        if isinstance(values, WordSum):
            return values.scaled(factor)
        return values if values is None or factor == 1.0 else factor * values
    if isinstance(x, WordSum) or isinstance(y, WordSum):
        x, y = (z if isinstance(z, WordSum) else WordSum.of_array(z) for z in (x, y))
        return x.scaled(a).plus(y.scaled(b))
    for table in (x, y):
        array_of("counts_T of TopicStatistics", table, ndim=2)
    if x.shape != y.shape:
        raise ValueError(f"counts_T of shapes {x.shape} and {y.shape} cannot be added.")
    return _centred_moments.merge(a, x, b, y)


@dataclass(frozen=True)
class LatentDirichletModel(Model[Documents, TopicStatistics], Reinitialises, SampledChains):
    r"""Latent Dirichlet allocation.

    .. math::
        \theta_d \sim \mathrm{Dir}(\alpha), \quad z_{dn} \sim \theta_d, \quad w_{dn} \sim
        \phi_{z_{dn}}

    given the number of tokens of a document. Its log-likelihood has no closed form, and is replaced
    by a lower bound, of the tokens in their order, for any :math:`\theta`, with
    :math:`q_{wk} \propto \theta_k \phi_{kw}` and :math:`\bar n_k = \sum_w c_w q_{wk}`:

    .. math::
        \log p(w) \ge{} & \log \frac{\Gamma(\alpha_0)}{\Gamma(\alpha_0 + N)} + \sum_k \Big[\log
        \frac{\Gamma(\alpha_k + \bar n_k)}{\Gamma(\alpha_k)} - \bar n_k \log \theta_k\Big] \\
        & + \sum_w c_w \log \sum_k \theta_k \phi_{kw}

    which is Jensen's inequality twice: for q, and as :math:`\log \Gamma` is convex.

    Parameters
    ----------
    topics_T : ndarray of shape (n_words, n_components)
        :math:`\phi`, C-ordered, float64; columns add up to 1.
    alpha : ndarray of shape (n_components,)
        Above 0, C-ordered, float64.
    length : ndarray of shape (1,)
        Mean number of tokens in a document, float64.
    inference : TopicInference, default=LocalGibbs()
        How the E-step infers the topics of a document.
    learns_alpha : bool, default=True
        Whether the M-step changes alpha.

    References
    ----------
    Blei, Ng & Jordan, "Latent Dirichlet Allocation", JMLR 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from sklearn_onlineem.data.documents import Documents
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel
    >>> topics_T = np.array([[0.9, 0.0], [0.1, 0.1], [0.0, 0.9]])
    >>> model = LatentDirichletModel(topics_T, np.array([0.1, 0.1]), np.array([10.0]))
    >>> documents = Documents(Rows(csr_array([[9.0, 1.0, 0.0], [0.0, 1.0, 9.0]])))
    >>> model.posterior(documents).round(2)
    array([[0.99, 0.01],
           [0.01, 0.99]])
    """

    topics_T: Floats = TableField()
    alpha: Floats
    length: Floats
    inference: TopicInference = LocalGibbs()
    learns_alpha: bool = True

    is_exact = False

    def __post_init__(self):
        # Kernels do not convert them.
        if not isinstance(vars(self)["topics_T"], WordTable):
            check_topics(self.topics_T, self.alpha)
        array_of("length", self.length)
        if len(self.length) != 1:
            raise ValueError(f"length must be of shape (1,), got {self.length.shape}.")

    @property
    def n_components(self) -> int:
        return len(self.alpha)

    @property
    def draws(self) -> bool:
        return self.inference.draws

    @property
    def shares(self) -> Floats:
        """Expected shares of the topics in the tokens."""
        return self.alpha / self.alpha.sum()

    def e_step(
        self, data: Documents, rng: Generator | None = None
    ) -> tuple[TopicStatistics, float]:
        # Bounds replace log-likelihoods. Without `rng`, draws are always the same.
        few, table = few_words(data.X, self.n_components), vars(self)["topics_T"]
        if few is None:
            topics_T, documents = self.topics_T, data
        else:
            words, X = few
            topics_T = table.at(words) if isinstance(table, WordTable) else table[words]
            rows = Rows.unchecked(X, data.sample_weight, None, data.n_threads)
            documents = Documents.unchecked(rows, data.numbers, data.allowed)
        totals_T, share = np.empty_like(topics_T), 1.0 / data.total_weight
        seed = 0 if rng is None else _seed(rng)
        bounds, mean_logs = self.inference(
            topics_T, self.alpha, documents, seed, totals_T=totals_T, scale=share
        )
        if few is not None:
            totals_T = WordSum.of_words(data.n_features, words, totals_T)
        statistics = TopicStatistics(totals_T, 0.0, 1.0, mean_logs)
        return statistics, float(np.average(bounds, weights=data.sample_weight))

    def _infer(self, data, rng=None, **outputs):
        seed = 0 if rng is None else _seed(rng)
        return self.inference(self.topics_T, self.alpha, data, seed, **outputs)

    def own_statistics(self, like: Documents | None = None) -> TopicStatistics:
        mean_logs = psi(self.alpha) - psi(self.alpha.sum())
        table, factors = vars(self)["topics_T"], self.length * self.shares
        if isinstance(table, WordTable):
            counts_T = WordSum.of_table(table, factors)
        else:
            counts_T = np.empty_like(table)
            scale_columns(table, factors, counts_T, getattr(like, "n_threads", 1))
        return TopicStatistics(counts_T, 0.0, 1.0, mean_logs)

    def m_step(self, statistics: TopicStatistics) -> LatentDirichletModel:
        topics_T, length, alpha = vars(self)["topics_T"], self.length, self.alpha
        if self.learns_alpha and self.n_components > 1 and statistics.weight > 0.0:
            mean_logs, alpha = statistics.mean_logs / statistics.weight, alpha[None].copy()
            solve(np.minimum(mean_logs, -1e-12)[None], alpha)
            alpha = np.clip(alpha[0], _LEAST_ALPHA, _LARGEST_ALPHA)
        if vars(statistics)["counts_T"] is not None:
            topics_T, totals = self._topics_of(statistics)
            if statistics.weight > 0.0:
                length = np.array([totals.sum() / statistics.weight])
        return replace(self, topics_T=topics_T, alpha=alpha, length=length)

    def _topics_of(self, statistics):
        counts_T = vars(statistics)["counts_T"]
        if isinstance(counts_T, WordSum):
            counts_T = replace(counts_T, constants=counts_T.constants + statistics.smoothing)
            smoothed = counts_T.sums
            if (smoothed >= _LEAST_TOTAL).all() and np.isfinite(smoothed).all():
                table = counts_T.divided(smoothed)
                if table is not None and (table.shift > 0.0).all():
                    return table, smoothed - counts_T.n_words * statistics.smoothing
        topics_T, totals = np.empty_like(self.topics_T), np.empty(self.n_components)
        array_of("counts_T", statistics.counts_T, ndim=2)
        normalise_columns(statistics.counts_T, statistics.smoothing, topics_T, totals)
        smoothed = totals + len(topics_T) * statistics.smoothing
        if not np.isfinite(smoothed).all():
            raise ValueError("counts_T of statistics, and their smoothing, must be finite.")
        empty = smoothed < _LEAST_TOTAL
        if empty.any():
            topics_T[:, empty] = self.topics_T[:, empty]
        return topics_T, totals

    def n_parameters(self) -> int:
        n_words, n_components = self.topics_T.shape
        return n_components * (n_words - 1) + n_components * self.learns_alpha

    def observations_needed(self, data: Documents) -> float:
        return max(1.0, self.n_parameters() / max(1.0, data.mean_length))

    def log_likelihood(self, data: Documents) -> Floats:
        return self._expecting()._infer(data.unnumbered())[0]

    def posterior(self, data: Documents) -> Floats:
        """Return the expected proportions of topics, an ndarray (n_documents, n_components)."""
        proportions = np.empty((len(data), self.n_components))
        self._expecting()._infer(data.unnumbered(), proportions=proportions)
        return proportions

    def _expecting(self):
        """Return the model with an inference that takes expectations, not draws."""
        if not self.inference.takes_draw:
            return self
        return replace(self, inference=replace(self.inference, takes_draw=False))

    def completion(
        self, data: Documents, rng: Generator, n_sweeps: int = 200
    ) -> tuple[Floats, Floats]:
        """Return log-likelihoods of one half of the tokens of each document, given the other.

        Tokens are split at random. Proportions are the posterior mean given the first half, by
        local Gibbs sampling, with half of the sweeps discarded. Where counts are no numbers of
        tokens (fractions, or more than 2**24 in a row), a fraction is split as one token more, and
        the model's own inference, if it takes such counts, reads the first half. Return the
        log-likelihoods in nats, (n_documents,), and the numbers of tokens in the second halves.

        Parameters
        ----------
        data : Documents
            Counts of words; ValueError if they are not whole, and the model draws topics of tokens.
        rng : numpy.random.Generator
            Source of random numbers.
        n_sweeps : int, default=200
            How often all tokens of the first halves are drawn.
        """
        (given, rest), reader = _halves(data, rng), self
        if data.is_whole:
            reader = replace(self, inference=LocalGibbs(n_sweeps, n_sweeps // 2))
        proportions = np.empty((len(data), self.n_components))
        reader._infer(given, rng, proportions=proportions)
        documents = np.repeat(np.arange(len(data)), np.diff(rest.offsets))
        totals = np.empty(len(documents))
        step = max(1, _BLOCK_VALUES // self.n_components)
        for start in range(0, len(documents), step):
            block = slice(start, start + step)
            totals[block] = np.einsum(
                "ik,ik->i", proportions[documents[block]], self.topics_T[rest.words[block]]
            )
        return np.bincount(documents, rest.X.data * log_of(totals), len(data)), rest.lengths

    def kl_divergence(self, other: LatentDirichletModel, like: Documents | None = None) -> float:
        n_threads, tables = getattr(like, "n_threads", 1), (vars(self), vars(other))
        tables = [table["topics_T"] for table in tables]
        if all(isinstance(table, WordTable) for table in tables):
            divergences = word_divergences(*tables, n_threads)
        else:
            divergences = np.empty(self.n_components)
            column_divergences(self.topics_T, other.topics_T, divergences, n_threads)
        of_words = float(self.length[0] * (divergences @ self.shares))
        return max(0.0, _dirichlet_divergence(self.alpha, other.alpha) + of_words)

    def with_components_of(self, other: LatentDirichletModel) -> LatentDirichletModel:
        return replace(self, topics_T=other.topics_T)

    def aligned_to(
        self, reference: LatentDirichletModel, like: Documents | None = None
    ) -> LatentDirichletModel:
        divergences = _column_divergences(self.topics_T, reference.topics_T)
        order = matching(self.shares, reference.shares, divergences)
        if (order == np.arange(len(order))).all():
            return self
        topics_T = np.ascontiguousarray(self.topics_T[:, order])
        return replace(self, topics_T=topics_T, alpha=self.alpha[order])

    def sample(
        self,
        n: int,
        rng: Generator,
        like: Documents | None = None,
        lengths: ArrayLike | None = None,
    ) -> tuple[Floats, Floats]:
        """Draw n documents; return counts (n, n_words) and proportions of topics (n, n_components).

        Parameters
        ----------
        n, rng, like
            As in `Model.sample`.
        lengths : array-like broadcasting to (n,), default=None
            Tokens of each document; None: as in `like` or, without it, the mean length, rounded.
        """
        if lengths is None:
            lengths = np.rint(self.length) if like is None else rng.choice(np.rint(like.lengths), n)
        lengths = np.broadcast_to(lengths, n).astype(np.int64)
        proportions = drawn_proportions(np.tile(self.alpha, (n, 1)), rng)
        counts = np.empty((n, len(self.topics_T)))
        step = max(1, _BLOCK_VALUES // len(self.topics_T))
        for start in range(0, n, step):
            block = slice(start, start + step)
            words = proportions[block] @ self.topics_T.T
            words /= words.sum(axis=1, keepdims=True)
            counts[block] = rng.multinomial(lengths[block], words)
        return counts, proportions

    def pseudo_data(self, n: int, rng: Generator, like: Documents | None = None) -> Documents:
        n_threads = 1 if like is None else like.n_threads
        return Documents(Rows(csr_array(self.sample(n, rng, like)[0]), n_threads=n_threads))

    def has_empty(self, data: Documents) -> bool:
        # Shares of topics that are over decay slowly.
        few = self.shares.min() * self.n_components < _FEW
        return self.learns_alpha and data.allowed is None and bool(few)

    def reinitialised(self, data: Documents) -> SplitMergeStep | None:
        # Halves are learnt from half of some documents, and must make the others a million times
        # likelier, as in mixtures.
        parts = learners_and_judges(data.unnumbered(), _SPLIT_DOCUMENTS)
        if parts is None:
            return None
        model, (learners, judges) = self._expecting(), parts
        counts = model.e_step(learners)[0].counts_T.sum(axis=0)
        new = int(np.argmin(counts))
        if not counts[new] * self.n_components < EMPTY_SHARE * counts.sum():
            return None
        largest = [int(k) for k in np.argsort(-counts, kind="stable") if k != new and counts[k] > 0]
        trials = [(model._split(learners, k, new), k) for k in largest[:_MOST_SPLIT]]
        if not trials:
            return None
        trial, old = max(trials, key=lambda trial: trial[0].e_step(learners)[1])
        # The loss of documents that come back: those of the empty topic, and of the other one.
        others = self.topics_T.copy()
        alpha = trial.alpha[[old, new]]
        others[:, new] = trial.topics_T[:, [old, new]] @ (alpha / alpha.sum())
        losses = np.minimum(_column_divergences(self.topics_T[:, [new, old]], others), LOG_ODDS)
        of_new, of_old = losses[0].min(), losses[1, new]
        lost = self.length[0] * (self.shares[new] * of_new + self.shares[old] * of_old)
        if not gain_of(trial, model, judges) > lost:
            return None
        return SplitMergeStep(replace(trial, inference=self.inference), new, old)

    def _split(self, data, old, new):
        """Return the model with a topic split in two by the words that occur together."""
        documents = np.repeat(np.arange(len(data)), np.diff(data.offsets))
        joint = self.posterior(data)[documents] * self.topics_T[data.words]
        counts = data.counts * joint[:, old] / np.maximum(joint.sum(axis=1), _LEAST_TOTAL)
        totals = np.bincount(documents, counts, len(data))
        X, each = (
            csr_array((values, data.X.indices, data.X.indptr), shape=data.X.shape)
            for values in (counts, counts / np.maximum(totals[documents], _LEAST_TOTAL))
        )
        beyond = along_first_axis(each, totals, np.ones(X.shape[1])) > 0.0
        halves, pair = np.column_stack([X.T @ ~beyond, X.T @ beyond]), [old, new]
        model, alpha = self, self.alpha.copy()
        alpha[pair] = alpha[pair].sum() / 2.0
        for _ in range(_SPLIT_PASSES):
            totals, topics_T = halves.sum(axis=0), self.topics_T.copy()
            # Words that are not among the documents stay possible.
            learnt = halves / np.maximum(totals, _LEAST_TOTAL)
            topics_T[:, pair] = 0.99 * learnt + 0.01 * topics_T[:, [old]]
            topics_T[:, pair] /= topics_T[:, pair].sum(axis=0)
            model = replace(self, topics_T=topics_T, alpha=alpha)
            halves = model.e_step(data)[0].counts_T[:, pair]
        return model

    def chain(
        self,
        data: Documents,
        prior: TopicStatistics | None,
        rng: Generator,
        collapsed: bool = True,
        dispersed: bool = False,
    ) -> TopicChain:
        if dispersed:
            raise ValueError(f"{type(self).__name__} has one chain only: n_chains must be 1.")
        return TopicChain(self, data, prior, collapsed, rng)


def _dirichlet_divergence(a, b):
    logs = gammaln(a.sum()) - gammaln(b.sum()) + (gammaln(b) - gammaln(a)).sum()
    return float(logs + (a - b) @ (psi(a) - psi(a.sum())))


def _column_divergences(own, other):
    """Return KL(column i of own || column j of other), in nats."""
    logs, others = np.log(own, out=np.zeros_like(own), where=own > 0.0), log_of(other)
    total, finite = (own * logs).sum(axis=0)[:, None], np.isfinite(others)
    if finite.all():
        return total - own.T @ others
    # 0 times minus infinity is 0.
    divergences = total - own.T @ np.where(finite, others, 0.0)
    divergences[own.T @ ~finite > 0.0] = np.inf
    return divergences


def _halves(data, rng):
    """Yield two batches of documents, each with half of the tokens of each document."""
    X, counts = data.X, data.X.data.astype(np.float64)
    if data.is_whole:
        documents = np.split(counts.astype(np.int64), data.offsets[1:-1])
        drawn = (
            rng.multivariate_hypergeometric(tokens, tokens.sum() // 2, method="marginals")
            for tokens in documents
        )
        second = np.concatenate([*drawn]).astype(np.float64)
    else:
        second = _half_of_fractions(data, counts, rng)
    for part in (counts - second, second):
        rows = csr_array((part.astype(X.dtype), X.indices, X.indptr), shape=X.shape, copy=True)
        rows.eliminate_zeros()
        yield Documents(Rows(rows, n_threads=data.n_threads), data.numbers, data.allowed)


def _half_of_fractions(data, counts, rng):
    """Return half of counts that need not be whole: by a coin for each token, and the fraction."""
    # The beta distribution is as wide as the binomial one, whose numbers would overflow.
    are_many = counts > MOST_SINGLE
    whole, half = np.where(are_many, 0.0, np.floor(counts)), counts[are_many] / 2.0
    second = rng.binomial(whole.astype(np.int64), 0.5).astype(np.float64)
    second += (counts - whole) * rng.integers(2, size=len(counts))
    second[are_many] = counts[are_many] * rng.beta(half, half)
    documents = np.repeat(np.arange(len(data)), np.diff(data.offsets))
    second[np.bincount(documents, counts - second, len(data))[documents] <= 0.0] = 0.0
    return second


class TopicChain(Chain[LatentDirichletModel]):
    r"""Topics of all tokens of some documents, drawn by each sweep.

    .. math::
        p(z = k) \propto (n_{dk} + \alpha_k) \frac{n_{kw} + \beta}{n_k + V \beta}

    Collapsed Gibbs sampling draws tokens one after the other, given the present topics of all
    others. Stochastic EM draws all tokens at once, given the counts of the last sweep, which
    include the token's own. More than 4096 tokens of one word in one document are drawn together,
    as counts, which bounds the time of a sweep: for collapsed Gibbs sampling given proportions of
    the document and probabilities of the word, drawn from their posterior, with the same stationary
    distribution.

    Parameters
    ----------
    model : LatentDirichletModel
        The start.
    data : Documents
        Whole counts, without weights, with less than 2**24 tokens of a word in all.
    prior : TopicStatistics
        Its smoothing is beta, above 0.
    collapsed : bool
        Whether to use collapsed Gibbs sampling, or stochastic EM.
    rng : numpy.random.Generator
        Source of random numbers of the start.

    References
    ----------
    Griffiths & Steyvers, "Finding scientific topics", PNAS 2004; Zaheer, Wick, Tristan, Smola &
    Steele, "Exponential Stochastic Cellular Automata for Massively Parallel Inference", AISTATS
    2016 (stochastic EM).
    """

    def __init__(
        self,
        model: LatentDirichletModel,
        data: Documents,
        prior: TopicStatistics | None,
        collapsed: bool,
        rng: Generator,
    ) -> None:
        _check(data, prior)
        self._model, self._data, self._collapsed = model, data, collapsed
        self._prior = prior
        self._allowed = ALL_TOPICS if data.allowed is None else data.allowed
        self._n_averaged, self._sums = 0, None
        # Counts are split into single tokens and blocks, with offsets of documents.
        is_block = data.counts > MOST_SINGLE
        n_single = np.where(is_block, 0, data.counts).astype(np.int64)
        self._tokens = np.repeat(data.words, n_single)
        self._offsets = np.concatenate(([0], np.cumsum(n_single)))[data.offsets]
        self._block_offsets = np.concatenate(([0], np.cumsum(is_block)))[data.offsets]
        self._block_words, self._block_counts = data.words[is_block], data.counts[is_block]
        # First topics are drawn from those of the model, without regard to the rest of a document.
        self._topics = np.full(len(self._tokens), -1, dtype=np.intc)
        self._counts = padded(model.topics_T * (data.lengths.sum() * model.shares))
        self._block_topics = np.zeros((len(self._block_words), self._counts.shape[1]), np.float32)
        self._new_counts = np.empty_like(self._counts)
        self._drawn(False, rng)

    def sweep(self, rng: Generator) -> float:
        # The log-likelihood is that of tokens given the others, a document.
        total = self._drawn(self._collapsed, rng)
        if self._model.learns_alpha:
            # From mean expected logarithms of proportions, given the topics of the tokens.
            logs = np.empty(self._model.n_components)
            _topic_sweeps.expected_logs(
                self._topics, self._offsets, self._block_offsets, self._block_topics,
                self._allowed, self._model.alpha, logs, self._data.n_threads,
            )  # fmt: skip
            logs /= len(self._data)
            statistics = replace(self._prior, smoothing=0.0, weight=1.0, mean_logs=logs)
            self._model = self._model.m_step(statistics)
        return total / len(self._data)

    @property
    def _blocks(self):
        return self._block_offsets, self._block_words, self._block_counts, self._block_topics

    def _drawn(self, collapsed, rng):
        totals = self._totals()
        new = (None, None) if collapsed else (self._new_counts, np.empty_like(totals))
        total = _topic_sweeps.sweep(
            self._tokens, self._offsets, self._allowed, self._topics, *self._blocks, self._counts,
            totals, *new, self._model.alpha, self._prior.smoothing, _seed(rng),
            self._data.n_threads,
        )  # fmt: skip
        if not collapsed:
            self._counts, self._new_counts = self._new_counts, self._counts
        return total

    def _totals(self):
        return self._counts.sum(axis=0, dtype=np.float64)

    def average_in(self) -> None:
        if self._sums is None:
            self._sums = np.zeros(self._counts.shape)
        self._sums += self._counts
        self._n_averaged += 1

    def shares(self) -> Floats:
        totals = self._totals()[: self._model.n_components]
        return totals / max(totals.sum(), 1.0)

    def model(self) -> LatentDirichletModel:
        if self._n_averaged:
            return self._model_of(self._sums / self._n_averaged)
        return self._model_of(self._counts)

    def _model_of(self, counts):
        share, n_components = 1.0 / len(self._data), self._model.n_components
        counts_T = counts[:, :n_components].astype(np.float64)
        counts_T *= share
        smoothing = share * self._prior.smoothing
        return self._model.m_step(
            replace(self._prior, counts_T=counts_T, smoothing=smoothing, weight=0.0)
        )


def _seed(rng):
    return int(rng.integers(_SEEDS))


def _check(data, prior):
    if not data.is_whole:
        raise ValueError(
            "X must hold counts, whole numbers, and less than 2**24 in a row, where topics of words"
            " are drawn."
        )
    if np.max(data.X.sum(axis=0, dtype=np.float64)) > MOST_TOKENS:
        raise ValueError(
            "X must hold less than 2**24 tokens of a word in all, where topics of words are drawn"
            " for all documents together; online and batch EM take more."
        )
    if data.sample_weight is not None and not (data.sample_weight == 1.0).all():
        raise ValueError(
            "sample_weight must be None where topics are drawn for all documents together."
        )
    if prior is None or not prior.smoothing > 0.0:
        raise ValueError("topic_word_prior must be above 0 where topics are drawn.")

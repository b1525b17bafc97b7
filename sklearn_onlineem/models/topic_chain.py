"""Chains of draws of the topics of all tokens: collapsed Gibbs sampling, and stochastic EM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sklearn_onlineem._kernels import _topic_logs, _topic_sweeps
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.documents import MOST_SINGLE, MOST_TOKENS, Documents
from sklearn_onlineem.models.capabilities import Chain
from sklearn_onlineem.models.topic_inference import ALL_TOPICS, padded

if TYPE_CHECKING:
    from sklearn_onlineem.models.latent_dirichlet import LatentDirichletModel, TopicStatistics

__all__ = ["TopicChain"]

_SEEDS = 1 << 63


class TopicChain(Chain["LatentDirichletModel"]):
    r"""Topics of all tokens of some documents, which each sweep draws anew.

    .. math::
        p(z = k) \propto (n_{dk} + \alpha_k) \frac{n_{kw} + \beta}{n_k + V \beta}

    Collapsed Gibbs sampling takes tokens one after the other, given all the others as they are now.
    Stochastic EM takes the counts of the last sweep, that of the token among them, so that all
    tokens are drawn at once.

    The topics of more than 4096 tokens of one word in one document are drawn together, as counts,
    so that sweeps take no longer than so many tokens do. In stochastic EM that is a multinomial
    draw, the same distribution as of one token after the other. In collapsed Gibbs sampling it is
    one, too, given proportions of the document and probabilities of the word, which are drawn first
    from their posterior given all topics, and then forgotten. Its stationary distribution is that
    of tokens in turn; a single sweep is another step towards it.

    Parameters
    ----------
    model : LatentDirichletModel
        Where to begin.
    data : Documents
        Of whole counts, without weights.
    prior : TopicStatistics
        Its smoothing is beta.
    collapsed : bool
        Whether to sample by collapsed Gibbs sampling.
    rng : numpy.random.Generator
        Of the first topics.

    Raises
    ------
    ValueError
        If counts are not whole or documents have weights, or there is no smoothing, or all
        documents together have 2**24 tokens of a word or more.

    References
    ----------
    Griffiths & Steyvers, "Finding scientific topics", PNAS 2004; Zaheer, Wick, Tristan, Smola &
    Steele, "Exponential Stochastic Cellular Automata for Massively Parallel Inference", AISTATS
    2016 (stochastic EM).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from sklearn_onlineem.data.documents import Documents
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.models.latent_dirichlet import LatentDirichletModel, TopicStatistics
    >>> from sklearn_onlineem.models.topic_chain import TopicChain
    >>> topics_T, rng = np.array([[0.9, 0.1], [0.1, 0.9]]), np.random.default_rng(0)
    >>> model = LatentDirichletModel(topics_T, np.array([0.1, 0.1]), np.array([9.0]))
    >>> documents = Documents(Rows(csr_array([[9.0, 0.0], [0.0, 9.0]])))
    >>> prior = TopicStatistics(None, 0.1, 0.0, np.zeros(2))
    >>> chain = TopicChain(model, documents, prior, True, rng)
    >>> for _ in range(9):
    ...     _ = chain.sweep(rng)
    ...     chain.average_in()
    >>> chain.shares(), chain.model().topics_T.round(1)
    (array([0.5, 0.5]), array([[1., 0.],
           [0., 1.]]))
    """

    def __init__(
        self,
        model: LatentDirichletModel,
        data: Documents,
        prior: TopicStatistics | None,
        collapsed: bool,
        rng: np.random.Generator,
    ) -> None:
        _check(data, prior)
        self._model, self._data, self._collapsed = model, data, collapsed
        self._prior = prior
        self._split()
        self._allowed = ALL_TOPICS if data.allowed is None else data.allowed
        self._n_averaged, self._sums = 0, None
        self._begin(rng)

    def _split(self):
        """Split counts into single tokens and blocks, and say where those of documents begin."""
        words, counts, offsets = self._data.words, self._data.counts, self._data.offsets
        is_block = counts > MOST_SINGLE
        n_single = np.where(is_block, 0, counts).astype(np.int64)
        self._tokens = np.repeat(words, n_single)
        self._offsets = np.concatenate(([0], np.cumsum(n_single)))[offsets]
        self._block_offsets = np.concatenate(([0], np.cumsum(is_block)))[offsets]
        self._block_words, self._block_counts = words[is_block], counts[is_block]

    def _begin(self, rng):
        """Draw first topics by those of the model, whatever documents hold besides."""
        model, n_tokens = self._model, self._data.lengths.sum()
        self._topics = np.full(len(self._tokens), -1, dtype=np.intc)
        self._counts = padded(model.topics_T * (n_tokens * model.shares))
        self._block_topics = np.zeros((len(self._block_words), self._counts.shape[1]), np.float32)
        self._new_counts = np.empty_like(self._counts)
        self._draw_at_once(rng)

    def sweep(self, rng: np.random.Generator) -> float:
        # The log-likelihood is that of tokens given the others, a document.
        total = self._draw_in_turn(rng) if self._collapsed else self._draw_at_once(rng)
        self._learn_alpha()
        return total / len(self._data)

    @property
    def _blocks(self):
        return self._block_offsets, self._block_words, self._block_counts, self._block_topics

    def _draw_in_turn(self, rng):
        return _topic_sweeps.collapsed_sweep(
            self._tokens, self._offsets, self._allowed, self._topics, *self._blocks, self._counts,
            self._totals(), self._model.alpha, self._prior.smoothing, _seed(rng),
        )  # fmt: skip

    def _draw_at_once(self, rng):
        totals = self._totals()
        total = _topic_sweeps.esca_sweep(
            self._tokens, self._offsets, self._allowed, self._topics, *self._blocks, self._counts,
            totals, self._new_counts, np.empty_like(totals), self._model.alpha,
            self._prior.smoothing, _seed(rng), self._data.n_threads,
        )  # fmt: skip
        self._counts, self._new_counts = self._new_counts, self._counts
        return total

    def _totals(self):
        return self._counts.sum(axis=0, dtype=np.float64)

    def average_in(self) -> None:
        """Let the present counts be part of an average over sweeps."""
        if self._sums is None:
            self._sums = np.zeros(self._counts.shape)
        self._sums += self._counts
        self._n_averaged += 1

    def shares(self) -> Floats:
        totals = self._totals()[: self._model.n_components]
        return totals / max(totals.sum(), 1.0)

    def model(self) -> LatentDirichletModel:
        """Return the model of the present topics, or of the average if there is one."""
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

    def _learn_alpha(self):
        """Let alpha follow the present topics."""
        if self._model.learns_alpha:
            statistics = replace(
                self._prior, smoothing=0.0, weight=1.0, mean_logs=self._mean_logs()
            )
            self._model = self._model.m_step(statistics)

    def _mean_logs(self):
        """Mean expected logarithms of proportions, given the topics of the tokens."""
        totals = np.empty(self._model.n_components)
        _topic_logs.expected_logs(
            self._topics, self._offsets, self._block_offsets, self._block_topics, self._allowed,
            self._model.alpha, totals, self._data.n_threads,
        )  # fmt: skip
        return totals / len(self._data)


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
            " for all documents together; solver='online' and 'batch' take more."
        )
    if data.sample_weight is not None and not (data.sample_weight == 1.0).all():
        raise ValueError(
            "sample_weight must be None where topics are drawn for all documents together."
        )
    if prior is None or not prior.smoothing > 0.0:
        raise ValueError("topics are drawn given a prior, which topic_word_prior above 0 is.")

"""Inference of the topics of a document, for the expectations of a topic model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._checks import array_of
from sklearn_onlineem._kernels import _topics
from sklearn_onlineem._kernels._topic_tables import pad_rows
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.documents import MOST_SINGLE, MOST_TOKENS_SINGLY, Documents

# Kernels read rows of topics that are padded to a multiple of this.
_LANES = 16
ALL_TOPICS = np.empty((0, 0), dtype=np.uint8)
NOTHING = np.empty((0, 0))
# Logarithms of proportions, and weights of topics in single precision, are finite.
_LEAST_ALPHA, _MOST_ALPHA = 1e-100, 1e30


@dataclass(frozen=True)
class TopicInference:
    """Base of the kinds of inference; each defines how often it goes over a document."""

    # Whether random numbers are needed.
    draws = False
    # Whether statistics are of topics that were drawn, not of expectations.
    takes_draw = False
    # Whether counts need not be whole.
    takes_fractions = True

    # Arguments of the kernel: sweeps, discarded sweeps, rounds, whether to take one draw.
    _arguments = None

    def __call__(
        self,
        topics_T: Floats,
        alpha: Floats,
        data: Documents,
        seed: int = 0,
        totals_T: Floats = NOTHING,
        proportions: Floats = NOTHING,
        scale: float = 1.0,
    ) -> tuple[Floats, Floats]:
        r"""Infer the topics of documents.

        Return lower bounds of the log-likelihoods, in nats, without weights (n_documents,), and
        :math:`\sum_d s_d E[\log \theta_{dk}]` with the scaled weights s (n_components,). Fill
        `totals_T` with expected counts of words and topics, and `proportions` with expected ones,
        unless they are empty. Random numbers depend only on `seed` and the number of a document.
        """
        check_topics(topics_T, alpha)
        array_of("totals_T", totals_T, ndim=2)
        array_of("proportions", proportions, ndim=2)
        if not (self.takes_fractions or data.is_whole):
            raise ValueError(
                "X must hold counts, whole numbers, and less than 2**24 in a row, where topics of"
                " words are drawn; e_step='map' takes other numbers, and so does batch EM."
            )
        bounds, mean_logs = np.empty(len(data)), np.empty(len(alpha))
        n_sweeps, burn_in, n_rounds, takes_draw = self._arguments
        if data.sample_weight is not None:
            weight = scale * data.sample_weight
        else:
            weight = np.full(0 if scale == 1.0 else len(data), scale)
        table = padded(topics_T, data.n_threads)
        _topics.e_step(
            data.counts, data.words, data.offsets, weight,
            ALL_TOPICS if data.allowed is None else data.allowed,
            table, alpha, data.numbers, seed, n_sweeps, burn_in, n_rounds, MOST_SINGLE,
            MOST_TOKENS_SINGLY, takes_draw, totals_T, mean_logs, bounds, proportions,
            data.n_threads,
        )  # fmt: skip
        return bounds, mean_logs


@dataclass(frozen=True)
class LocalGibbs(TopicInference):
    r"""Gibbs sampling within each document (G-OEM).

    The topic of each token is drawn in turn, given those of the others,

    .. math:: p(z = k) \propto (n_k + \alpha_k) \, p(w \mid k)

    and these conditional probabilities are averaged, which vary less than draws. More than 4096
    tokens of one word, and all of a word in documents of more than 5000 tokens, are drawn together,
    as counts, given proportions that are drawn from their posterior; the stationary distribution is
    the same.

    Parameters
    ----------
    n_sweeps : int, default=20
        How often all tokens of a document are drawn.
    burn_in : int, default=10
        How many sweeps are discarded; fewer than `n_sweeps`.
    takes_draw : bool, default=False
        Whether to take the topics of the last sweep instead of expectations.

    References
    ----------
    Dupuy & Bach, "Online but Accurate Inference for Latent Variable Models with Local Gibbs
    Sampling", JMLR 2017.
    """

    n_sweeps: int = 20
    burn_in: int = 10
    takes_draw: bool = False

    draws = True
    takes_fractions = False

    @property
    def _arguments(self):
        return self.n_sweeps, self.burn_in, 0, self.takes_draw


@dataclass(frozen=True)
class MaximumAPosteriori(TopicInference):
    r"""Rounds of EM on the proportions of each document, in mean form.

    .. math::
        q_{wk} \propto \theta_k \, p(w \mid k), \qquad \theta_k \propto \alpha_k + \sum_w c_w q_{wk}

    It is the fastest, but less accurate if documents are short and topics many. (The mode, with
    :math:`\alpha_k - 1`, has no meaning for :math:`\alpha_k < 1`.) From the third round on EM is
    over-relaxed, which halves the number of rounds. Before small proportions have converged,
    documents seem to have more topics, and a learnt :math:`\alpha` is several times that by Gibbs
    sampling.

    Parameters
    ----------
    n_rounds : int, default=5
        Rounds of EM on the proportions of a document.

    References
    ----------
    Zaheer, Wick, Kottur & Tristan, "Comparing Gibbs, EM and SEM for MAP Inference in Mixture
    Models".
    """

    n_rounds: int = 5

    @property
    def _arguments(self):
        return 0, 0, self.n_rounds, False


def check_topics(topics_T, alpha):
    """Raise ValueError unless topics, and their alpha, are arrays that kernels can read."""
    array_of("topics_T", topics_T, ndim=2)
    array_of("alpha", alpha)
    if topics_T.shape[1] != len(alpha):
        raise ValueError(
            f"topics_T of {topics_T.shape[1]} columns and alpha of {len(alpha)} topics do not fit"
            " each other."
        )
    if not (alpha.min() >= _LEAST_ALPHA and alpha.max() <= _MOST_ALPHA):
        raise ValueError(f"alpha must be from {_LEAST_ALPHA} to {_MOST_ALPHA}.")


def padded(topics_T, n_threads=1):
    """Return rows by word as kernels read them: in single precision, padded to whole lanes."""
    n_words, n_components = topics_T.shape
    table = np.empty((n_words, -(-n_components // _LANES) * _LANES), dtype=np.float32)
    pad_rows(topics_T, table, n_threads)
    return table

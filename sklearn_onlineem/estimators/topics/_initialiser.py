"""First topics, from the first documents."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.estimators._initialiser import Initialiser
from sklearn_onlineem.models.latent_dirichlet import LatentDirichletModel
from sklearn_onlineem.models.topic_inference import LocalGibbs, TopicInference

__all__ = ["TopicInitialiser"]

# Documents that are looked at.
_MOST_DOCUMENTS = 100
# Tokens of each that tell its topics from each other.
_MOST_TOKENS = 100_000
# How far topics are from the mean one at first: the shape of gamma variables, as in scikit-learn.
_NOISE = 100.0
# Pseudo-count of each word, lest one that comes later had no topic.
_LEAST_COUNT = 0.1


@dataclass(frozen=True)
class TopicInitialiser(Initialiser):
    """First topics: half what Gibbs sampling of some documents finds, half the mean topic.

    Expectations would not tell topics that are alike from each other for long; draws do at once.

    Parameters
    ----------
    n_components : int
    alpha : float
        Of each topic.
    inference : TopicInference
        Of the model.
    learns_alpha : bool
    """

    n_components: int
    alpha: float
    inference: TopicInference
    learns_alpha: bool

    def estimated(self, data, random_state):
        frequency = np.asarray(data.X.sum(axis=0, dtype=np.float64)).ravel() + _LEAST_COUNT
        frequency = (frequency / frequency.sum())[:, None]
        drawn = self._drawn(data, frequency, random_state) + 1e-10 * frequency
        topics_T = 0.5 * drawn / drawn.sum(axis=0) + 0.5 * frequency
        return self._model(topics_T, data, self.inference)

    def _drawn(self, data, frequency, random_state):
        """Counts of words and topics in some documents, by sampling from topics nearly alike."""
        noise = random_state.gamma(_NOISE, 1.0 / _NOISE, (data.n_features, self.n_components))
        topics_T = frequency * noise
        chosen = random_state.permutation(len(data))[:_MOST_DOCUMENTS]
        model = self._model(topics_T / topics_T.sum(axis=0), data, LocalGibbs())
        rng = np.random.default_rng(random_state.randint(np.iinfo(np.int32).max, size=4))
        return model.e_step(_tokens(data[np.sort(chosen)]), rng)[0].counts_T

    def _model(self, topics_T, data, inference):
        alpha, length = np.full(self.n_components, float(self.alpha)), np.array([data.mean_length])
        return LatentDirichletModel(topics_T, alpha, length, inference, self.learns_alpha)

    def stream_model(self, data, random_state):
        model = self.estimated(data, random_state)
        # As much as the batch itself, as in an online step of rate 1: words come that it lacks.
        return model, model.own_statistics().scale(data.total_weight)


def _tokens(data):
    """The documents with fractions rounded up, and long ones made short, so that tokens are few."""
    if data.is_whole and data.lengths.max(initial=0.0) <= _MOST_TOKENS:
        return data
    X, lengths = data.X.copy(), np.repeat(data.lengths, np.diff(data.offsets))
    X.data = np.ceil(X.data * np.minimum(1.0, _MOST_TOKENS / np.maximum(lengths, 1.0)))
    return replace(data, rows=Rows(X, data.sample_weight, n_threads=data.n_threads))

"""Topics: perplexity against processor time, ours and the rivals', with one judge for all.

A fifth of the documents of a corpus is held out. The judge is the same for all: proportions of a
held-out document are the posterior mean given half of its tokens, by Gibbs sampling with the topics
and the prior of proportions that were learnt, and the other half is scored. Rivals are run with the
topic priors 0.01 and 0.1, of which the better one counts, and tomotopy learns its prior of
proportions. All have one split of the documents, and one thread, whose processor time is taken.

Each result is a line of JSON that is appended to a file as soon as it is known; a run that is
repeated leaves out what is there. `topics_report` makes tables and a picture of them.

    python -m benchmarks.real_data.topics --only kos --components 50 --seeds 5
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation as OfScikitLearn
from sklearn.feature_extraction.text import CountVectorizer
from threadpoolctl import threadpool_limits

from benchmarks import datasets
from sklearn_onlineem import LatentDirichletAllocation
from sklearn_onlineem.data.documents import Documents
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel

try:
    import tomotopy
except ImportError:
    tomotopy = None

RESULTS = Path("build/benchmarks/topics.jsonl")
_FEWEST_DOCUMENTS = 5


@dataclass(frozen=True)
class Learnt:
    """Topics (n_components, n_words), the prior of proportions, and the time that they took."""

    topics: np.ndarray
    alpha: np.ndarray
    seconds: float

    def perplexity(self, X):
        n_words = len(self.topics.T)
        topics_T = np.ascontiguousarray(self.topics.T / self.topics.sum(axis=1))
        topics_T = 0.999999 * topics_T + 1e-6 / n_words  # lest a single word decide
        model = LatentDirichletModel(topics_T, np.asarray(self.alpha, float), np.ones(1))
        data = Documents(Rows(sparse.csr_array(X)))
        log_likelihoods, n_tokens = model.completion(data, np.random.default_rng(0))
        return float(np.exp(-log_likelihoods.sum() / n_tokens.sum()))


@dataclass(frozen=True)
class Contestant:
    """Who learns, and after which numbers of passes or sweeps that is judged.

    `learn` takes X, n_components and a seed, and yields what is learnt after each of them.
    """

    name: str
    passes: tuple[int, ...]
    learn: Callable
    prior: float | None = None


def counted(texts):
    words = CountVectorizer(
        stop_words="english", min_df=_FEWEST_DOCUMENTS, token_pattern=r"(?u)\b[a-zA-Z]{3,}\b"
    )
    return sparse.csr_array(words.fit_transform(texts).astype(np.float64))


CORPORA = {
    "kos": datasets.load_kos,
    "union": lambda: counted(datasets.load_union_passages()),
    "bible": lambda: counted(datasets.load_king_james_chapters()),
}


def split(X):
    """Four fifths of the documents, and the others."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    cut = int(0.8 * X.shape[0])
    return X[order[:cut]], X[order[cut:]]


# ----------------------------------------------------------------------------------- who learns


def ours(name, *passes, **arguments):
    def learn(X, n_components, seed):
        for n in passes:
            start = time.process_time()
            model = LatentDirichletAllocation(
                n_components, max_iter=n, random_state=seed, **arguments
            ).fit(X)
            seconds = time.process_time() - start
            yield Learnt(model.components_, model.doc_topic_prior_, seconds)

    return Contestant(name, passes, learn)


def of_scikit_learn(name, prior, *passes, **arguments):
    def learn(X, n_components, seed):
        for n in passes:
            rival = OfScikitLearn(
                n_components, topic_word_prior=prior, max_iter=n, random_state=seed, **arguments
            )
            start = time.process_time()
            rival.fit(X)
            seconds = time.process_time() - start
            alpha = np.full(n_components, rival.doc_topic_prior_)
            yield Learnt(rival.components_, alpha, seconds)

    return Contestant(name, passes, learn, prior)


def of_tomotopy(prior, *sweeps):
    def learn(X, n_components, seed):
        rival = tomotopy.LDAModel(k=n_components, alpha=0.1, eta=prior, seed=seed + 1)
        for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            if end > begin:
                counts = X.data[begin:end].astype(int)
                rival.add_doc([str(w) for w in np.repeat(X.indices[begin:end], counts)])
        seconds, done = 0.0, 0
        for n in sweeps:
            start = time.process_time()
            rival.train(n - done, workers=1)
            seconds, done = seconds + time.process_time() - start, n
            yield Learnt(_topics_of(rival, X.shape[1]), rival.alpha, seconds)

    return Contestant("tomotopy", sweeps, learn, prior)


def _topics_of(rival, n_words):
    topics = np.full((rival.k, n_words), 1e-12)
    known = np.array([int(word) for word in rival.used_vocabs])
    for k in range(rival.k):
        topics[k, known] = rival.get_topic_word_dist(k)
    return topics


def rivals(priors):
    batch = {"learning_method": "batch"}
    online = {"learning_method": "online", "learning_offset": 10.0, "batch_size": 128}
    for prior in priors:
        if tomotopy is not None:
            yield of_tomotopy(prior, 50, 100, 200, 300, 500)
        yield of_scikit_learn("scikit-learn online", prior, 1, 5, **online)
        yield of_scikit_learn("scikit-learn batch", prior, 20, **batch)


FIXED = {"learn_doc_topic_prior": False}
SAMPLED = {"topic_word_prior": 0.1}
OURS = [
    ours("default", 1, 3, 5),
    ours("map", 1, 5, e_step="map", **FIXED),
    ours("batch", 50, solver="batch", **FIXED),
    ours("gibbs, last", 200, solver="gibbs", average=1, **SAMPLED),
    ours("gibbs, averaged", 200, solver="gibbs", **SAMPLED),
    ours("stochastic, last", 200, solver="stochastic", average=1, **SAMPLED),
    ours("stochastic, averaged", 200, solver="stochastic", **SAMPLED),
]


# ------------------------------------------------------------------------------------ the contest


def records(path=RESULTS):
    """What is known so far, a list of dictionaries."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def key_of(record):
    """What a record is of."""
    return tuple(record[name] for name in ("corpus", "components", "who", "prior", "n", "seed"))


def compare(corpus, n_components, seeds, contestants, path):
    """Let all learn, seed by seed, and append what they come to."""
    train, test = split(CORPORA[corpus]())
    for seed in seeds:
        for contestant in contestants:
            prior, known = contestant.prior, set(map(key_of, records(path)))
            names = [
                {"corpus": corpus, "components": n_components, "who": contestant.name,
                 "prior": prior, "n": n, "seed": seed}
                for n in contestant.passes
            ]  # fmt: skip
            if known.issuperset(map(key_of, names)):
                continue
            for name, learnt in zip(
                names, contestant.learn(train, n_components, seed), strict=True
            ):
                result = {"perplexity": learnt.perplexity(test), "seconds": learnt.seconds}
                append(path, {**name, **result, "load": os.getloadavg()[0]})


def append(path, record):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(
        "{corpus} {components} {who} {prior} {n} seed {seed}:"
        " {perplexity:.1f} @ {seconds:.2f}".format(**record),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[*CORPORA], nargs="+", default=[*CORPORA])
    parser.add_argument("--components", type=int, nargs="+", default=[20, 50, 200])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--priors", type=float, nargs="*", default=[0.01, 0.1], help="of rivals; none: ours alone"
    )
    parser.add_argument("--rivals", action="store_true", help="leave ours out")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of JSON lines")
    arguments = parser.parse_args()
    contestants = [*([] if arguments.rivals else OURS), *rivals(arguments.priors)]
    seeds = range(arguments.seeds)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for n_components in arguments.components:
            for corpus in arguments.only:
                compare(corpus, n_components, seeds, contestants, arguments.results)


if __name__ == "__main__":
    main()

"""One pass over a stream of documents: topics whose start is made of its first documents.

    python -m benchmarks.real_data.topic_streams
    python -m benchmarks.real_data.topic_streams --batches 100 --topics 30

An eighth of the documents is held out. The stream has the others at random or in the order of the
file (chapters of the Bible, addresses from 1790 on). Perplexities of second halves of the held-out
documents given the first: after `fit`; after one pass with the defaults; after one whose start is
made of the first batch alone, `Online(start_rows=0)`; and after one that keeps a sample of 500
documents. Means over the seeds.
"""

import argparse

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import LatentDirichletAllocation
from sklearn_onlineem.em import Online


def words(documents):
    return CountVectorizer(stop_words="english", min_df=5).fit_transform(documents)


DATA = {
    "KOS": datasets.load_kos,
    "King James chapters": lambda: words(datasets.load_king_james_chapters()),
    "State of the Union": lambda: words(datasets.load_union_passages()),
}


def streamed(X, batch, n_topics, seed, solver):
    topics = LatentDirichletAllocation(n_topics, solver=solver, random_state=seed)
    for begin in range(0, X.shape[0], batch):
        topics.partial_fit(X[begin : begin + batch])
    return topics


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--topics", type=int, nargs="+", default=[10, 30])
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    table = Table(
        "documents, topics, order, batches of", "fit", "stream", "first batch", "sample", width=44
    )
    for name, load in DATA.items():
        X = sparse.csr_array(load())
        chosen = np.random.default_rng(0).permutation(X.shape[0])
        n_test = X.shape[0] // 8
        test, shuffled = X[chosen[:n_test]], chosen[n_test:]
        for n_topics in arguments.topics:
            for order, rows in (("random", shuffled), ("file", np.sort(shuffled))):
                train = X[rows]
                seeds = range(arguments.seeds)
                fits = [
                    LatentDirichletAllocation(n_topics, random_state=seed).fit(train)
                    for seed in seeds
                ]
                fitted = np.mean([topics.perplexity(test) for topics in fits])
                for batch in arguments.batches:
                    streams = [
                        np.mean([
                            streamed(train, batch, n_topics, seed, solver).perplexity(test)
                            for seed in seeds
                        ])
                        for solver in (Online(), Online(start_rows=0), Online(sample=500))
                    ]  # fmt: skip
                    table.row(f"{name}, {n_topics}, {order}, {batch}", fitted, *streams)


if __name__ == "__main__":
    main()

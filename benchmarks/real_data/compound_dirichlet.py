"""Compound Dirichlets of the KOS blog entries (6,906 words), against multinomials.

A fifth of the documents is held out. Cells are held-out perplexities per word, the exponential of
minus the log-likelihood of the words in their order, divided by their number; medians over seeds,
each with its own split. "stream" is one pass of `partial_fit` in batches of 100 documents, "fit"
what the default `fit` makes of it. Multinomials give words that a component never saw the floor of
their probabilities, so theirs are also shown smoothed, with a Dirichlet prior: the best of several
concentrations *on the held-out documents*, in favour of the rival.
"""

import argparse
import warnings
from statistics import median

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import CompoundDirichlet, CompoundDirichletMixture, MultinomialMixture
from sklearn_onlineem.families import Multinomial

BATCH_SIZE, N_COMPONENTS = 100, 20
CONCENTRATIONS = (1.1, 1.5, 2.0, 3.0)
MIXTURE = f"{N_COMPONENTS} compound Dirichlets"
FLAT = f"{N_COMPONENTS} multinomials"
SMOOTHED = f"{N_COMPONENTS} multinomials, best prior"


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rounds = [compare(seed) for seed in range(arguments.seeds)]
    table = Table("model", "stream", "fit")
    for name in rounds[0]:
        table.row(name, *(median(r[name][i] for r in rounds) for i in range(2)))
    maximum = median(r["one compound Dirichlet"][2] for r in rounds)
    table.row("one, its likelihood's maximum", "", maximum)
    wins = sum(r[MIXTURE][i] < min(r[FLAT][i], r[SMOOTHED][i]) for r in rounds for i in range(2))
    print(f"\nthe mixture of compound Dirichlets is best in {wins} of {2 * len(rounds)}")


def compare(seed):
    """Held-out perplexities of a stream and of a fit, by model."""
    X = datasets.load_kos()
    order = np.random.default_rng(seed).permutation(X.shape[0])
    n_train = 4 * X.shape[0] // 5
    train, test = X[order[:n_train]], X[order[n_train:]]
    one = CompoundDirichlet(random_state=seed)
    best = CompoundDirichlet(solver="newton", random_state=seed).fit(train)
    many, flat = (
        make(N_COMPONENTS, prior=None, random_state=seed, batch_size=BATCH_SIZE)
        for make in (CompoundDirichletMixture, MultinomialMixture)
    )
    priors = [{"concentration": concentration} for concentration in CONCENTRATIONS]
    smoothed = [clone(flat).set_params(prior=prior) for prior in priors]
    return {
        "one compound Dirichlet": (*both(one, train, test), perplexity(best, test)),
        MIXTURE: both(many, train, test),
        FLAT: both(flat, train, test),
        SMOOTHED: np.min([both(model, train, test) for model in smoothed], axis=0),
    }


def both(model, train, test):
    """Perplexities after one pass of `partial_fit`, and after `fit`."""
    for start in range(0, train.shape[0], BATCH_SIZE):
        model.partial_fit(train[start : start + BATCH_SIZE])
    streamed = perplexity(model, test)
    return streamed, perplexity(model.fit(train), test)


def perplexity(model, X):
    """Of words in their order: without the coefficients, which are the same for all models."""
    coefficients = Multinomial().log_base_measure(X)
    return float(np.exp((coefficients - model.score_samples(X)).sum() / X.sum()))


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()

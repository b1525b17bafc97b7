"""Which concentration of the prior predicts counts best?

Rows are mean log-likelihoods of held-out rows in nats, less those of maximum likelihood, whose
floors are 1e-12 for words. A concentration c adds c - 1 pseudo-counts to each word, to each of zero
and one of Bernoulli variables, and, in c - 1 pseudo-rows, to each Poisson rate. The last lines are
losses per count against the best concentration of each row; 1.5 is the least in all families:

    multinomial  .097 (maximum likelihood)  .022 (1.01)  .0035 (1.2)  .0003 (1.5)  .0019 (2)
    Poisson      .103                       .024         .0032        .0003        .0047
    Bernoulli    .069                       .013         .0006        .0005        .0040
"""

import argparse
import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from benchmarks._table import Table
from benchmarks.real_data.count_starts import SETS
from sklearn_onlineem import BernoulliMixture, MultinomialMixture, PoissonMixture

CONCENTRATIONS = (1.01, 1.05, 1.1, 1.2, 1.5, 2.0)
PRIORS = {
    MultinomialMixture: lambda c: {"concentration": c},
    PoissonMixture: lambda c: {"shape": c, "rate": c - 1.0},
    BernoulliMixture: lambda c: {"alpha": c, "beta": c},
}


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for make, prior_of in PRIORS.items():
        table, losses = Table(make.__name__, "ML", *CONCENTRATIONS, width=28), []
        for name, load in SETS.items():
            X = sparse.csr_array(load())[: arguments.rows]
            X = X[np.flatnonzero(np.asarray(X.sum(axis=1)).ravel() > 0)]
            order = np.random.default_rng(0).permutation(X.shape[0])
            train, held_out = (X[part] for part in np.split(order, [len(order) * 4 // 5]))
            for n_components in (1, 10):
                scores = np.array(
                    [
                        make(n_components, random_state=0, prior=prior, max_iter=40)
                        .fit(train)
                        .score(held_out)
                        for prior in (None, *map(prior_of, CONCENTRATIONS))
                    ]
                )
                table.row(f"{name}, {n_components}", *map(float, scores - scores[0]))
                losses.append((scores.max() - scores) / (held_out.sum() / held_out.shape[0]))
        table.row("loss per count", *map(float, np.mean(losses, axis=0)))


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2500)
    return parser.parse_args()


if __name__ == "__main__":
    main()

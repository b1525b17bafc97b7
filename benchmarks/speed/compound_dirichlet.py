"""Maximum likelihood of a compound Dirichlet against scipy's L-BFGS, 20,000 documents.

Ours is ``CompoundDirichlet(solver="newton").fit(X)``, validation and start included; the rival is
handed CSR and only computes on non-zeros. Both start without being told where, and end at the same
log-likelihood per document: "gap" is ours less theirs. Required: at least 50 times as fast.

The floor is a logarithm and a division for each count that a word reaches in some document, in each
evaluation, or the time in which the documents are read once, if that is longer.
"""

import argparse
import math
from functools import partial

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks._rows import Row, compared
from benchmarks._table import Table
from benchmarks._timing import CPU, WALL, seconds
from benchmarks.floors import Operations
from benchmarks.rivals import numpy_compound_dirichlet, scipy_compound_dirichlet
from sklearn_onlineem import CompoundDirichlet
from sklearn_onlineem.families import CompoundDirichlet as Family
from sklearn_onlineem.families.compound_dirichlet import Dirichlets

N_DOCUMENTS, N_WORDS_EACH, REQUIRED = 20_000, 100, 50.0
SOLVER = {"solver": "newton", "tol": 0.0, "n_jobs": 1}


def main():
    arguments = _arguments()
    table = Table("documents", "ours, s", "L-BFGS, s", "CPU ratio", "wall ratio", "required", "gap")
    for name, X in (("d = 10, dense", few_words()), ("d = 1000, CSR", many_words())):
        table.row(name, *compare(X, arguments.rounds))


def rows(n_rounds, share):
    """Rows of the tables of speed, on a share of the data."""
    n = max(500, int(share * N_DOCUMENTS))
    for case, X in (("10 words", few_words()), ("1,000 words, CSR", many_words())):
        _, _, _, faster, *_ = compare(X[:n], n_rounds)
        thin = sparse.csr_array(X[:n]).astype(np.float64)
        found = CompoundDirichlet(**SOLVER).fit(thin)
        alpha = numpy_compound_dirichlet.maximise(thin)
        assert math.isclose(found.score(thin), log_likelihood(alpha, thin), abs_tol=1e-7)
        _, floor, baseline = compared(
            partial(CompoundDirichlet(**SOLVER).fit, X[:n]), None, n_rounds,
            operations(thin, X[:n], 1 + found.n_iter_), 3,
            baseline=partial(numpy_compound_dirichlet.maximise, thin),
        )  # fmt: skip
        group = "compound Dirichlet to the maximum"
        yield Row(group, case, "scipy's L-BFGS", float(faster), floor, baseline)


def operations(thin, X, n_evaluations):
    """Of documents as CSR `thin`, which are read as X."""
    n_reached = n_evaluations * (thin.max(axis=0).sum() + thin.sum(axis=1).max())
    stored = (X.data, X.indices) if sparse.issparse(X) else (X,)
    n_bytes = sum(array.nbytes for array in stored)
    return Operations(n_reached, n_reached, n_bytes)


def log_likelihood(alpha, X):
    return Family().log_density(Dirichlets(alpha[None], np.ones(1)), X).mean()


def compare(X, n_rounds):
    """CPU seconds of both, the ratios, the requirement, and the difference of their optima."""
    thin = sparse.csr_array(X).astype(np.float64)
    with threadpool_limits(1):
        ours, alpha = CompoundDirichlet(**SOLVER).fit(X), scipy_compound_dirichlet.maximise(thin)
        theirs = log_likelihood(alpha, thin)
        times = {
            clock: (
                min(seconds(lambda: CompoundDirichlet(**SOLVER).fit(X), clock, 3)
                    for _ in range(n_rounds)),
                seconds(lambda: scipy_compound_dirichlet.maximise(thin), clock),
            )
            for clock in (CPU, WALL)
        }  # fmt: skip
    difference = ours.score(X) - theirs
    assert math.isclose(difference, 0.0, abs_tol=1e-7)
    mine, others = times[CPU]
    ratios = [slow / fast for fast, slow in times.values()]
    return mine, others, *(f"{r:.0f}" for r in ratios), f"{REQUIRED:.0f}", f"{difference:.1e}"


def few_words():
    rng = np.random.default_rng(0)
    alpha = rng.uniform(0.5, 3.0, 10)
    return rng.multinomial(N_WORDS_EACH, rng.dirichlet(alpha, N_DOCUMENTS)).astype(np.float64)


def many_words():
    rng = np.random.default_rng(0)
    proportions = rng.dirichlet(rng.uniform(0.01, 0.2, 1000), N_DOCUMENTS)
    return sparse.csr_array(rng.multinomial(N_WORDS_EACH, proportions).astype(np.float64))


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()

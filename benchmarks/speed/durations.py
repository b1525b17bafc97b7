"""Speed of hidden Markov models with explicit durations, against the newest package that has them.

The rival is gaussian-hsmm (``pip install gaussian-hsmm``). Both fit the same rows by two passes of
EM from starts of their own, with truncated Poisson durations, on one thread; that both do the same
is shown by the log-likelihood of our model with the rival's parameters. The rival demands that the
last segment ends with the last row, so that its likelihood is a little smaller. A second line is a
long series with durations of up to 1,000 rows, and its peak of memory.
"""

import resource
import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._rows import rival
from sklearn_onlineem import GaussianHMM

REQUIRED = 50.0
N_PASSES = 2


def main():
    with threadpool_limits(1):
        X = rows(2000, 8, 20.0)
        hmm, own = ours(X, 8, 100)
        print(f"2,000 rows, 8 states, 100 durations, two passes: {own:.3f} s")
        against_rival(X, own)
        before = peak()
        X = rows(100_000, 8, 200.0)
        hmm, own = ours(X, 8, 1000)
        print(f"100,000 rows, 8 states, 1,000 durations, two passes: {own:.1f} s,", end=" ")
        print(f"{peak() - before:.0f} MB more at the peak (rows x states x durations: 6,400 MB)")
        assert np.isfinite(hmm.score(X))


def rows(n, n_states, mean_duration):
    """Rows of states that last for Poisson durations."""
    rng = np.random.default_rng(0)
    lasting = 1 + rng.poisson(mean_duration - 1.0, size=n)
    states = np.repeat(np.cumsum(rng.integers(1, n_states, n)) % n_states, lasting)[:n]
    return rng.normal(3.0 * states)[:, None]


def ours(X, n_states, max_duration):
    """Return a fit and its seconds."""
    hmm = GaussianHMM(
        n_states, durations="poisson", max_duration=max_duration, solver="batch", tol=0.0,
        max_iter=N_PASSES, random_state=0,
    )  # fmt: skip
    begin = time.perf_counter()
    hmm.fit(X)
    return hmm, time.perf_counter() - begin


def against_rival(X, own):
    library = rival("gaussian_hsmm")
    if library is None:
        print("gaussian-hsmm is not installed")
        return
    begin = time.perf_counter()
    theirs, log_likelihood = library.fit(X, 8, 100, N_PASSES)
    seconds = time.perf_counter() - begin
    same = GaussianHMM.from_parameters(
        durations="poisson", max_duration=100, startprob=theirs.startprob_,
        transmat=theirs.transmat_, means=theirs.means_,
        covars=np.array([np.diag(np.ravel(c)) for c in theirs.covars_]),
        durationprob=theirs.duration_probs_[:, 1:],
    )  # fmt: skip
    difference = same.score(X) - log_likelihood
    assert 0.0 <= difference < 10.0, difference
    verdict = "met" if seconds / own >= REQUIRED else "NOT MET"
    print(f"gaussian-hsmm: {seconds:.1f} s, {seconds / own:.0f} times as long; {verdict}")


def peak():
    """Peak of memory in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


if __name__ == "__main__":
    main()

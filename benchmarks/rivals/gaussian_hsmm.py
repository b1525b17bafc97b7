"""Fits of gaussian-hsmm, the newest package with explicit durations (July 2026)."""

from gaussian_hsmm import GaussianHSMM


def fit(X, n_states, max_duration, n_passes):
    """Return a fit by some passes, and the log-likelihood of the data with the last segment over.

    It starts from a pass of hmmlearn's Baum-Welch algorithm. Its durations are Poisson, truncated.
    """
    hmm = GaussianHSMM(
        n_states,
        max_duration=max_duration,
        n_iter=n_passes,
        tol=1e-300,
        hmm_n_iter=1,
        random_state=0,
    )
    hmm.fit(X)
    return hmm, hmm.score(X)

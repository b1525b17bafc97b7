"""One EM pass of hmmlearn's hidden Markov models, with the scaled recursions."""

import logging

from hmmlearn import hmm

# hmmlearn logs that a single pass has not converged.
logging.getLogger("hmmlearn").setLevel(logging.ERROR)


def gaussian_pass(X, lengths, start, transmat, means, covariances, covariance_type):
    """Return a function that makes one E- and one M-step and returns the log-likelihood."""
    model = hmm.GaussianHMM(len(start), covariance_type, covars_prior=0.0, **_one_pass())

    def run():
        model.startprob_, model.transmat_ = start, transmat
        model.means_, model.covars_ = means, covariances
        return model.fit(X, lengths).monitor_.history[0]

    return run


def categorical_pass(X, lengths, start, transmat, probabilities):
    """Return a function that makes one E- and one M-step and returns the log-likelihood."""
    model = hmm.CategoricalHMM(len(start), **_one_pass())

    def run():
        model.startprob_, model.transmat_ = start, transmat
        model.emissionprob_ = probabilities
        return model.fit(X, lengths).monitor_.history[0]

    return run


def _one_pass():
    return {"n_iter": 1, "tol": 0.0, "init_params": "", "implementation": "scaling"}

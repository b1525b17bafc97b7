"""One pass of pomegranate's mixture of products of Poisson distributions (needs torch)."""

import torch
from pomegranate.distributions import Poisson
from pomegranate.gmm import GeneralMixtureModel


def em_pass(X, weights, rates, n_threads):
    """Return a function that makes one E- and one M-step and returns the mean log-likelihood."""
    torch.set_num_threads(n_threads)
    rows = torch.from_numpy(X)

    def run():
        components = [Poisson(torch.from_numpy(rate)) for rate in rates]
        mixture = GeneralMixtureModel(components, priors=torch.from_numpy(weights))
        log_likelihood = mixture.summarize(rows)
        mixture.from_summaries()
        return float(log_likelihood) / len(X)

    return run

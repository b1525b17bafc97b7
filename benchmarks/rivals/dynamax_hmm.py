"""One EM pass of dynamax's Gaussian hidden Markov models, compiled (needs JAX)."""

import jax
import jax.numpy as jnp
from dynamax.hidden_markov_model import DiagonalGaussianHMM, GaussianHMM

jax.config.update("jax_enable_x64", True)


def gaussian_pass(X, lengths, start, transmat, means, covariances, covariance_type):
    """Return a function that makes one E- and one M-step and returns the log-likelihood.

    Sequences must have one length.
    """
    diagonal = covariance_type == "diag"
    model = (DiagonalGaussianHMM if diagonal else GaussianHMM)(len(start), X.shape[1])
    spread = {
        "emission_scale_diags" if diagonal else "emission_covariances": jnp.asarray(
            covariances**0.5 if diagonal else covariances
        )
    }
    parameters, properties = model.initialize(
        initial_probs=jnp.asarray(start),
        transition_matrix=jnp.asarray(transmat),
        emission_means=jnp.asarray(means),
        **spread,
    )
    state = model.initialize_m_step_state(parameters, properties)
    sequences = jnp.asarray(X.reshape(len(lengths), lengths[0], X.shape[1]))

    @jax.jit
    def e_step(parameters, sequences):
        return jax.vmap(lambda emissions: model.e_step(parameters, emissions))(sequences)

    def run():
        statistics, log_likelihoods = e_step(parameters, sequences)
        new, _ = model.m_step(parameters, properties, statistics, state)
        jax.block_until_ready(new)
        return float(log_likelihoods.sum())

    return run

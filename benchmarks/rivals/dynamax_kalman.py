"""One EM pass of dynamax's linear-Gaussian state space models, compiled (needs JAX)."""

import jax
import jax.numpy as jnp
from dynamax.linear_gaussian_ssm import LinearGaussianSSM

jax.config.update("jax_enable_x64", True)


def one_pass(X, n_sequences, model):
    """Return a function that makes one E- and one M-step and returns the log-likelihood.

    Sequences have one length.
    """
    theirs = LinearGaussianSSM(
        model.n_components, X.shape[1], has_dynamics_bias=False, has_emissions_bias=False
    )
    parameters, properties = theirs.initialize(
        jax.random.PRNGKey(0),
        initial_mean=jnp.asarray(model.initial.offset),
        initial_covariance=jnp.asarray(model.initial.covariance),
        dynamics_weights=jnp.asarray(model.transitions.matrix),
        dynamics_covariance=jnp.asarray(model.transitions.covariance),
        emission_weights=jnp.asarray(model.emissions.matrix),
        emission_covariance=jnp.asarray(model.emissions.covariance),
    )
    state = theirs.initialize_m_step_state(parameters, properties)
    sequences = jnp.asarray(X.reshape(n_sequences, -1, X.shape[1]))

    @jax.jit
    def e_step(parameters, sequences):
        return jax.vmap(lambda emissions: theirs.e_step(parameters, emissions))(sequences)

    def run():
        statistics, log_likelihoods = e_step(parameters, sequences)
        new, _ = theirs.m_step(parameters, properties, statistics, state)
        jax.block_until_ready(new)
        return float(log_likelihoods.sum())

    return run

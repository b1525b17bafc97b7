"""Kalman filters against dynamax; `make test-rivals` installs it."""

from importlib import import_module

import numpy as np
import pytest
from cases.kalman_filters import D, K, drawn
from numpy.testing import assert_allclose

from sklearn_onlineem import KalmanFilter

pytestmark = [
    pytest.mark.rivals,
    # Tests stop fits on purpose before they converge.
]


def dynamaxs_em(dynamax, jax, system, X, n_iter):
    """Parameters after iterations of EM, all but the covariance of the first state.

    Its update divides wrongly where there are many sequences; here it stays as it is.
    """
    theirs = dynamax.LinearGaussianSSM(K, D)
    parameters, properties = theirs.initialize(
        initial_mean=system["initial_state_mean"],
        initial_covariance=system["initial_state_covariance"],
        dynamics_weights=system["transition_matrices"],
        dynamics_bias=system["transition_offsets"],
        dynamics_covariance=system["transition_covariance"],
        emission_weights=system["observation_matrices"],
        emission_bias=system["observation_offsets"],
        emission_covariance=system["observation_covariance"],
    )
    first = parameters.initial.cov
    for _ in range(n_iter):
        evidence, _ = jax.vmap(lambda x, known=parameters: theirs.e_step(known, x))(np.array(X))
        parameters, _ = theirs.m_step(parameters, properties, evidence, None)
        parameters = parameters._replace(initial=parameters.initial._replace(cov=first))
    return {
        "initial_state_mean": parameters.initial.mean,
        "transition_matrices": parameters.dynamics.weights,
        "transition_offsets": parameters.dynamics.bias,
        "transition_covariance": parameters.dynamics.cov,
        "observation_matrices": parameters.emissions.weights,
        "observation_offsets": parameters.emissions.bias,
        "observation_covariance": parameters.emissions.cov,
    }


@pytest.mark.parametrize("n_iter", [1, 2, 5])
def test_batch_em_of_many_sequences_is_dynamaxs(n_iter, system):
    dynamax, jax = import_module("dynamax.linear_gaussian_ssm"), import_module("jax")
    X = drawn(system, 15, 40)
    start = {**system, "transition_matrices": 0.5 * np.eye(K)}
    with jax.enable_x64(True):
        expected = dynamaxs_em(dynamax, jax, start, X, n_iter)
    arguments = {"solver": "batch", "max_iter": n_iter, "tol": 0.0, "reg_covar": 0.0}
    ours = KalmanFilter(**start, em_vars=list(expected), **arguments).fit(X)
    for name, array in expected.items():
        assert_allclose(getattr(ours, f"{name}_"), array, rtol=1e-6, atol=1e-6)

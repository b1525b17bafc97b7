"""What holds for the E-step of every model where hidden variables are sampled."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from cases.chains import CHAINS, ChainCase
from cases.comparing import assert_identical
from cases.dynamical import DYNAMICAL
from cases.family_cases import HIDDEN_FAMILIES, FamilyCase
from cases.guide import defined_in
from cases.linear import linear
from cases.mixture_cases import MIXTURES, MixtureCase
from cases.random_rows import normal_rows
from cases.transducers import TRANSDUCERS
from numpy.testing import assert_allclose

from sklearn_onlineem.families.capabilities import HiddenVariables
from sklearn_onlineem.models.terminations import GivenLength

N_DRAWS, N = 300, 40


class OneComponent(MixtureCase):
    """A single component, whose own hidden variables are all that is hidden."""

    def __repr__(self):
        return f"one {super().__repr__()}"

    def draw(self, rng, n_components=1, d=2):
        return super().draw(rng, 1, d)

    def rich_data(self, rng, n):
        return replace(super().rich_data(rng, n), labels=None)


def locations_and_variances(rng, n_components, d):
    return rng.standard_normal((n_components, d)), rng.uniform(0.3, 3.0, (n_components, d))


# The family of the user guide, of which these laws ask little.
StudentT = defined_in("families.rst", "nu")["StudentT"]
OWN = FamilyCase(StudentT(), locations_and_variances, normal_rows, *[None] * 5)
HIDDEN = [*(case for case in HIDDEN_FAMILIES if isinstance(case.family, HiddenVariables)), OWN]
MODELS = [
    *MIXTURES,
    *CHAINS,
    # States are not drawn beside inputs.
    *(case for case in DYNAMICAL if not case.n_inputs),
    *TRANSDUCERS,
    MixtureCase(OWN),
    *(OneComponent(case) for case in HIDDEN),
    *(ChainCase(case, GivenLength) for case in HIDDEN),
]
all_models = pytest.mark.parametrize("case", MODELS, ids=repr)
models_of_sequences = pytest.mark.parametrize(
    "case", [case for case in MODELS if case.has_time], ids=repr
)


def assert_average_is_expected(model, data, rng):
    """Sampled E-steps average to the expected one, but for the error of an average."""
    expected, log_likelihood = model.e_step(data)
    drawn, found = zip(*(model.e_step(data, rng=rng) for _ in range(N_DRAWS)), strict=True)
    assert_allclose(found, log_likelihood, rtol=1e-10, atol=1e-12)
    draws = [linear(evidence) for evidence in drawn]
    for i, wanted in enumerate(linear(expected)):
        values = np.array([draw[i] for draw in draws])
        # Rare events may not have happened at all: their variance is that of a Poisson variable.
        one = np.abs(values).max() / len(data)
        variance = np.maximum(values.var(axis=0), np.abs(wanted) * one)
        error = 5.0 * np.sqrt(variance / N_DRAWS) + 1e-10 * (1.0 + np.abs(wanted))
        assert (np.abs(values.mean(axis=0) - wanted) <= error).all()


@all_models
def test_the_expectation_of_a_sampled_e_step_is_the_e_step(case, rng):
    assert_average_is_expected(case.draw(rng), case.data(rng, N), rng)


@all_models
def test_so_it_is_with_weights_and_labels(case, rng):
    assert_average_is_expected(case.draw(rng), case.rich_data(rng, N), rng)


@models_of_sequences
def test_so_it_is_with_missing_values_where_a_sequence_continues(case, rng):
    model = case.draw(rng)
    data = case.with_gaps(case.data(rng, N), rng).continued(case.before(model, rng))
    assert_average_is_expected(model, data, rng)


@all_models
def test_something_is_drawn(case, rng):
    model, data = case.draw(rng), case.data(rng, N)
    once, again = (linear(model.e_step(data, rng)[0]) for _ in range(2))
    assert not all(map(np.allclose, once, again))


@all_models
def test_draws_depend_on_the_state_of_the_generator_alone(case, rng):
    """So that a stream that was interrupted continues bit for bit."""
    model, data = case.draw(rng), case.data(rng, N)
    restored = np.random.default_rng(99)
    model.e_step(data, rng)
    restored.bit_generator.state = copy.deepcopy(rng.bit_generator.state)
    assert_identical(model.e_step(data, restored), model.e_step(data, rng))
    assert restored.random() == rng.random()

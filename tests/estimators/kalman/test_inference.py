"""What Kalman filters infer: moments by the definition, and the forms in which they come."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases.kalman_filters import D, drawn, known
from numpy.testing import assert_allclose


@pytest.mark.parametrize("radius", [0.0, 0.9, 1.0, 1.1])
def test_forecasts_of_many_steps_are_those_of_one_after_another(radius, system):
    system = {**system, "transition_matrices": radius / 0.9 * system["transition_matrices"]}
    X, n_steps = [np.zeros((4, D)), np.ones((1, D))], 40
    kalman = known(system)
    model, states = kalman.model_, kalman.filter(X)
    mean, covariance = (np.stack([sequence[-1] for sequence in part]) for part in states)
    expected = []
    for _ in range(n_steps):
        mean, covariance = model.transitions.predicted(mean, covariance)
        expected.append(model.emissions.predicted(mean, covariance))
    found = kalman.forecast(X, n_steps, return_cov=True)
    for ours, theirs in zip(found, zip(*expected, strict=True), strict=True):
        assert_allclose(ours, np.stack(theirs, axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("library", [pd, pl])
def test_what_is_imputed_comes_in_the_container_that_is_asked_for(library, system):
    X = drawn(system, 10, 3)
    X[1][4, 0] = np.nan
    frames = [library.DataFrame(dict(zip("abc", part.T, strict=True))) for part in X]
    kalman = known(system).fit(frames)
    expected = kalman.impute(frames)
    kalman.set_output(transform=library.__name__)
    whole = kalman.impute(library.concat(frames), lengths=[10] * 3)
    for found, parts in ((kalman.impute(frames), expected), ([whole], [np.concatenate(expected)])):
        for out, part in zip(found, parts, strict=True):
            assert isinstance(out, library.DataFrame) and list(out.columns) == list("abc")
            np.testing.assert_array_equal(out.to_numpy(), part)

"""What Kalman filters infer: moments by the definition, and the forms in which they come."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases.kalman_filters import drawn, known


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

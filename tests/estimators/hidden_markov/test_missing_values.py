"""Data of whole rows that are missing, and of nothing else, whatever the family."""

import numpy as np
import pytest
from cases.random_rows import count_rows
from numpy.testing import assert_allclose
from sklearn.base import clone

from sklearn_onlineem import HMM, CategoricalHMM, MultinomialHMM, PoissonHMM

others = pytest.mark.parametrize(
    "hmm",
    [PoissonHMM(2), MultinomialHMM(2), CategoricalHMM(2), HMM(2, family="exponential")],
    ids=lambda hmm: type(hmm).__name__,
)


def other_data(hmm, rng):
    X = count_rows(rng, 120, 2)
    if isinstance(hmm, CategoricalHMM):
        X = rng.integers(0, 4, (120, 1)).astype(float)
    if isinstance(hmm, HMM):
        X = X + 0.5
    X[rng.random(120) < 0.2] = np.nan
    return X


@others
def test_nothing_but_gaps(hmm, rng):
    hmm = clone(hmm).set_params(random_state=0)
    X = other_data(hmm, rng)
    nothing = np.full((5, X.shape[1]), np.nan)
    with pytest.raises(ValueError, match=f"{type(hmm).__name__}.*NaN"):
        clone(hmm).fit(nothing)
    hmm.fit(X)
    # A sequence without any observation, beside others.
    assert_allclose(hmm.score_samples([X, nothing])[1], 0.0, atol=1e-12)
    assert_allclose(hmm.predict_proba([X, nothing])[1][0], hmm.startprob_, rtol=1e-9)
    filtered = hmm.filter([X, nothing])[1]
    assert_allclose(filtered[-1], hmm.startprob_ @ np.linalg.matrix_power(hmm.transmat_, 4))
    hmm.partial_fit([X, nothing])

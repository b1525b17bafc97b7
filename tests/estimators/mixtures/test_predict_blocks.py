"""Labels of many rows are found by blocks, without responsibilities of all."""

import numpy as np
import pytest

from sklearn_onlineem import GaussianMixture, PoissonMixture


@pytest.mark.parametrize("mixture", [GaussianMixture(3), PoissonMixture(3)], ids=repr)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_labels_have_the_largest_responsibility(mixture, missing, rng):
    X = rng.poisson(rng.choice([1.0, 6.0, 20.0], size=(9_000, 1)), (9_000, 2)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    mixture.set_params(random_state=0, max_iter=2, tol=0.0).fit(X[:500])
    labels = mixture.predict(X)
    assert labels.dtype == np.intp and len(np.unique(labels)) == 3
    assert np.array_equal(labels, mixture.predict_proba(X).argmax(axis=1))

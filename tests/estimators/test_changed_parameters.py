"""Parameters that are set after a model was fitted."""

import pickle

import numpy as np
import pytest
from cases.comparing import assert_identical

from sklearn_onlineem import (
    GaussianMixture,
    combine_estimators,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_callbacks_are_not_pickled_with_the_model(rng):
    X = rng.standard_normal((50, 2))
    mixture = GaussianMixture(2, callbacks=[lambda step: False], random_state=0).fit(X)
    mixture.set_params(callbacks=None)
    pickled = pickle.loads(pickle.dumps(mixture))
    assert_identical(pickled.partial_fit(X).model_, mixture.partial_fit(X).model_)


def test_merged_estimators_have_no_last_bound(rng):
    X = rng.standard_normal((50, 2))
    mixture = GaussianMixture(2, random_state=0).fit(X)
    merged = combine_estimators([mixture, mixture])
    assert np.isnan(merged.lower_bound_)
    assert np.isfinite(merged.partial_fit(X).lower_bound_)

"""Parameters that are set after a model was fitted."""

import pickle

import numpy as np
import pytest
from cases.comparing import assert_identical
from sklearn.base import clone

from sklearn_onlineem import (
    EditDistance,
    GammaMixture,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    Mixture,
    combine_estimators,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_callbacks_are_not_pickled_with_the_model(rng):
    X = rng.standard_normal((50, 2))
    mixture = GaussianMixture(2, callbacks=[lambda step: False], random_state=0).fit(X)
    mixture.set_params(callbacks=None)
    pickled = pickle.loads(pickle.dumps(mixture))
    assert_identical(pickled.partial_fit(X).model_, mixture.partial_fit(X).model_)


CHANGES = [
    (GaussianMixture(2), "n_components", 3),
    (GaussianMixture(2), "covariance_type", "diag"),
    (GaussianMixture(2), "reg_covar", 1.0),
    (Mixture(2, family="gaussian_full"), "family", "gaussian_diag"),
    (GammaMixture(2), "shape", 2.0),
    (GaussianHMM(2), "covariance_type", "full"),
    (GaussianHMM(2), "params", "st"),
    (KalmanFilter(2), "em_vars", ["transition_matrices"]),
    (EditDistance(), "parametrization", "full"),
]


@pytest.mark.parametrize(("estimator", "name", "value"), CHANGES, ids=lambda x: str(x)[:20])
def test_structural_parameters_of_a_fitted_model_cannot_change(estimator, name, value, rng):
    X = rng.poisson(5.0, (60, 2)) + 1.0
    X = [("ab", "ac"), ("b", "c")] if isinstance(estimator, EditDistance) else X
    fitted = clone(estimator).set_params(max_iter=2, tol=0.0, random_state=0).fit(X)
    fitted.set_params(**{name: getattr(fitted, name)}).partial_fit(X)
    fitted.set_params(**{name: value}, warm_start=True)
    for method in (fitted.fit, fitted.partial_fit):
        with pytest.raises(ValueError, match=f"fitted model has {name}=.*call fit again"):
            method(X)
    fitted.set_params(warm_start=False).fit(X).partial_fit(X)


def test_merged_estimators_have_no_last_bound(rng):
    X = rng.standard_normal((50, 2))
    mixture = GaussianMixture(2, random_state=0).fit(X)
    merged = combine_estimators([mixture, mixture])
    assert np.isnan(merged.lower_bound_)
    assert np.isfinite(merged.partial_fit(X).lower_bound_)

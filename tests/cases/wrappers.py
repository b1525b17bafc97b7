"""Estimators that have others within, which learn."""

import pytest

from sklearn_onlineem import (
    AnomalyDetector,
    EditDistanceClassifier,
    GaussianMixture,
    MixtureRegressor,
    PrequentialSearch,
    StreamPipeline,
)
from sklearn_onlineem.distributed import DistributedEM

MIXTURE = GaussianMixture(2, random_state=0)
# With the name of what is within and has learnt.
WRAPPERS = {
    AnomalyDetector(MIXTURE): "estimator_",
    MixtureRegressor(): "mixture_",
    MixtureRegressor(MIXTURE): "mixture_",
    StreamPipeline([("mixture", MIXTURE)]): "last step",
    PrequentialSearch(MIXTURE, {"beta": [0.6]}): "best_estimator_",
    DistributedEM(MIXTURE, n_shards=2, n_jobs=1): "estimator_",
    EditDistanceClassifier(): "edit_distance_",
}
all_wrappers = pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda one: type(one).__name__)

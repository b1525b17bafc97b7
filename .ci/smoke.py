"""What an installed package must be able to do, where nothing else of the project is at hand."""

import pickle

import numpy as np

import sklearn_onlineem
from sklearn_onlineem import GaussianHMM, GaussianMixture, KalmanFilter, LatentDirichletAllocation

rng = np.random.default_rng(0)
X = rng.normal(rng.choice([0.0, 8.0], size=(600, 1)), size=(600, 2))
mixture = GaussianMixture(2, random_state=0)
for batch in np.array_split(X, 6):
    mixture.partial_fit(batch)
assert np.allclose(np.sort(mixture.means_.mean(axis=1)), [0.0, 8.0], atol=0.5)
assert (pickle.loads(pickle.dumps(mixture)).predict(X) == mixture.predict(X)).all()
for estimator in (GaussianHMM(2, random_state=0), KalmanFilter(1)):
    assert np.isfinite(estimator.fit(X).score(X))
topics = LatentDirichletAllocation(2, random_state=0).fit(rng.poisson(1.0, size=(40, 9)))
assert np.allclose(topics.components_.shape, (2, 9))
print("sklearn_onlineem", sklearn_onlineem.__version__, "works as it is installed")

"""Dask collections and futures are refused by name: nothing is gathered without a word."""

import numpy as np
import pytest
from cases.estimator_cases import ESTIMATORS
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import CompoundDirichlet, EditDistance, GaussianMixture, PerSequence

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

CASES = [*ESTIMATORS, *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS]
METHODS = ["fit", "partial_fit", "predict", "score", "score_samples", "transform", "smooth", "bic"]
METHODS += ["predict_proba", "decode", "filter", "fit_predict", "fit_transform", "impute"]


def not_to_be_computed(X):
    raise AssertionError("gathered")


def forms(X):
    """What Dask has, of which nothing may be computed."""
    import dask.array
    import dask.dataframe
    import pandas as pd

    lazy = dask.array.from_array(X, chunks=(len(X) // 2, X.shape[1])).map_blocks(
        not_to_be_computed, dtype=X.dtype, meta=X[:0]
    )
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    delayed = dask.delayed(not_to_be_computed)(X)
    return {
        "array": lazy,
        "frame": dask.dataframe.from_pandas(frame, npartitions=2),
        "delayed": delayed,
        "list of arrays": [lazy, lazy],
        "list of delayed": [X, delayed],
    }


def rows_of(case, rng):
    X = case.data(rng, 40)[0]
    return np.asarray(X if np.ndim(X[0]) == 1 else np.concatenate(list(X)), dtype=float)


def assert_refused(estimator, methods, X):
    before = dict(vars(estimator))
    for name in methods:
        if hasattr(estimator, name):
            with pytest.raises(TypeError, match=f"{type(estimator).__name__}.*DistributedEM"):
                getattr(estimator, name)(X)
    after = dict(vars(estimator))
    after.pop("_mutex", None), before.pop("_mutex", None)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_collections_are_refused(case, rng):
    X = rows_of(case, rng)
    for form in forms(X).values():
        assert_refused(case(), ["fit", "partial_fit"], form)
    estimator = case().fit(X)
    for form in forms(X).values():
        assert_refused(estimator, METHODS, form)


@pytest.mark.parametrize("estimator", [CompoundDirichlet(), PerSequence(StandardScaler())])
def test_collections_are_refused_by_others(estimator, rng):
    X = rng.poisson(3.0, (40, 3)).astype(float)
    estimator.fit(X)
    for form in forms(X).values():
        assert_refused(estimator, METHODS, form)


def test_pairs_of_strings_elsewhere_are_refused():
    pairs = [("ab", "b"), ("a", "ba")]
    distance = EditDistance().fit(pairs)
    for X in (dask.delayed(not_to_be_computed)(pairs), [dask.delayed("ab")]):
        assert_refused(distance, ["fit", "partial_fit", "score", "score_samples"], X)


def test_the_remedies_of_the_message_work(rng):
    import dask.array

    X = rng.standard_normal((40, 2)) + 9.0 * (np.arange(40) % 2)[:, None]
    lazy = dask.array.from_array(X, chunks=(10, 2))
    mixture = GaussianMixture(2, random_state=0).fit(lazy.compute())
    mapped = lazy.map_blocks(mixture.predict, dtype=int, drop_axis=1)
    np.testing.assert_array_equal(mapped.compute(), mixture.predict(X))

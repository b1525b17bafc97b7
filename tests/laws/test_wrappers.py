"""What all estimators obey that have others within."""

import numpy as np
import pandas as pd
import pytest
from cases.wrappers import WRAPPERS
from dask.tokenize import tokenize
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import EditDistanceClassifier

pytestmark = [
    pytest.mark.whole,
    pytest.mark.parametrize(
        "wrapper",
        [one for one in WRAPPERS if not isinstance(one, EditDistanceClassifier)],
        ids=lambda one: type(one).__name__,
    ),
]


@pytest.fixture
def data(rng):
    """Two features, of clusters, and a target."""
    X = rng.normal(5.0 * rng.integers(0, 2, (200, 1)), size=(200, 2))
    return X, X[:, 0] ** 2


def methods_of(wrapper):
    return [name for name in ("fit", "partial_fit") if hasattr(wrapper, name)]


def refused(X, y, is_first, reads_y):
    """Yield rows and targets; a stream has as many columns as before."""
    is_third = np.arange(len(y)) == 3
    yield np.where(is_third[:, None], np.inf, X), y
    yield X[None], y
    yield X + 1j, y
    if not is_first:
        yield X[:, :1], y
    if reads_y:
        if not is_first:
            yield X, np.column_stack([y, y])
        yield from ((X, wrong) for wrong in (y[1:], None, np.ma.masked_array(y, y > 0.0)))
        yield from ((X, np.where(is_third, value, y)) for value in (np.inf, np.nan, 1e200))


def test_no_rows_and_what_fails_change_nothing(wrapper, data):
    """All that later answers and updates depend on; tests of persistence show that it is in it."""
    reads_y = is_regressor(wrapper)
    name = "MixtureRegressor" if reads_y else "GaussianMixture"
    for first in methods_of(wrapper):
        fitted = getattr(clone(wrapper), first)(*data)
        before = tokenize(fitted, ensure_deterministic=True)
        nothing = [values[:0] for values in data]
        with pytest.raises(ValueError):
            fitted.fit(*nothing)
        if "partial_fit" in methods_of(wrapper):
            assert fitted.partial_fit(*nothing) is fitted
            with pytest.raises(ValueError, match="Negative values"):
                fitted.partial_fit(*data, sample_weight=np.full(200, -1.0))
        for method in methods_of(wrapper):
            for wrong in refused(*data, method == "fit", reads_y):
                with pytest.raises((TypeError, ValueError), match=f"{name}|inconsistent"):
                    getattr(fitted, method)(*wrong)
                assert tokenize(fitted, ensure_deterministic=True) == before, (first, method)


def test_names_of_columns_are_kept(wrapper, data):
    table = pd.DataFrame(data[0], columns=["height", "width"])
    for method in methods_of(wrapper):
        named = getattr(clone(wrapper), method)(table, data[1])
        assert named.n_features_in_ == 2
        if "partial_fit" in methods_of(wrapper):
            assert_array_equal(named.feature_names_in_, table.columns)
        with pytest.raises(ValueError, match="feature names"):
            named.predict(table[["width", "height"]])
        assert not hasattr(named.fit(*data), "feature_names_in_")


def test_it_is_shown_cloned_and_searched_as_scikit_learn_has_it(wrapper, data):
    X, y = data
    fitted = clone(wrapper).fit(X, y)
    assert "GaussianMixture" in fitted._repr_html_()
    scaled = StandardScaler().fit_transform(X)
    pipeline = make_pipeline(StandardScaler(), clone(wrapper)).fit(X, y)
    assert_array_equal(pipeline.predict(X), clone(wrapper).fit(scaled, y).predict(scaled))
    name = next((name for name in fitted.get_params() if name.endswith("__n_components")), None)
    grid = [{name: n} for n in (1, 3)] if name else [{}]
    folds, scores = KFold(2, shuffle=True, random_state=0), []
    for one in (clone(fitted).set_params(**setting) for setting in grid):
        assert not hasattr(one, "n_features_in_")
        scores.append([clone(one).fit(X[i], y[i]).score(X[j], y[j]) for i, j in folds.split(X)])
    assert np.ptp(scores, axis=0).all() or not name
    grid = [{name: [value] for name, value in setting.items()} for setting in grid]
    search = GridSearchCV(wrapper, grid, cv=folds).fit(X, y)
    assert_array_equal(search.cv_results_["mean_test_score"], np.mean(scores, axis=1))

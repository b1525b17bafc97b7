"""Searches over settings on a stream: each setting as if it were alone, and all in one read."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import AnomalyDetector, GaussianMixture, PrequentialSearch, StreamPipeline

GRID = {"mixture__n_components": [1, 2, 4], "scaler__with_std": [True, False]}


def piped():
    return StreamPipeline(
        [("scaler", StandardScaler()), ("mixture", GaussianMixture(random_state=0))]
    )


@pytest.fixture
def chunks(rng):
    """Ten chunks of 60 rows, of two clusters in three columns."""
    X = rng.normal(size=(600, 3)) * [1.0, 2.0, 0.5] + 7.0 * rng.integers(2, size=(600, 1))
    return np.array_split(X, 10)


def by_hand(chunks, settings, weights=None):
    """Estimators, and means and deviations over chunks of the scores before they learnt."""
    for setting in settings:
        estimator, scores, counts = piped().set_params(**setting), [], []
        for index, X in enumerate(chunks):
            w = np.ones(len(X)) if weights is None else weights[index]
            if index:
                scores.append(np.average(estimator.score_samples(X), weights=w))
                counts.append(w.sum())
            estimator.partial_fit(X, sample_weight=w)
        mean = np.average(scores, weights=counts)
        yield estimator, mean, np.sqrt(np.average((scores - mean) ** 2, weights=counts))


@pytest.mark.parametrize("n_jobs", [None, 2, -1])
def test_each_setting_learns_as_if_alone(chunks, n_jobs, rng):
    weights = [rng.uniform(0.5, 2.0, len(X)) for X in chunks]
    search = PrequentialSearch(piped(), GRID, n_jobs=n_jobs)
    search.fit_stream((X, None, w) for X, w in zip(chunks, weights, strict=True))
    settings = list(ParameterGrid(GRID))
    estimators, means, deviations = zip(*by_hand(chunks, settings, weights), strict=True)
    results = search.cv_results_
    assert results["params"] == settings
    assert_allclose(results["mean_test_score"], means, rtol=1e-12)
    assert_allclose(results["std_test_score"], deviations, rtol=1e-9)
    best = int(np.argmax(means))
    assert search.best_index_ == best and search.best_params_ == settings[best]
    assert search.best_score_ == results["mean_test_score"][best]
    assert results["rank_test_score"][best] == 1
    for found, expected in zip(search.estimators_, estimators, strict=True):
        assert_array_equal(found["mixture"].means_, expected["mixture"].means_)
        assert_array_equal(found["scaler"].mean_, expected["scaler"].mean_)
    assert search.best_estimator_ is search.estimators_[best]
    # The given estimator stays as it was.
    assert not hasattr(search.estimator["mixture"], "model_")


def test_results_look_as_those_of_scikit_learn(chunks):
    grid = [{"n_components": [1, 2]}, {"covariance_type": ["diag"], "reg_covar": [0.1, 0.2]}]
    mixture = GaussianMixture(random_state=0)
    search = PrequentialSearch(mixture, grid).fit_stream(chunks)
    theirs = GridSearchCV(mixture, grid, cv=2).fit(np.concatenate(chunks)).cv_results_
    ours = search.cv_results_
    assert ours.keys() <= theirs.keys()
    assert ours["params"] == theirs["params"]
    for name in ours.keys() - {"params"}:
        assert type(ours[name]) is type(theirs[name]) and ours[name].dtype == theirs[name].dtype
        if name.startswith("param_"):
            assert_array_equal(ours[name].mask, theirs[name].mask)
            assert ours[name].tolist() == theirs[name].tolist()


def test_before_there_are_scores_the_first_setting_is_best(chunks):
    search = PrequentialSearch(piped(), GRID)
    for name in ("cv_results_", "best_index_", "best_score_", "best_params_", "best_estimator_"):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            getattr(search, name)
    with pytest.raises(NotFittedError):
        search.predict(chunks[0])
    assert search.partial_fit(chunks[0][:0]) is search and not hasattr(search, "best_index_")
    search.partial_fit(chunks[0])
    assert search.best_index_ == 0 and np.isnan(search.best_score_)
    assert search.predict(chunks[0]).shape == (60,)


def test_infinite_scores_are_the_worst(chunks):
    def score(estimator, X, y):
        return -np.inf if estimator.reg_covar == 0.1 and X[0, 0] == chunks[4][0, 0] else -9.0

    search = PrequentialSearch(GaussianMixture(), {"reg_covar": [0.1, 0.2]}, scoring=score)
    results = search.fit_stream(chunks).cv_results_
    assert results["mean_test_score"].tolist() == [-np.inf, -9.0]
    assert results["rank_test_score"].tolist() == [2, 1] and search.best_score_ == -9.0
    assert not np.isfinite(results["std_test_score"][0]) and results["std_test_score"][1] == 0.0


def test_scores_may_be_huge(chunks):
    search = PrequentialSearch(
        GaussianMixture(), {"reg_covar": [0.1]}, scoring=lambda estimator, X, y: -1e200 * X[0, 0]
    )
    results = search.fit_stream(chunks).cv_results_
    assert np.isfinite(results["mean_test_score"][0]) and results["std_test_score"][0] == np.inf


def test_chunks_whose_weights_are_all_0_are_left_out(chunks):
    w = np.ones(600)
    w[:60], w[180:240] = 0.0, 0.0
    X, known = np.concatenate(chunks), w > 0.0
    search = PrequentialSearch(piped(), GRID, batch_size=60).fit(X, sample_weight=w)
    expected = clone(search).fit(X[known], sample_weight=w[known])
    assert_array_equal(search._mean_scores, expected._mean_scores)
    stream = piped().fit_stream([(chunks[0], None, w[:60]), chunks[1]])
    assert_array_equal(stream.prequential_scores_, [np.nan])
    assert stream["mixture"].n_samples_seen_ == 60
    for wrong in (0.0 * w, -w):
        with pytest.raises(ValueError, match="PrequentialSearch.*weight"):
            clone(search).fit(X, sample_weight=wrong)


def test_a_stream_of_pairs_is_told_that_nothing_learns_from_y(chunks):
    pairs = [(X, np.zeros(len(X), int)) for X in chunks[:2]]
    mixture = GaussianMixture(random_state=0)
    search = PrequentialSearch(piped(), {"mixture__semi_supervised": [False]})
    for unread in (piped(), search, StreamPipeline([("last", AnomalyDetector(mixture))])):
        with pytest.warns(UserWarning, match="fit_stream.*nothing learns from it"):
            unread.fit_stream(pairs)
    # Elsewhere `fit` ignores a y; here it is read.
    search.fit(*map(np.concatenate, zip(*pairs, strict=True)))
    search.set_params(param_grid={"mixture__semi_supervised": [False, True]})
    clone(search).fit_stream(pairs)


def test_parameters_are_validated_once(chunks, monkeypatch):
    search = PrequentialSearch(GaussianMixture(2, random_state=0), {"beta": [0.6, 0.9]})
    search.fit_stream(chunks)  # The first rows, which are kept, are learnt otherwise.
    validated = []
    validate = GaussianMixture._validate_params
    monkeypatch.setattr(
        GaussianMixture, "_validate_params", lambda self: validated.append(self) or validate(self)
    )
    search.fit_stream(chunks)
    assert not validated
    search.estimators_[0].set_params(beta=-1.0)
    with pytest.raises(ValueError, match="beta"):
        search.partial_fit(chunks[0])


def test_what_is_handed_out_does_not_change(chunks):
    search = PrequentialSearch(GaussianMixture(2, random_state=0), {"beta": [0.6]})
    best = search.fit_stream(chunks[:5]).best_estimator_
    means = best.means_.copy()
    search.fit_stream(chunks[5:])
    assert_array_equal(best.means_, means)
    assert search.best_estimator_.n_samples_seen_ == 600


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_setting_that_fails_leaves_all_as_they_were(chunks, n_jobs):
    def stop(step):
        if step.n_rows > 250:
            raise ValueError("no more")

    grid = {"callbacks": [None, [stop]]}
    search = PrequentialSearch(GaussianMixture(2, random_state=0), grid, n_jobs=n_jobs)
    with pytest.raises(ValueError, match="no more") as raised:
        search.fit_stream(chunks)
    notes = "".join(raised.value.__notes__)
    assert "with the setting {'callbacks': [<function" in notes and "in chunk 5" in notes
    seen = [estimator.n_samples_seen_ for estimator in search.estimators_]
    assert seen == [240, 240]
    with pytest.raises(ValueError, match="n_components"):
        PrequentialSearch(GaussianMixture(), {"n_components": [1, 0]}).partial_fit(chunks[0])


def test_fit_begins_anew(chunks):
    X = np.concatenate(chunks)
    search = PrequentialSearch(piped(), GRID, batch_size=60).fit_stream(chunks[::-1])
    assert search.fit(X) is search
    expected = clone(search).fit_stream(chunks)
    assert_array_equal(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )
    rows = [list(row) for row in X]
    assert clone(search).fit(rows).best_score_ == search.best_score_


def test_it_behaves_as_its_best_estimator(chunks):
    search = PrequentialSearch(piped(), GRID).fit_stream(chunks)
    X, best = chunks[0], search.best_estimator_
    for method in ("predict", "predict_proba", "score_samples", "score"):
        assert_array_equal(getattr(search, method)(X), getattr(best, method)(X))
    assert not hasattr(search, "decision_function") and not hasattr(search, "classes_")
    assert "best_estimator_: StreamPipeline" in search._repr_html_()
    copied = clone(search).set_params(estimator__mixture__beta=0.7, param_grid={})
    assert copied.fit_stream(chunks).best_params_ == {}


def test_labels_and_scoring(chunks, rng):
    pairs = [(X, X[:, 0] > 3.0, rng.uniform(0.5, 2.0, len(X))) for X in chunks]
    classifier = StreamPipeline(
        [("scaler", StandardScaler()), ("model", SGDClassifier(loss="log_loss", random_state=0))]
    )
    grid = {"model__alpha": [1e-4, 1.0]}
    for scoring in (None, "neg_log_loss"):
        search = PrequentialSearch(classifier, grid, scoring=scoring)
        search.fit_stream(pairs, classes=[False, True])
        scorer = sklearn.metrics.check_scoring(classifier, scoring)
        one, scores, totals = clone(classifier).set_params(model__alpha=1.0), [], []
        for X, y, w in pairs:
            if hasattr(one["model"], "coef_"):
                scores.append(scorer(one, X, y, sample_weight=w))
                totals.append(w.sum())
            one.partial_fit(X, y, w, classes=[False, True])
        assert_allclose(
            search.cv_results_["mean_test_score"][1], np.average(scores, weights=totals)
        )
        X, y, _ = pairs[0]
        assert search.score(X, y) == scorer(search.best_estimator_, X, y)
        assert search.classes_.tolist() == [False, True]


def test_metadata_routing(chunks, rng):
    w = rng.uniform(0.5, 2.0, 60)
    with sklearn.config_context(enable_metadata_routing=True):
        mixture = GaussianMixture(random_state=0).set_partial_fit_request(sample_weight=True)
        search = PrequentialSearch(mixture, {"n_components": [1]})
        search.partial_fit(chunks[0], sample_weight=w)
    assert_allclose(search.best_estimator_.n_samples_seen_, w.sum())


def test_progress(chunks, capsys):
    search = PrequentialSearch(piped(), GRID, verbose=True).fit_stream(chunks)
    assert capsys.readouterr().out.splitlines() == [
        "PrequentialSearch: chunk 1, 60 rows, score nan",
        f"PrequentialSearch: chunk 10, 600 rows, score {search.best_score_:.6f}",
    ]

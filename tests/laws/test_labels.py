"""`y` is ignored, as scikit-learn has it, unless the user says that it holds labels."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS, flat
from cases.states import state_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier, is_clusterer
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_onlineem import (
    AnomalyDetector,
    CompoundDirichlet,
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    MergeWarning,
    combine_estimators,
)
from sklearn_onlineem.distributed import DistributedEM

all_mixtures = pytest.mark.parametrize("case", [*ESTIMATORS, *GIBBS], ids=repr)
all_of_sequences = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS + KALMAN_FILTERS, ids=repr)
all_hidden_markov = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS, ids=repr)


def targets(y):
    """Targets of classifiers and regressors that have nothing to do with components."""
    yield y
    yield np.where(y, y - 0.5, np.nan)
    yield y.astype(str).tolist()
    yield pd.Series(y, dtype="category")
    yield pd.DataFrame({"a": y, "b": y})
    yield np.ma.masked_equal(y, 1)


# -------------------------------------------------------------------------------------- ignored


@all_mixtures
def test_targets_of_rows_are_ignored(case, rng):
    X, y = case.data(rng, 60)
    fitted = case(max_iter=2).fit(X)
    expected, scored = state_of(fitted), fitted.score(X)
    following = state_of(copy.deepcopy(fitted).partial_fit(X))
    for target in targets(y):
        found = case(max_iter=2).fit(X, target)
        assert_identical(state_of(found), expected)
        assert found.score(X, target) == scored
        assert_identical(state_of(found.partial_fit(X, target)), following)
    assert_identical(case(max_iter=2).fit_predict(X, y + 0.5), fitted.predict(X))


@all_of_sequences
def test_targets_of_sequences_are_ignored(case, rng):
    X, states = case.data(rng, 6)
    fitted = case(max_iter=2).fit(X)
    expected, scored = state_of(fitted), fitted.score(X)
    one_each = list(targets(np.arange(6)))
    for y in (*one_each, states, states[::-1], states[:-1], [], {0: states[0]}, "abc", 0.5):
        found = case(max_iter=2).fit(X, y)
        assert_identical(state_of(found), expected)
        assert found.score(X, y) == scored
    rows, lengths = flat(X)
    for y in targets(np.concatenate(states)):
        found = case(max_iter=2).fit(rows, y, lengths=lengths)
        assert_identical(state_of(found), expected)
        assert found.score(rows, y, lengths=lengths) == scored


def test_estimators_without_labels_ignore_targets(rng):
    y = np.arange(40) % 2
    documents = rng.poisson(3.0, (40, 4)).astype(float)
    pairs = [("abc", "ab"), ("ba", "bca")] * 20
    for estimator, X in ((CompoundDirichlet(max_iter=2), documents), (EditDistance(), pairs)):
        assert "semi_supervised" not in estimator.get_params()
        expected = sklearn.clone(estimator).fit(X)
        for target in targets(y):
            found = sklearn.clone(estimator).fit(X, target)
            assert_identical(state_of(found), state_of(expected))
            assert found.score(X, target) == expected.score(X)
    assert "semi_supervised" not in KalmanFilter().get_params()


def test_states_before_a_classifier_of_rows(rng):
    X, y = rng.standard_normal((400, 2)), np.repeat(["a", "b"], 200)
    found = make_pipeline(GaussianHMM(3, random_state=0), LogisticRegression()).fit(X, y)
    assert_identical(found[0].model_, GaussianHMM(3, random_state=0).fit(X).model_)
    assert set(found.predict(X)) <= {"a", "b"}


def test_targets_of_shards_are_ignored(rng):
    X, y = rng.standard_normal((80, 2)), rng.random(80)
    sequences = list(X.reshape(8, 10, 2))
    for estimator, data, target in (
        (GaussianMixture(2, random_state=0, max_iter=2), X, y),
        (GaussianHMM(2, random_state=0, max_iter=2), sequences, y[:8]),
        (GaussianHMM(2, random_state=0, max_iter=2), X, y),
    ):
        found = DistributedEM(estimator, n_shards=2).fit(data, target)
        expected = DistributedEM(estimator, n_shards=2).fit(data)
        assert_identical(found.estimator_.model_, expected.estimator_.model_)


# --------------------------------------------------------------------------------------- learnt


@all_mixtures
def test_labels_of_rows_that_are_none(case, rng):
    X, y = case.data(rng, 60)
    mixture = case(semi_supervised=True, max_iter=2).fit(X, y)
    before = state_of(mixture)
    for bad in wrong(y):
        for method in (mixture.partial_fit, case(semi_supervised=True).fit):
            with pytest.raises((TypeError, ValueError), match=type(mixture).__name__):
                method(X, bad)
    assert_identical(state_of(mixture), before)
    unlabelled = case(max_iter=2).fit(X)
    for nothing in (None, np.full(len(y), -1), [None] * len(y), np.full(len(y), np.nan)):
        found = case(semi_supervised=True, max_iter=2).fit(X, nothing)
        assert_identical(state_of(found), state_of(unlabelled))
        assert_array_equal(found.classes_, [0, 1, 2])


def wrong(y):
    yield from (y[:-1], np.append(y, 0), [], {}, dict(enumerate(y)), 0, "abc", np.array([y, y]))
    yield from (y - 2, np.where(y, "a", "b"), y + 0.5, np.where(y, y, np.inf))
    yield from (np.array([{}] * len(y)), ["a", *y[1:]], [None, *(y[1:] + 0.5)])
    yield from (np.ma.masked_equal(y, 1), [y], [y[:3], y[3:]])


@all_hidden_markov
def test_states_that_are_none(case, rng):
    X, states = case.data(rng)
    hmm = case(semi_supervised=True, max_iter=2).fit(X, states)
    before = state_of(hmm)
    flat_states = np.concatenate(states)
    masked = [np.ma.masked_equal(part, 1) for part in states]
    scalars = [0, *states[1:]]
    shifted = [states[0][:0], np.append(states[0], states[1]), *states[2:]]
    texts = [part.astype(str) if i else part for i, part in enumerate(states)]
    others = (states[:-1], states[::-1], masked, scalars, shifted, [states], [[]], texts)
    for bad in (*wrong(flat_states), *others):
        for method in (hmm.partial_fit, case(semi_supervised=True).fit):
            with pytest.raises((TypeError, ValueError), match=type(hmm).__name__):
                method(X, bad)
    assert_identical(state_of(hmm), before)
    unlabelled = case(max_iter=2).fit(X)
    for nothing in (None, np.full(len(flat_states), -1), [part * 0 - 1 for part in states]):
        found = case(semi_supervised=True, max_iter=2).fit(X, nothing)
        assert_identical(state_of(found), state_of(unlabelled))


def three_classes(rng, n):
    centres, y = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]]), rng.integers(0, 3, n)
    return centres[y] + rng.standard_normal((n, 2)), np.array([*"abc"])[y], centres


def named(y):
    """Labels of three components, -1 where unknown, with other names in the same order."""
    texts = np.array(["a", "b", "c", None], dtype=object)[y]
    yield texts
    yield [text or float("nan") for text in texts]
    yield [text or -1 for text in texts]
    yield pd.Series(texts, dtype="string")
    yield pd.Series(texts, dtype="category")
    yield pd.DataFrame({"y": texts})
    yield np.array([3, 7, 9, -1])[y]
    yield np.array([-5.0, 0.0, 3.0, np.nan])[y]
    yield pd.Series(np.array([1, 2, 3, None])[y], dtype="Int64")
    yield np.array(["1999", "2001", "2002", "NaT"], dtype="M8[D]")[y]


def check_names(case, X, y, names, read=lambda y: y):
    """Labels of any type give the fit of numbers of components, and are predicted."""
    expected = case(semi_supervised=True, max_iter=1).fit(X, y)
    numbers = read(expected.predict(X))
    for labels in names:
        found = case(semi_supervised=True, max_iter=1).fit(X, labels)
        assert_identical(state_of(found), state_of(expected))
        assert len(found.classes_) == 3 and (found.classes_[:-1] < found.classes_[1:]).all()
        loaded = pickle.loads(pickle.dumps(found))
        assert_array_equal(read(loaded.predict(X)), found.classes_[numbers])
    switched = found.set_params(semi_supervised=False)
    assert_array_equal(read(switched.predict(X)), numbers)
    assert not hasattr(switched, "classes_")


@all_mixtures
def test_labels_of_rows_of_any_type(case, rng):
    X, y = case.data(rng, 30)
    y[::4] = -1
    names = list(named(y))
    is_first = case is ESTIMATORS[0]
    check_names(case, X, y, names if is_first else names[:1])


@all_hidden_markov
def test_labels_of_states_of_any_type(case, rng):
    X, states = case.data(rng, 12)
    states[0] = states[0] * 0 - 1
    texts = np.array(["a", "b", "c", None], dtype=object)
    parts = [np.full(len(states[0]), np.nan), *(texts[part].astype(str) for part in states[1:])]
    assert parts[1].dtype.kind == "U"
    check_names(case, X, states, [parts], np.concatenate)


@pytest.mark.parametrize("case", [*ESTIMATORS, *SEQUENCE_ESTIMATORS], ids=repr)
def test_components_that_were_learnt_before_get_the_classes_of_first_labels(case, rng):
    X, y = case.data(rng, 8) if case in SEQUENCE_ESTIMATORS else case.data(rng, 60)
    fitted = case(max_iter=2, warm_start=True).fit(X)
    numbers, score = fitted.predict(X), fitted.score(X)
    parts = numbers if isinstance(numbers, list) else [numbers]
    names = [np.array(["c", "a", "b"])[part] for part in parts]
    some = [np.where(np.arange(len(part)) % 4, None, part) for part in names]
    if not set(np.concatenate(some)) >= {*"abc"}:
        some = names
    some = some if isinstance(numbers, list) else some[0]
    fitted.set_params(semi_supervised=True, max_iter=0).fit(X, some)
    assert_allclose(fitted.score(X), score, rtol=1e-6)
    found = fitted.predict(X)
    assert_array_equal(
        np.concatenate(found if isinstance(numbers, list) else [found]), np.concatenate(names)
    )


@pytest.mark.parametrize("classes", [None, [*"bca"]], ids=["told by labels", "told at first"])
def test_components_of_streams_get_the_classes_of_first_labels(classes, rng):
    """However late they come; all later rows but a few have none."""
    centres, names = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]]), np.array([*"abc"])
    for seed in range(3):
        stream = GaussianMixture(3, semi_supervised=True, random_state=seed)
        for i in range(20):
            y, has_label = rng.integers(0, 3, 100), rng.random(100) < (0.3 if i == 10 else 0.02)
            labels = np.where(has_label, names[y], None) if i >= 10 else None
            told = {} if i else {"classes": classes}
            stream.partial_fit(centres[y] + rng.standard_normal((100, 2)), labels, **told)
        assert_array_equal(stream.predict(centres), names)


@pytest.mark.parametrize("classes", [[*"abc"], [0, 1, 2]], ids=["texts", "numbers"])
@pytest.mark.parametrize("solver", ["auto", "bayesian", "adaptive"])
def test_classes_get_their_components_as_their_labels_come(solver, classes, rng):
    """One row in a hundred has a label; nothing is known of most classes at the start."""
    X, names, centres = three_classes(rng, 6000)
    names = np.array(classes)[np.searchsorted([*"abc"], names)]
    for seed in range(4):
        stream = GaussianMixture(3, semi_supervised=True, solver=solver, random_state=seed)
        some = np.where(rng.random(6000) < 0.01, names, None)
        some[:200] = classes[2:] + [None] * 199
        for begin in range(0, 6000, 100):
            told = {} if begin else {"classes": classes}
            stream.partial_fit(X[begin : begin + 100], some[begin : begin + 100], **told)
        assert_array_equal(stream.predict(centres), classes)
        # Once each class has had some, components stay.
        assert stream.partial_fit(X[:100], names[:100])._fitted.attributes["_agreement"] is None


def test_states_of_streams_get_the_classes_of_labels(rng):
    for seed in range(3):
        hmm = GaussianHMM(3, semi_supervised=True, random_state=seed)
        for i in range(15):
            X, names, centres = three_classes(rng, 100)
            is_labelled = (np.arange(100) % 50 == 0) & (i > 7)
            hmm.partial_fit(
                X,
                np.where(is_labelled, names, None) if i else ["c"] + 99 * [None],
                **({} if i else {"classes": [*"abc"]}),
            )
        assert_array_equal(hmm.predict(centres), [*"abc"])


@pytest.mark.parametrize("case", [*ESTIMATORS, *SEQUENCE_ESTIMATORS], ids=repr)
def test_all_labels_of_a_stream_are_told_at_first(case, rng):
    X, y = case.data(rng, 8) if case in SEQUENCE_ESTIMATORS else case.data(rng, 60)
    parts = y if isinstance(y, list) else [y]
    names = [np.array(["a", "b", "c"])[part] for part in parts]
    names = names if isinstance(y, list) else names[0]
    expected = case(semi_supervised=True).partial_fit(X[:4], y[:4]).partial_fit(X[4:], y[4:])
    found = case(semi_supervised=True).partial_fit(X[:4], names[:4], classes=["c", "a", "b"])
    before, after = state_of(found), names[4:]
    for wrong_names, classes in ((after, ["a", "b", "d"]), (after, ["a", "b"]), (y[4:], None)):
        with pytest.raises(ValueError, match=type(found).__name__):
            found.partial_fit(X[4:], wrong_names, classes=classes)
    assert_identical(state_of(found), before)
    assert_identical(state_of(found.partial_fit(X[4:], after)), state_of(expected))
    assert_array_equal(found.classes_, ["a", "b", "c"])
    with pytest.raises(ValueError, match="semi_supervised"):
        case().partial_fit(X, y, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="unknown"):
        case(semi_supervised=True).partial_fit(X, names, classes=["a", "b", None])


@all_hidden_markov
def test_states_cut_as_the_sequences_or_row_by_row(case, rng):
    X, states = case.data(rng)
    expected = state_of(case(semi_supervised=True, max_iter=2).fit(X, states))
    lists = [part.tolist() for part in states]
    nested = np.empty(len(states), dtype=object)
    nested[:] = states
    for y in (lists, tuple(states), nested, np.concatenate(states), sum(lists, [])):
        assert_identical(state_of(case(semi_supervised=True, max_iter=2).fit(X, y)), expected)
    series = [pd.Series(part, dtype="Int64") for part in states]
    assert_identical(state_of(case(semi_supervised=True, max_iter=2).fit(X, series)), expected)


@pytest.mark.parametrize("make", [GaussianMixture, GaussianHMM])
def test_labels_are_learnt_from_the_batch_on_that_follows_the_change(make, rng):
    X, y = rng.standard_normal((60, 2)), np.arange(60) % 2
    plain = make(2, random_state=0).partial_fit(X)
    switched = copy.deepcopy(plain).partial_fit(X, y)
    assert_identical(state_of(switched), state_of(copy.deepcopy(plain).partial_fit(X)))
    learnt = copy.deepcopy(plain).set_params(semi_supervised=True).partial_fit(X, y)
    assert np.abs(learnt.means_ - switched.means_).max() > 1e-3
    back = copy.deepcopy(learnt).set_params(semi_supervised=False).partial_fit(X, y)
    assert_identical(state_of(back), state_of(copy.deepcopy(learnt).partial_fit(X)))


@pytest.mark.parametrize("init", [[[9.0], [0.0]], np.eye(2)[::-1].repeat(30, axis=0)], ids=len)
def test_a_start_that_is_given_gets_the_numbers_of_labels(init, rng):
    X, y = np.repeat([0.0, 9.0], 30)[:, None] + rng.standard_normal((60, 1)), np.full(60, -1)
    y[[0, -1]] = 0, 1
    mixture = GaussianMixture(2, init=init, semi_supervised=True, max_iter=0).fit(X, y)
    assert_array_equal(mixture.predict(X), np.arange(2).repeat(30))


def test_whether_labels_are_learnt_is_a_parameter_as_any_other(rng):
    X, y = rng.standard_normal((90, 2)), np.arange(90) % 2
    for make in (GaussianMixture, GaussianHMM):
        assert sklearn.clone(make(2, semi_supervised=True)).semi_supervised is True
        with pytest.raises(ValueError, match="semi_supervised"):
            make(2, semi_supervised="yes").fit(X)
    pipeline = make_pipeline(GaussianMixture(2, random_state=0), LogisticRegression())
    pipeline.set_params(gaussianmixture__semi_supervised=True).fit(X, y)
    expected = GaussianMixture(2, random_state=0, semi_supervised=True).fit(X, y)
    assert_identical(pipeline[0].model_, expected.model_)


# ------------------------------------------------------------------------ as scikit-learn's do

# Durations are bounded, and runs of merged classes are longer; regressions have no inputs here.
CHAINS = [c for c in SEQUENCE_ESTIMATORS if not {"durations", "lags"} & c.arguments.keys()]


def labelled_rows(case, rng):
    """Rows in the order of classes, which are two, or one sequence, and texts."""
    if case in SEQUENCE_ESTIMATORS:
        parts, states = case.data(rng, 12)
        X, y = np.concatenate(parts), np.concatenate(states) > 0
    else:
        X, y = case.data(rng, 60, n_clusters=2)
    return X, np.array(["no", "yes"])[y.astype(int)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", ESTIMATORS + CHAINS, ids=repr)
def test_what_takes_classifiers_takes_them(case, rng):
    X, y = labelled_rows(case, rng)
    is_sequence = case in SEQUENCE_ESTIMATORS
    settings = {"algorithm": "map"} if is_sequence else {}
    classifier = case(2, semi_supervised=True, max_iter=1, **settings)
    assert is_classifier(classifier) and is_clusterer(case(2))
    cv = StratifiedKFold(2)
    proba = cross_val_predict(classifier, X, y, method="predict_proba", cv=cv)
    for train, test in cv.split(X, y):
        fitted = sklearn.clone(classifier).fit(X[train], y[train])
        assert_array_equal(proba[test], fitted.predict_proba(X[test]))
        assert_array_equal(fitted.predict(X[test]), fitted.classes_[proba[test].argmax(axis=1)])
    scores = cross_val_score(classifier, X, y, scoring="roc_auc", cv=cv)
    assert_allclose(scores, [roc_auc_score(y[test], proba[test, 1]) for _, test in cv.split(X, y)])
    votes = VotingClassifier([("first", classifier), ("second", classifier)], voting="soft")
    whole = sklearn.clone(classifier).fit(X, y)
    assert_allclose(votes.fit(X, y).predict_proba(X), whole.predict_proba(X), atol=1e-12)
    assert_array_equal(votes.predict(X), whole.predict(X))
    stacked = StackingClassifier([("only", classifier)], LogisticRegression(), cv=cv).fit(X, y)
    calibrated = CalibratedClassifierCV(classifier, cv=cv).fit(X, y)
    for found in (stacked, calibrated):
        assert_array_equal(found.classes_, ["no", "yes"])
        assert np.mean(found.predict(X) == y) >= max(np.mean(whole.predict(X) == y) - 0.1, 0.5)


def test_components_of_classes_stay_where_later_rows_have_none(rng):
    """Where the rows of one class spread, so that another that is empty could be half of it."""
    centres, y = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0]]), rng.integers(0, 3, 300)
    stream = GaussianMixture(3, semi_supervised=True, random_state=0)
    stream.partial_fit(centres[y] + rng.standard_normal((300, 2)), np.array([*"abc"])[y])
    for _ in range(30):
        z, noise = rng.integers(0, 2, (500, 2)), rng.standard_normal((500, 2))
        stream.partial_fit(centres[z[:, 0]] + 3.0 * (1 - z[:, :1]) * z[:, 1:] + noise)
    assert all(step.reinitialised < 0 for step in stream.history_)
    assert_array_equal(stream.predict(centres), ["a", "b", "c"])


def test_labels_of_shards_and_of_members(rng):
    X, y = rng.standard_normal((80, 2)), np.arange(80) % 2
    names = np.array(["a", "b"])[y]
    mixture = GaussianMixture(2, semi_supervised=True, random_state=0, max_iter=2)
    found = DistributedEM(mixture, n_shards=2).fit(X, names)
    assert_identical(
        found.estimator_.model_, DistributedEM(mixture, n_shards=2).fit(X, y).estimator_.model_
    )
    assert_array_equal(found.classes_, ["a", "b"])
    assert set(found.predict(X)) == {"a", "b"}
    for first in (None, "a"):
        late = np.where(np.arange(80) < 40, first, names)
        assert_array_equal(DistributedEM(mixture, n_shards=2).fit(X, late).classes_, ["a", "b"])
    with pytest.raises(ValueError, match="shard 1: y has labels, and no shard with labels is"):
        DistributedEM(mixture).fit([X[:-1], X[-1:]], [[None] * 79, [1]])
    first, second, other, unlabelled = (
        sklearn.clone(mixture).fit(X, z) for z in (names, names, y, None)
    )
    assert_array_equal(combine_estimators([first, second, unlabelled]).classes_, ["a", "b"])
    # Classes that lie elsewhere at another site are the same classes.
    sites = [sklearn.clone(mixture).fit(X + 9.0 * z[:, None], names) for z in (y, 1 - y)]
    with pytest.warns(MergeWarning, match="do not have the same components"):
        assert_allclose(combine_estimators(sites).means_, 4.5, atol=1.0)
    assert combine_estimators(sites, align=True).aligned_members_ == [False, True]
    with pytest.raises(ValueError, match=r"estimators\[1\], a GaussianMixture, has classes_="):
        combine_estimators([first, other])


@pytest.mark.parametrize("mode", ["batch", "synchronous", "asynchronous"])
def test_shards_that_are_sorted_by_class(mode, rng):
    X, y = rng.standard_normal((90, 2)), np.repeat(np.arange(3), 30)
    y[::3] = -1
    names = np.array(["a", "b", "c", None])[y]
    mixture = GaussianMixture(3, semi_supervised=True, random_state=0, max_iter=3)
    learner = DistributedEM(mixture, mode=mode, n_shards=3, n_jobs=1, warm_start=True)
    expected = copy.deepcopy(learner).fit(X, y)
    with pytest.raises(ValueError, match="shard 0: .*in shards, pass all labels as classes"):
        learner.fit(X, names)
    assert_array_equal(learner.fit(X, names, classes=["b", "a", "c"]).classes_, ["a", "b", "c"])
    assert_identical(learner.estimator_.model_, expected.estimator_.model_)
    with pytest.raises(ValueError, match="'d'.*were"):
        learner.fit(X, names, classes=["a", "b", "d"])
    with pytest.raises(ValueError, match="requires semi_supervised=True of GaussianMixture"):
        DistributedEM(GaussianMixture(3)).fit(X, names, classes=["a", "b", "c"])


def test_shards_that_were_learnt_before_get_the_classes_of_first_labels(rng):
    X, names, centres = three_classes(rng, 300)
    for seed in range(3):
        mixture = GaussianMixture(3, semi_supervised=True, random_state=seed)
        learner = DistributedEM(mixture, n_shards=3, n_jobs=1, warm_start=True).fit(X)
        learner.fit(X, np.where(rng.random(300) < 0.2, names, None))
        assert_array_equal(learner.predict(centres), [*"abc"])


@pytest.mark.parametrize("of_base", [False, True], ids=["apart", "from one"])
def test_members_with_and_without_labels_merge_in_any_order(of_base, rng):
    for seed in range(3):
        X, names, centres = three_classes(rng, 800)
        mixture, base = GaussianMixture(3, semi_supervised=True, random_state=seed), None
        if of_base:
            mixture = base = mixture.partial_fit(X)
        sites = [copy.deepcopy(mixture).set_params(random_state=seed + i) for i in range(3)]
        for site, labels in zip(sites, (None, names, names), strict=True):
            site.partial_fit(X, labels)
        for order in ([0, 1, 2], [1, 0, 2], [2, 0], [0, 1]):
            found = combine_estimators([sites[i] for i in order], base=base)
            assert_allclose(found.means_, centres, atol=0.5)
            assert_array_equal(found.predict(centres), [*"abc"])
            assert not any(x for i, x in zip(order, found.aligned_members_, strict=True) if i)


def test_sites_with_few_labels_name_components_in_rounds(rng):
    for seed in range(6):
        merged = GaussianMixture(3, semi_supervised=True, random_state=seed)
        X, _, centres = three_classes(rng, 600)
        merged.partial_fit(X, classes=[*"abc"])
        for _ in range(6):
            sites = [copy.deepcopy(merged) for _ in range(3)]
            for site in sites:
                X, names, _ = three_classes(rng, 200)
                site.partial_fit(X, np.where(rng.random(200) < 0.01, names, None))
            merged = combine_estimators(sites)
        assert_array_equal(merged.predict(centres), [*"abc"])


def test_detectors_of_streams_are_told_all_labels(rng):
    X, names, centres = three_classes(rng, 300)
    detector = AnomalyDetector(GaussianMixture(3, semi_supervised=True, random_state=0))
    detector.partial_fit(X[names == "a"], names[names == "a"], classes=[*"bca"])
    detector.partial_fit(X, names)
    assert_array_equal(detector.estimator_.predict(centres), [*"abc"])


@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_dates_are_the_same_labels_in_any_unit(kind, rng):
    X, y = rng.standard_normal((60, 2)), np.arange(60) % 2
    mixture = GaussianMixture(2, semi_supervised=True, random_state=0)
    expected = state_of(copy.deepcopy(mixture).partial_fit(X, y).partial_fit(X, y))
    for first, second in (("ns", "D"), ("D", "ns"), ("h", "s")):
        stream = copy.deepcopy(mixture).partial_fit(
            X, y.astype(f"{kind}[D]").astype(f"{kind}[{first}]")
        )
        days = y.astype(f"{kind}[D]").astype(f"{kind}[{second}]")
        assert_identical(state_of(stream.partial_fit(X, days)), expected)
        with pytest.raises(ValueError, match="y has the label .* classes_ are "):
            stream.partial_fit(X, days + np.timedelta64(1, "D"))

"""Calls with wrong arguments, which are refused in the name of the user's class."""

import inspect
import re

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.merged_cases import MERGED
from cases.public_names import public
from cases.states import state_of
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import LatentDirichletAllocation as SklearnLDA
from sklearn.mixture import BayesianGaussianMixture
from sklearn.mixture import GaussianMixture as SklearnMixture
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import Options

from sklearn_onlineem import (
    AnomalyDetector,
    CategoricalHMM,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MultinomialHMM,
    PerSequence,
    PoissonHMM,
    PoissonMixture,
    PrequentialSearch,
    StreamPipeline,
)
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.estimators.parameters import _ELSEWHERE

REQUIRED = {
    AnomalyDetector: (PoissonMixture(),),
    DistributedEM: (PoissonMixture(),),
    PerSequence: (StandardScaler(),),
    StreamPipeline: ([("mixture", PoissonMixture())],),
    PrequentialSearch: (PoissonMixture(), {}),
}
THEIRS = {"set_output", "set_callbacks"}
# Whose methods some classes inherit.
BASES = {"sklearn.pipeline", "sklearn.model_selection._search"}
KINDS = {kind for _, kind in public() if inspect.isclass(kind) and issubclass(kind, BaseEstimator)}
all_kinds = pytest.mark.parametrize("kind", sorted(KINDS, key=str), ids=lambda kind: kind.__name__)
all_estimators = pytest.mark.parametrize("case", MERGED, ids=repr)


def made(kind):
    return kind(*REQUIRED.get(kind, ()))


def methods_of(instance):
    """Public methods, but for those that scikit-learn gives any estimator."""
    for name, method in inspect.getmembers(instance, inspect.ismethod):
        is_theirs = method.__func__ is getattr(BaseEstimator, name, None) or name in THEIRS
        if not (name.startswith("_") or is_theirs or method.__module__ in BASES):
            yield name, method


def kinds_of_arguments(method):
    return [parameter.kind for parameter in inspect.signature(method).parameters.values()]


def test_there_are_estimators():
    assert len(KINDS) > 20 and sum(len(dict(methods_of(made(kind)))) for kind in KINDS) > 200


@all_kinds
def test_methods_refuse_unknown_arguments_in_the_name_of_the_class(kind):
    for name, method in methods_of(made(kind)):
        if inspect.Parameter.VAR_KEYWORD in kinds_of_arguments(method):
            continue
        beginning = rf"^{kind.__name__}\.{name}\(\) (got an unexpected|missing a required) "
        with pytest.raises(TypeError, match=beginning):
            method(no_such_thing=1)


@all_kinds
def test_methods_refuse_too_many_arguments_in_the_name_of_the_class(kind):
    for name, method in methods_of(made(kind)):
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{name} takes \d by position"):
            method(*range(20))


@all_kinds
def test_methods_refuse_missing_arguments_in_the_name_of_the_class(kind):
    for name, method in methods_of(made(kind)):
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        if not any(p.kind is p.POSITIONAL_OR_KEYWORD for p in needed):
            continue
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{name}\(\) missing a required"):
            method()


@all_kinds
def test_constructors_refuse_unknown_parameters(kind):
    given = {"transformer": 1} if kind is PerSequence else {}
    with pytest.raises(TypeError, match=f"^{kind.__name__} has no parameter 'zzz'; it has "):
        kind(**given, zzz=1)
    with pytest.raises(TypeError, match=rf"^{kind.__name__} takes \d by position, got 9"):
        kind(*range(9))


@all_kinds
def test_misspelt_parameters_are_recognised(kind):
    for name in inspect.signature(kind).parameters:
        message = f"^{kind.__name__} has no parameter '{name}x'; did you mean '{name}'"
        with pytest.raises(TypeError, match=message):
            kind(**{f"{name}x": 1})


@all_kinds
def test_parameters_that_are_set_are_refused_alike(kind):
    with pytest.raises(ValueError, match=kind.__name__) as raised:
        made(kind).set_params(max_itre=3)
    if hasattr(kind, "max_iter"):
        assert "did you mean 'max_iter'?" in str(raised.value)


def parameters(kind):
    return list(inspect.signature(kind.__init__).parameters)[1:]


def elsewhere():
    hmmlearn, vhmm = pytest.importorskip("hmmlearn.hmm"), pytest.importorskip("hmmlearn.vhmm")
    pykalman = pytest.importorskip("pykalman")
    return [
        (SklearnMixture, GaussianMixture),
        (BayesianGaussianMixture, GaussianMixture),
        (SklearnLDA, LatentDirichletAllocation),
        (hmmlearn.GaussianHMM, GaussianHMM),
        (hmmlearn.GMMHMM, GaussianHMM),
        (hmmlearn.CategoricalHMM, CategoricalHMM),
        (hmmlearn.MultinomialHMM, MultinomialHMM),
        (hmmlearn.PoissonHMM, PoissonHMM),
        (vhmm.VariationalGaussianHMM, GaussianHMM),
        (vhmm.VariationalCategoricalHMM, CategoricalHMM),
        (pykalman.KalmanFilter, KalmanFilter),
    ]


def test_parameters_of_other_libraries_are_known():
    n_foreign = 0
    for theirs, ours in elsewhere():
        for name in set(parameters(theirs)) - set(parameters(ours)):
            with pytest.raises(TypeError, match=f"^{ours.__name__} has no parameter '{name}': "):
                ours(**{name: 1})
            n_foreign += 1
    assert n_foreign > 30


def test_what_is_recommended_is_there():
    named = {name for kind in KINDS for name in parameters(kind)}
    for name, here, remedy in _ELSEWHERE:
        recommended = {here} - {None} | set(re.findall(r"'(\w+)'", remedy or "")) - {"_init"}
        assert recommended - {"forgetting"} <= named, name


def test_classes_of_users_have_their_name():
    class Mine(GaussianMixture):
        def fit(self, X, y=None, sample_weight=None):
            return super().fit(X, no_such_thing=1)

    with pytest.raises(TypeError, match=r"^Mine\.fit\(\) got an unexpected keyword"):
        Mine(2).fit([[1.0], [2.0]])
    with pytest.raises(TypeError, match="^Mine has no parameter 'n_iter'"):
        Mine(n_iter=3)


def test_classes_of_users_may_have_other_parameters():
    class Mine(GaussianMixture):
        def __init__(self, n_components=2, *, random_state=None, share=0.5):
            super().__init__(n_components, random_state=random_state)
            self.share = share

    own = clone(Mine(3, share=0.2)).set_params(share=0.3, random_state=0)
    assert own.get_params() == {"n_components": 3, "random_state": 0, "share": 0.3}
    X = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_array_equal(
        own.fit(X).means_, GaussianMixture(3, random_state=0).fit(X).means_
    )
    with pytest.raises(ValueError, match="^Mine has no parameter 'shares'; did you mean 'share'"):
        own.set_params(shares=1)


def test_classes_of_users_may_have_constraints_of_their_own():
    class Mine(GaussianMixture):
        _parameter_constraints = {"n_components": [Options(int, {2, 3})], "tol": "no_validation"}

    Mine(3, tol=1, max_iter=2).fit([[1.0], [2.0], [3.0]])
    with pytest.raises(ValueError, match="^The 'n_components' parameter of Mine must be"):
        Mine(4).fit([[1.0]])


def test_other_errors_are_as_they_were():
    def fail(step):
        return len(3)

    message = r"^object of type 'int' has no len\(\)\nIt was raised within PoissonMixture"
    with pytest.raises(TypeError, match=message) as raised:
        PoissonMixture(callbacks=[fail]).fit([[1], [2]])
    assert raised.traceback[-1].name == "fail"


def test_methods_of_subclasses_take_what_they_say(rng):
    class Told(GaussianHMM):
        def fit(self, X, y=None, **kwargs):
            where = {name: value for name, value in kwargs.items() if name != "told"}
            return super().fit(X, y, **where)

        def score(self, X, **where):
            return where

    hmm = Told().fit(rng.normal(size=(9, 1)), told=1, lengths=[4, 5])
    assert hmm.n_samples_seen_ == 2 and hmm.score([[0.0]], told=1) == {"told": 1}


DICTS = [
    {},
    {"a": 1.0},
    {"a": [1.0, 2.0]},
    {0: np.ones((3, 2))},
    [{"a": 1.0}] * 3,
    ({"a": 1.0},),
    [[{"a": 1.0}] * 3] * 2,
]


@all_estimators
def test_dicts_are_refused_with_what_to_do(case, rng):
    stream = case().partial_fit(case.data(rng, 30)[0])
    before, name = state_of(stream), type(stream).__name__
    for learn in (case().fit, case().partial_fit, stream.partial_fit, stream.score_samples):
        for X in DICTS:
            with pytest.raises((TypeError, ValueError), match=f"{name}: .*(dict|pair)") as raised:
                learn(X)
            assert re.search("DictVectorizer|items|zip", str(raised.value))
    assert_identical(state_of(stream), before)

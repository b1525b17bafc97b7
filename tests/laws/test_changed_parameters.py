"""Each parameter that is set between two batches of a stream: acts, raises, or is of `fit` alone.

Tables by name hold what it is set to. A new parameter without an entry fails.
"""

import copy
import inspect
import re

import numpy as np
import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_identical
from cases.family_cases import case_of
from cases.merged_cases import LETTERS, MERGED, SINGLE, once_for_each_parameter
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from cases.streams import AT_ONCE
from cases.wrappers import WRAPPERS, all_wrappers
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import IncrementalPCA
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sklearn_onlineem import (
    EditDistance,
    EditDistanceClassifier,
    GaussianHMM,
    KalmanFilter,
    PerSequence,
)
from sklearn_onlineem.families import Categorical
from sklearn_onlineem.structure import Trend

pytestmark = pytest.mark.filterwarnings("ignore")

# Another model, or another record of the step, from the next batch on.
ACTS = {
    "eta0": 0.3, "schedule": "harmonic", "beta": 0.9, "solver": "stochastic",
    "weight_concentration_prior": 50.0, "startprob_prior": 50.0, "transmat_prior": 50.0,
    "durationprob_prior": 50.0,
    "operation_prior": 50.0, "emissionprob_prior": 50.0, "means_prior": 10.0, "means_weight": 100.0,
    "covars_prior": 50.0, "covars_weight": 100.0, "lambdas_prior": 500.0, "lambdas_weight": 500.0,
    "weights_prior": 50.0,
    "binarize": 2.0, "zero_value": 0.5, "e_step": "map", "topic_word_prior": 3.0,
    "total_samples": 1e6, "learn_doc_topic_prior": False,
}  # fmt: skip
# They act on online steps alone, and the start of a stream takes none.
OF_STEPS = {"eta0", "schedule", "beta", "solver", "total_samples"}
# They say how data are read; those read before stay as they were.
OF_DATA = {"binarize", "zero_value"}
# ValueError that names it: it shapes the model.
RAISES = {
    "n_components": 4, "n_mix": 3, "covariance_type": "diag", "reg_covar": 0.5,
    "termination": "absorbing_states", "absorbing_states": [1], "params": "st",
    "family": Categorical(n_categories=9), "n_features": 9, "n_categories": 9,
    "min_probability": 0.01, "n_symbols": 9, "shape": 7.0, "degrees_of_freedom": 17.0,
    "alphabet": "abcdxyz", "parametrization": "other", "em_vars": ["transition_matrices"],
    "transition_covariance_type": "diag", "observation_covariance_type": "spherical",
    "n_dim_state": 3, "doc_topic_prior": 0.3, "durations": "negative_binomial", "max_duration": 29,
    "left_censored": True, "lags": 2, "response": "gaussian", "structure": [Trend()],
}  # fmt: skip
# They act on `fit`, starts of streams, answers or messages: the next batch learns the same.
OF_FIT = {
    "batch_size": 7, "max_iter": 3, "tol": 0.5, "stopping": "kl", "warm_start": True, "n_init": 3,
    "average": 7,
}  # fmt: skip
OF_THE_START = {
    "init": "random", "init_params": "random", "random_state": 7, "alpha_init": [1.0],
    "weights_init": [1.0], "means_init": [[1.0]], "precisions_init": [1.0], "startprob_init": [1.0],
    "transmat_init": [[1.0]], "covars_init": [1.0], "lambdas_init": [[1.0]],
    "emissionprob_init": [[1.0]], "durationprob_init": [[1.0]], "operations_init": {},
    "transition_matrices": 0.3 * np.eye(2),
    "observation_matrices": np.ones((4, 2)), "transition_covariance": 3.0 * np.eye(2),
    "observation_covariance": 3.0 * np.eye(4), "observation_offsets": np.full(4, 3.0),
    "transition_input_weights": np.ones((2, 1)), "observation_input_weights": np.ones((4, 1)),
    "initial_state_mean": np.full(2, 3.0), "initial_state_covariance": 3.0 * np.eye(2),
}  # fmt: skip
SYSTEM = {name for name in OF_THE_START if np.ndim(OF_THE_START[name]) and "init" not in name}
SYSTEM |= {"initial_state_mean", "initial_state_covariance"}
OF_ANSWERS = {
    "algorithm": "map", "kind": "viterbi", "n_jobs": 1, "verbose": 1, "verbose_interval": 2,
}  # fmt: skip
TABLES = {
    "acts": ACTS,
    "raises": RAISES,
    "of fit": OF_FIT,
    "of the start": OF_THE_START,
    "of answers": OF_ANSWERS,
}
# Further parameters, with arguments of their own.
ELSEWHERE = {"n_sweeps", "burn_in", "prior", "callbacks", "transition_offsets", "semi_supervised"}


def changes(kind, cases=MERGED):
    return [
        pytest.param(case, name, TABLES[kind][name], id=f"{case!r}-{name}")
        for case, name in once_for_each_parameter(cases)
        if name in TABLES[kind]
    ]


def stream(case, rng):
    """An estimator that has learnt a first batch, and the next one, which is an online step."""
    return begun(case, case.data(rng, 60)[0], **({} if case in GIBBS else {"solver": AT_ONCE}))


def opening(case, rng, **arguments):
    """An estimator that has kept a first batch, and the next one, from which it starts anew."""
    X = case.data(rng, 60)[0]
    return begun(case, [rows[:3] for rows in X] if case in SEQUENCES else X, **arguments)


def begun(case, X, **arguments):
    if "zero_value" in case().get_params():
        X[-1], arguments["zero_value"] = 0.0, 0.1
    if "means_weight" in case().get_params():
        # Without any weight a mean of the prior says nothing.
        arguments = {"means_weight": 1.0, **arguments}
    return case(**arguments).partial_fit(X[:40]), X[40:]


SEQUENCES = [*SEQUENCE_ESTIMATORS, *KALMAN_FILTERS]
# Estimators that keep first rows.
KEEPING = [case for case in MERGED if case()._online.keeps_first_rows]
both = pytest.mark.parametrize("stream", [opening, stream], ids=["opening", "online"])


def other(estimator, name, value):
    """The value, or another one where that is what the estimator has."""
    now = getattr(estimator, name)
    alternatives = {
        "covariance_type": "full",
        "transition_covariance_type": "full",
        "observation_covariance_type": "full",
        "family": "poisson",
        "parametrization": "tied" if now == "full" else "full",
        "solver": "online",
        "e_step": "gibbs",
        "left_censored": False,
    }
    if name == "params" and isinstance(estimator, KalmanFilter):
        return {"transition_matrices": False}
    if name == "parametrization" or (isinstance(now, type(value)) and now == value):
        return alternatives[name]
    return value


def copies(estimator, n):
    return [copy.deepcopy(estimator) for _ in range(n)]


def steps(estimator):
    return [tuple(step) for step in estimator.history_]


@pytest.mark.parametrize("case", [*MERGED, *GIBBS], ids=repr)
def test_each_parameter_has_an_entry(case):
    known = ELSEWHERE.union(*TABLES.values())
    assert set(case().get_params(deep=False)) <= known


@pytest.mark.parametrize(("case", "name", "value"), changes("acts"))
def test_a_change_acts_from_the_next_batch_on(case, name, value, rng):
    estimator, X = stream(case, rng)
    if name == "beta":
        estimator.set_params(schedule="power", eta0="auto")
    changed = copy.deepcopy(estimator)
    estimator.partial_fit(X)
    changed.set_params(**{name: other(changed, name, value)}).partial_fit(X)
    assert not same_numbers(estimator.model_, changed.model_)
    assert steps(estimator) != steps(changed)


PRIORS = [change for change in changes("acts") if change.values[1] not in OF_STEPS | OF_DATA]


@pytest.mark.parametrize(("case", "name", "value"), PRIORS)
def test_a_change_acts_after_an_update_that_failed(case, name, value, rng):
    fails = []

    def callback(step):
        if fails:
            raise RuntimeError

    X = case.data(rng, 60)[0]
    found, rest = begun(case, X, solver=AT_ONCE, callbacks=[callback])
    expected, value = copy.deepcopy(found), other(found, name, value)
    found.set_params(**{name: value})
    fails.append(True)
    with pytest.raises(RuntimeError):
        found.partial_fit(rest)
    fails.clear()
    expected.set_params(**{name: value}).partial_fit(rest)
    assert_identical(found.partial_fit(rest).model_, expected.model_)


# Rows stay as they were read, and start values of one part would be refused.
OF_A_NEW_START = [
    change
    for change in [*changes("acts", KEEPING), *changes("of the start", KEEPING)]
    if change.values[1] in {*ACTS, "init", "init_params"} - OF_DATA
]


@pytest.mark.parametrize(("case", "name", "value"), OF_A_NEW_START)
def test_a_start_that_is_made_anew_is_that_of_the_present_parameters(case, name, value, rng):
    """As if they had been set from the beginning."""
    (estimator, X), unchanged = opening(case, copy.deepcopy(rng)), opening(case, copy.deepcopy(rng))
    arguments = {name: other(estimator, name, value)}
    expected = opening(case, rng, **arguments)[0].partial_fit(X)
    assert_identical(estimator.set_params(**arguments).partial_fit(X).model_, expected.model_)
    same = same_numbers(estimator.model_, unchanged[0].partial_fit(X).model_)
    # The solver of topics also says how they are inferred.
    assert same is (
        name in OF_STEPS and not (name == "solver" and "e_step" in unchanged[0]._defaults)
    )


def same_numbers(model, another):
    try:
        assert_identical(model, another)
    except AssertionError:
        return False
    return True


@both
@pytest.mark.parametrize(("case", "name", "value"), changes("raises"))
def test_a_change_of_what_shapes_the_model_raises(stream, case, name, value, rng):
    estimator, X = stream(case, rng)
    model, before = estimator.model_, getattr(estimator, name)
    estimator.set_params(**{name: other(estimator, name, value)}, warm_start=True)
    # A fit that goes on may learn other parts.
    methods = {"partial_fit"} if name in {"params", "em_vars"} else {"fit", "partial_fit"}
    for method in sorted(methods):
        with pytest.raises(ValueError, match=rf"{type(estimator).__name__}.*\b{name}="):
            getattr(estimator, method)(X)
    assert estimator.model_ is model
    assert estimator.n_steps_ == 1
    estimator.set_params(**{name: before}).partial_fit(X)
    assert estimator.n_steps_ == 2


@pytest.mark.parametrize(
    ("case", "name", "value"),
    [*changes("of fit"), *changes("of the start"), *changes("of answers")],
)
def test_what_is_of_fit_alone_does_not_change_a_stream(case, name, value, rng):
    estimator, X = stream(case, rng)
    changed = copy.deepcopy(estimator).set_params(**{name: value})
    assert_identical(changed.partial_fit(X).model_, estimator.partial_fit(X).model_)


@pytest.mark.parametrize(("case", "name", "value"), [*changes("of fit"), *changes("of answers")])
def test_what_is_of_fit_alone_does_not_change_the_start_of_a_stream(case, name, value, rng):
    X = case.data(rng, 400)[0]
    estimator = case().partial_fit(X[:10])
    changed = copy.deepcopy(estimator).set_params(**{name: value})
    for one in (changed, estimator):
        one.partial_fit(X[10:])
    assert estimator.n_rows_kept_ == 0
    assert_identical(changed.model_, estimator.model_)


@pytest.mark.parametrize(("case", "name", "value"), [*changes("of fit"), *changes("of the start")])
def test_docstrings_say_what_is_of_fit_or_of_the_start(case, name, value):
    text = re.search(
        rf"\n    {name}(?:, \w+)* : .*?(?=\n    \w[\w, ]* : |\n\n)", documented(case), re.S
    )
    if name in SYSTEM:  # documented together, at the first of them
        text = re.search("This and the next seven.*?start values", documented(case), re.S)
    word = "`fit`" if name in OF_FIT else "[Ss]tart|begin"
    assert text
    assert re.search(word, text[0])


def documented(case):
    return "\n" + "\n".join("    " + line for line in inspect.getdoc(case.make).splitlines())


@both
@pytest.mark.parametrize("case", [*MERGED, *GIBBS], ids=repr)
def test_the_same_values_change_nothing(stream, case, rng):
    estimator, X = stream(case, rng)
    again = copy.deepcopy(estimator)
    again.set_params(**again.get_params(deep=False)).partial_fit(X)
    assert_identical(again.model_, estimator.partial_fit(X).model_)


@both
@pytest.mark.parametrize("case", [*MERGED, *GIBBS], ids=repr)
def test_callbacks_are_called_from_the_next_batch_on(stream, case, rng):
    estimator, X = stream(case, rng)
    seen = []
    estimator.set_params(callbacks=[seen.append]).partial_fit(X)
    assert len(seen) == 1
    estimator.set_params(callbacks=None).partial_fit(X)
    assert len(seen) == 1


WITH_PRIOR = [case for case in MERGED if "prior" in case().get_params()]


KALMAN = [case for case in MERGED if case.make is KalmanFilter]
WRONG = [(case, "prior", {"nonsense": 3.0}) for case in WITH_PRIOR]
WRONG += [(case, "transition_offsets", [1.0, 2.0]) for case in KALMAN]


@both
@pytest.mark.parametrize(("case", "name", "value"), WRONG, ids=str)
def test_a_prior_with_unknown_keys_and_what_is_kept_as_given_raise_by_name(
    stream, case, name, value, rng
):
    estimator, X = stream(case, rng)
    model, kind = estimator.model_, type(estimator).__name__
    with pytest.raises((TypeError, ValueError), match=rf"{name}.*{kind}|{kind}.*{name}"):
        estimator.set_params(**{name: value}).partial_fit(X)
    assert estimator.model_ is model
    estimator.set_params(**{name: None}).partial_fit(X)


def prior_of(case, estimator):
    """A prior that says something else than the data, for the family of an estimator."""
    if case.make is KalmanFilter:
        return {"observation": {"offset": 90.0, "offset_precision": 30.0}}
    # That of regressions is for one input.
    n_columns = estimator.n_features_in_ + getattr(estimator, "lags", 0)
    return copy.deepcopy(case_of(estimator.model_.family).prior(n_columns))


@both
@pytest.mark.parametrize("case", WITH_PRIOR, ids=repr)
def test_a_prior_that_is_set_acts_from_the_next_batch_on(stream, case, rng):
    estimator, X = stream(case, rng)
    prior, changed, unchanged = prior_of(case, estimator), *copies(estimator, 2)
    estimator.partial_fit(X)
    changed.set_params(prior=prior).partial_fit(X)
    assert not same_numbers(estimator.model_, changed.model_)
    unchanged.set_params(prior=prior).set_params(prior=estimator.prior).partial_fit(X)
    assert_identical(estimator.model_, unchanged.model_)


GAUSSIAN = [case for case in MERGED if repr(case).startswith("GaussianMixture")]


@both
@pytest.mark.parametrize("case", GAUSSIAN, ids=repr)
def test_a_prior_draws_means_to_its_own(stream, case, rng):
    estimator, X = stream(case, rng)
    changed = copy.deepcopy(estimator)
    changed.set_params(prior={"mean": np.full(4, 90.0), "mean_precision": 30.0}).partial_fit(X)
    estimator.partial_fit(X)
    assert (changed.means_ > estimator.means_ + 1.0).all()


# ------------------------------------------------------------------------ changed in their place


def prior_containers(case, estimator):
    """Values of parameters that act on a stream, which can be changed in place, by name."""
    k, d = getattr(estimator, "n_components", 1), getattr(estimator, "n_features_in_", 1)
    return {
        "prior": lambda: prior_of(case, estimator),
        "startprob_prior": lambda: np.full(k, 5.0),
        "transmat_prior": lambda: np.full((k, 1), 5.0).tolist(),
        "durationprob_prior": lambda: np.full((k, 1), 5.0),
        "emissionprob_prior": lambda: np.full((k, d), 5.0),
        "means_prior": lambda: np.full(d, 5.0),
        "covars_prior": lambda: 5.0 * np.eye(d),
        "operation_prior": lambda: {"match": 5.0, "insert": 3.0},
    }


def double(container):
    """Numbers in it, each in its place; the container stays the same object."""
    places = container if isinstance(container, dict) else range(len(container))
    for place in places:
        if isinstance(container[place], dict | list):
            double(container[place])
        else:
            container[place] = 2.0 * container[place]


IN_PLACE = [
    pytest.param(case, name, id=f"{case!r}-{name}")
    for case, name in once_for_each_parameter(MERGED)
    if name in prior_containers(case, None)
]


@both
@pytest.mark.parametrize(("case", "name"), IN_PLACE)
def test_what_is_changed_in_its_place_acts_once_it_is_set(stream, case, name, rng):
    estimator, X = stream(case, rng)
    value = prior_containers(case, estimator)[name]()
    estimator.set_params(**{name: value}).partial_fit(X)
    expected, unchanged = copies(estimator, 2)
    double(value)
    assert getattr(estimator, name) is value
    estimator.set_params(**{name: value})
    for changed in (estimator, expected.set_params(**{name: copy.deepcopy(value)}), unchanged):
        changed.partial_fit(X)
    assert_identical(estimator.model_, expected.model_)
    assert not same_numbers(estimator.model_, unchanged.model_)
    estimator.partial_fit(X)
    assert_identical(estimator.model_, expected.partial_fit(X).model_)


def rows_of(rng):
    return rng.standard_normal((60, 2))


def pairs_of(rng):
    return SINGLE[1].data(rng, 60)[0]


# An estimator whose parameter shapes the model, its data, and what is done to the value.
SHAPED = {
    "absorbing_states": (GaussianHMM(3), rows_of, [2], lambda value: value.append(1)),
    "em_vars": (KalmanFilter(2), rows_of, ["transition_covariance"], lambda value: value.pop()),
    "alphabet": (EditDistance(), pairs_of, list(LETTERS), lambda value: value.append("z")),
    "transition_matrices": (
        KalmanFilter(2, em_vars=["observation_covariance"]),
        rows_of,
        0.5 * np.eye(2),
        double,
    ),
    "transition_offsets": (KalmanFilter(2), rows_of, np.ones(2), double),
}
SHAPED_SETS = {
    "em_vars": (KalmanFilter(2), rows_of, {"transition_covariance"}, lambda value: value.pop()),
    "alphabet": (EditDistance(), pairs_of, set(LETTERS), lambda value: value.add("z")),
}


@pytest.mark.parametrize("name", [*SHAPED, *(f"{name} in a set" for name in SHAPED_SETS)])
def test_what_shapes_the_model_can_not_be_changed_in_its_place(name, rng):
    name, _, is_set = name.partition(" ")
    estimator, data, value, change = (SHAPED_SETS if is_set else SHAPED)[name]
    value, X = copy.deepcopy(value), data(rng)
    estimator = clone(estimator).set_params(random_state=0, warm_start=True)
    setattr(estimator, name, value)
    model = estimator.partial_fit(X).partial_fit(X).model_
    change(value)
    setattr(estimator, name, value)
    expected = rf"(?s){type(estimator).__name__}.*\b{name}.*call fit again"
    for method in ("partial_fit", "fit")[: 1 if name == "em_vars" else 2]:
        with pytest.raises(ValueError, match=expected):
            getattr(estimator, method)(X)
        assert estimator.model_ is model


# ----------------------------------------------------------------------- estimators of estimators


TRANSFORMERS = {
    "with_mean": (StandardScaler(), {"transformer__with_mean": False}),
    "feature_range": (MinMaxScaler(), {"transformer__feature_range": (0, 2)}),
    "n_components": (IncrementalPCA(1), {"transformer__n_components": 2}),
    "transformer": (StandardScaler(), {"transformer": MinMaxScaler()}),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_another_transformer_of_a_stream_of_sequences_raises(name, rng):
    transformer, change = TRANSFORMERS[name]
    sequences = [rows_of(rng)]
    estimator = PerSequence(clone(transformer)).partial_fit(sequences)
    before, fitted = estimator.transform(sequences), estimator.transformer_
    estimator.set_params(**change)
    with pytest.raises(ValueError, match=rf"PerSequence.*\b{name}\b.*call fit again"):
        estimator.partial_fit(sequences)
    assert estimator.transformer_ is fitted
    np.testing.assert_array_equal(estimator.transform(sequences), before)
    estimator.fit(sequences).partial_fit(sequences)


class Wrapped(TransformerMixin, BaseEstimator):
    """A transformer that holds another, in a list of pairs."""

    def __init__(self, steps):
        self.steps = steps

    def partial_fit(self, X, y=None):
        self.steps[0][1].partial_fit(X)
        return self

    fit = partial_fit

    def get_params(self, deep=True):
        return {"steps": self.steps, **({"scaler": self.steps[0][1]} if deep else {})}

    def transform(self, X):
        return self.steps[0][1].transform(X)


def test_a_transformer_that_holds_another_goes_on(rng):
    sequences = [rows_of(rng)]
    estimator = PerSequence(Wrapped([("scaler", StandardScaler())])).partial_fit(sequences)
    estimator.partial_fit(sequences)
    assert estimator.transformer_.steps[0][1].n_samples_seen_ == 120


def test_the_same_transformer_goes_on(rng):
    sequences = [rows_of(rng)]
    pca = IncrementalPCA(1)
    estimator = PerSequence(pca).partial_fit(sequences)
    estimator.set_params(transformer=clone(pca)).partial_fit(sequences)
    assert estimator.transformer_.n_samples_seen_ == 120


NONSENSE = {
    "contamination": [0, 5, 0.9, np.nan, "auto"],
    "param_grid": [{"beta": 3}, []],
    "scoring": ["absent"],
}


@all_wrappers
def test_wrappers_refuse_nonsense_before_anything_learns(wrapper, rng):
    """However it was set, and whatever has been learnt before."""
    part, wrapper, X = WRAPPERS[wrapper], clone(wrapper), rng.normal(size=(60, 2))
    X, y = (WORDS, WORDS) if isinstance(wrapper, EditDistanceClassifier) else (X, X[:, 0])
    names = [name for name in ("fit", "partial_fit") if hasattr(wrapper, name)]

    def learnt():
        return (wrapper[-1] if part == "last step" else getattr(wrapper, part))._fitted

    for method in names:
        getattr(wrapper, method)(X, y)
        for name, before in wrapper.get_params(deep=False).items():
            for value in (object(), *NONSENSE.get(name, ())):
                fitted = learnt()
                setattr(wrapper, name, value)
                for again in names:
                    with pytest.raises((ValueError, TypeError, AttributeError)):
                        getattr(wrapper, again)(X, y)
                setattr(wrapper, name, before)
                assert learnt() is fitted, (name, value)


WORDS = ["ab", "ba", "aab", "c"]
CLASSIFIER = {
    "edit_distance": EditDistance("full"),
    "dictionary": ["c"],
    "conditional": False,
    "prefit": True,
}


@pytest.mark.parametrize("name", inspect.signature(EditDistanceClassifier).parameters)
def test_parameters_of_a_classifier_are_of_its_fit(name):
    """It has no stream; what it has learnt answers until it is fitted anew."""
    words, right = WORDS, ["ab", "ba", "ab", "ca"]
    fitted = EditDistanceClassifier().fit(words, right)
    before = fitted.kneighbors(words, 2)
    fitted.set_params(**{name: CLASSIFIER[name]})
    assert_identical(fitted.kneighbors(words, 2), before)
    if name != "prefit":
        fitted.fit(words, right)
        n_words = 1 if name == "dictionary" else 2
        assert not same_numbers(fitted.kneighbors(words, n_words), before)

"""Graphs of ONNX answer as the estimators do, and what has no graph says so."""

from datetime import date
from importlib.util import find_spec

import numpy as np
import pytest
from cases.estimator_cases import ESTIMATORS
from cases.sequence_cases import SEQUENCE_ESTIMATORS
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from sklearn_onlineem import (
    CategoricalMixture,
    GaussianHMM,
    GaussianMixture,
    Mixture,
    MultinomialHMM,
    MultinomialMixture,
    PoissonMixture,
)

HAS_ONNX = all(map(find_spec, ("skl2onnx", "onnxruntime")))
pytestmark = pytest.mark.skipif(not HAS_ONNX, reason="skl2onnx or onnxruntime is not installed")
if HAS_ONNX:
    import onnxruntime
    from skl2onnx import to_onnx
    from skl2onnx.common.exceptions import MissingShapeCalculator

    import sklearn_onlineem.interop.onnx  # noqa: F401

TOLERANCES = {np.float32: 1e-5, np.float64: 1e-9}
CASES = [*ESTIMATORS, *SEQUENCE_ESTIMATORS]
# Without a graph, those of some families or with durations, and those that skl2onnx does not know.
REFUSED = {"Mixture(GaussianRegression)", "HMM(exponential)"} | {
    "GaussianHMM(Poisson durations)", "PoissonHMM(durations, left-censored)",
    "CategoricalHMM(durations, absorbing)",
}  # fmt: skip
UNKNOWN = (
    "CompoundDirichletMixture", "ExponentialMixture", "GammaMixture", "LaplaceMixture",
    "MarkovChainMixture", "RegressionHMM", "WishartMixture",
)  # fmt: skip


def answers(estimator, X):
    """What onnxruntime makes of rows, by the names of the results."""
    graph = to_onnx(estimator, X[:1]).SerializeToString()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph, settings, ["CPUExecutionProvider"])
    names = [result.name for result in session.get_outputs()]
    (taken,) = session.get_inputs()
    return dict(zip(names, session.run(names, {taken.name: X}), strict=True))


def expected(estimator, X):
    if hasattr(estimator, "filter"):
        return {"filtered": estimator.filter(X)}
    found = estimator.predict(X), estimator.predict_proba(X), estimator.score_samples(X)
    return dict(zip(("label", "probabilities", "score_samples"), found, strict=True))


def check(estimator, X):
    """The answers of a graph are those of the estimator in double precision, in both precisions."""
    for dtype, tolerance in TOLERANCES.items():
        X = X.astype(dtype)
        found, wanted = answers(estimator, X), expected(estimator, X.astype(np.float64))
        assert found.keys() == wanted.keys()
        for name, values in found.items():
            assert values.dtype == (np.int64 if name == "label" else dtype)
            assert_allclose(values, wanted[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_graphs_answer_as_the_estimators_do(case, rng):
    X, _ = case.data(rng)
    estimator = case(solver="batch", max_iter=3, tol=0.0).fit(X)
    X = X if case in ESTIMATORS else np.concatenate(X)
    if repr(case) in REFUSED:
        with pytest.raises(NotImplementedError, match="ONNX: there is no graph of"):
            answers(estimator, X)
    elif repr(case).startswith(UNKNOWN):
        with pytest.raises(MissingShapeCalculator, match=type(estimator).__name__):
            answers(estimator, X)
    else:
        check(estimator, X)


def test_columns_of_several_families(rng):
    X = np.column_stack(
        [rng.normal(size=(200, 2)), rng.poisson(3.0, 200), rng.integers(3, size=200)]
    )
    family = {(0, 1): "gaussian_full", 2: "poisson", 3: "categorical"}
    check(Mixture(2, family=family, random_state=0).fit(X), X)


def test_rows_far_from_the_origin_lose_no_digits(rng):
    # In single precision the squares of these rows have no digit of their deviations.
    means = np.array([[3e5, 1e4], [3e5 + 8.0, 1e4]])
    X = (means[:, None] + rng.normal(size=(2, 50, 2))).reshape(-1, 2)
    for kind in ("full", "diag"):
        check(GaussianMixture(2, covariance_type=kind, random_state=0).fit(X), X)
    rates = {"weights": [0.5, 0.5], "means": [[1e4], [1e-3]]}
    check(PoissonMixture.from_parameters(**rates), np.array([[1e4], [0.0], [1e9], [0.5]]))


def test_impossible_and_unobserved_rows():
    gap = np.full(3, np.nan)
    words = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    chain = {"startprob": [1.0, 0.0], "transmat": [[0.5, 0.5], [0.0, 1.0]]}
    # What is not learnt may be impossible.
    hmm = MultinomialHMM.from_parameters(**chain, emissionprob=words, params="st")
    assert_array_equal(hmm.filter([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), [[1.0, 0.0], [0.0, 0.0]])
    check(hmm, np.array([[3.0, 0.0, 0.0], gap, [0.0, 1.0, 1.5], [0.0, 2.0, 0.0], gap]))
    check(hmm, np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    means = {"means": [[0.0], [5.0]], "covariances": [[[1.0]], [[1.0]]]}
    mixture = GaussianMixture.from_parameters(weights=[0.75, 0.25], **means)
    check(mixture, np.array([[0.0], [np.nan], [1e9]]))
    absent = GaussianMixture.from_parameters(weights=[1.0, 0.0], **means)
    check(absent, np.array([[0.0], [5.0]]))
    hmm = GaussianHMM.from_parameters(**chain, means=[[0.0], [5.0]], covars=[[1.0], [1.0]])
    check(hmm, np.array([[0.0], [np.nan], [4.0], [1e8], [0.0]]))
    counts = {"weights": [0.75, 0.25], "probabilities": words, "params": "w"}
    check(
        MultinomialMixture.from_parameters(**counts), np.array([[3.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    )
    codes = CategoricalMixture.from_parameters(weights=[0.5, 0.5], probabilities=[words])
    check(codes, np.array([[0.0], [2.0], [np.nan]]))


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_what_the_model_cannot_say_is_nan(dtype):
    codes = CategoricalMixture.from_parameters(weights=[0.5, 0.5], probabilities=[[[0.5, 0.5]] * 2])
    counts = PoissonMixture.from_parameters(weights=[0.5, 0.5], means=[[1.0], [2.0]])
    plane = GaussianMixture.from_parameters(
        weights=[0.5, 0.5], means=np.eye(2), covariances=[np.eye(2)] * 2
    )
    wrong = (
        (codes, [[1.0], [2.0], [-1.0], [0.5]]),
        (counts, [[1.0], [-1.0]]),
        (plane, [[1.0, 1.0], [1.0, np.nan]]),
    )
    for mixture, rows in wrong:
        found = answers(mixture, np.array(rows, dtype))
        assert_array_equal(found["label"][1:], -1)
        assert found["label"][0] >= 0 and np.isfinite(found["score_samples"][0])
        assert np.isnan(found["score_samples"][1:]).all()
        assert np.isnan(found["probabilities"][1:]).all()


def test_texts_are_numbered_in_a_pipeline():
    X = np.array([["red", "yes"], ["red", "yes"], ["blue", "no"], ["green", "no"]], dtype=object)
    mixture = CategoricalMixture(2, random_state=0)
    pipeline = make_pipeline(OrdinalEncoder(), mixture).fit(X)
    found = answers(pipeline, X)
    assert_array_equal(found["label"], pipeline.predict(X))
    assert_allclose(found["probabilities"], pipeline.predict_proba(X), atol=1e-6)
    for rows in (X, np.array([[1, 2], [3, 5]])):
        with pytest.raises(ValueError, match="CategoricalMixture has learnt the cat.* codes"):
            answers(mixture.fit(rows), rows)


@pytest.mark.parametrize("classes", [[1, 5, 9], ["a", "bb", "c"], [1.0, 4.0, 9.0]], ids=str)
def test_labels_are_those_that_were_learnt(classes, rng):
    X = rng.normal(size=(90, 2)) + 6.0 * np.eye(3)[np.arange(90) % 3, :2]
    mixture = GaussianMixture(3, semi_supervised=True).fit(X, np.array(classes)[np.arange(90) % 3])
    found = answers(mixture, np.vstack([X, [np.nan, 0.0]]))["label"]
    assert_array_equal(found[:-1], mixture.predict(X))
    assert found[-1] == ("" if isinstance(classes[0], str) else -1)


def test_what_has_no_graph_is_refused_by_name(rng):
    X = rng.normal(size=(700, 2))
    with pytest.raises(NotFittedError, match="GaussianMixture"):
        to_onnx(GaussianMixture(), X)
    mixture = GaussianMixture().fit(X)
    with pytest.raises(
        ValueError, match="GaussianMixture takes one array of 2 columns, got 1 of 1"
    ):
        to_onnx(mixture, X[:, :1])
    with pytest.raises(ValueError, match="GaussianMixture needs a target_opset of 18 or more"):
        to_onnx(mixture, X, target_opset=17)
    days = np.array([date(2026, 11, 1), date(2026, 11, 2)])
    mixture = GaussianMixture(2, semi_supervised=True).fit(X, days[(X[:, 0] > 0.0).astype(int)])
    with pytest.raises(
        ValueError, match="labels of GaussianMixture must be texts or whole numbers"
    ):
        to_onnx(mixture, X)
    several = GaussianMixture(2, solver="adaptive", random_state=0).partial_fit(X)
    with pytest.raises(
        NotImplementedError, match="no graph of GaussianMixture with several models"
    ):
        to_onnx(several, X)

"""What displays refuse: who complains, and of what."""

import numpy as np
import pytest
from cases.refusals import assert_refused_call, rows_of
from cases.streams import AT_ONCE
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_onlineem import (
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    PoissonMixture,
    combine_estimators,
    displays,
)
from sklearn_onlineem.displays.learning_curves import LearningCurve

X = load_iris().data
MIXTURE = GaussianMixture(3, random_state=0).fit(X)
SITES = [GaussianMixture(3, random_state=0).fit(X[i::3]) for i in range(3)]
NARROW = [GaussianMixture(3, random_state=0).fit(X[i::3, :2]) for i in range(3)]
SINGLE = [GaussianMixture(3, random_state=0).fit(X[i::3, :1]) for i in range(3)]
COUNTS = [PoissonMixture(3, random_state=0).fit(np.rint(X[i::3])) for i in range(3)]
MERGED = combine_estimators(SITES)
STREAM = PoissonMixture(2, solver=AT_ONCE, random_state=0)
STREAM.partial_fit(np.rint(X)).partial_fit(np.rint(X))
BATCH = PoissonMixture(2, solver="batch", random_state=0).fit(np.rint(X))
LDA = LatentDirichletAllocation(3, random_state=0, max_iter=3).fit(np.rint(np.hstack([X, X, X])))
EDIT = EditDistance().fit([("ab", "abb"), ("ab", "b")])
ROWS = np.random.default_rng(0).normal(size=(60, 2))
HMM = GaussianHMM(2, random_state=0).fit(ROWS)
KALMAN = KalmanFilter(1, max_iter=2, tol=0.0).fit(ROWS)
SEARCH = GridSearchCV(GaussianMixture(2), {"covariance_type": ["diag"]}, cv=3).fit(X)
BAND = np.array([[1.0], [2.0]]), np.array([[0.1], [0.1]])
FORECASTS = displays.ForecastDisplay([1.0, 2.5], predicted=BAND)
HALVES = np.full((2, 2), 0.5)

REFUSED = r"""
# Mixtures.
MixtureDisplay.from_estimator(KMeans(2).fit(X)) -> TypeError: can't show KMeans: it is no mixture
MixtureDisplay.from_estimator('mixture') -> TypeError: can't show str: it is no mixture
MixtureDisplay.from_estimator(HMM) -> TypeError: can't show GaussianHMM: it is no
MixtureDisplay.from_estimator(WishartMixture(1).fit(np.tile([2.0, 0.5, 0.5, 2.0], (3, 1)))) ->
    Wishart
MixtureDisplay.from_estimator(MarkovChainMixture(1).fit([np.array([[0], [1], [1]])])) -> MarkovChain
MixtureDisplay.from_estimator(MIXTURE, masses=1.0) ->
    masses must be numbers between 0 and 1, got 1.0
MixtureDisplay.from_estimator(MIXTURE, masses=()) -> masses
MixtureDisplay.from_estimator(MIXTURE, features=[0, 4]) -> no feature 4; there are 4
MixtureDisplay.from_estimator(MIXTURE, features='width') -> no feature 'width'
MixtureDisplay.from_estimator(MIXTURE, features=[0, 0]) -> each once
MixtureDisplay.from_estimator(MIXTURE, features=1.5) -> TypeError: got 1.5
MixtureDisplay.from_estimator(MIXTURE, features=[0, 1, 2]) -> must be one or two, got 3
MixtureDisplay.from_estimator(MIXTURE, max_rows=0) -> max_rows
MixtureDisplay.from_estimator(MIXTURE, X=X[:, :2]) -> GaussianMixture
MixtureDisplay.from_estimator(MIXTURE, features=0, masses=0.5) -> masses of MixtureDisplay.plot
MixtureDisplay.from_estimator(COUNTS[0], ax=axes(1)) -> must be 4 Axes, got 1
# Merges.
MergeDisplay.from_estimator(MERGED, [*SITES, GaussianMixture(3)]) -> NotFittedError: GaussianMixture
MergeDisplay.from_estimator(MERGED, 3) -> TypeError: sites must be a list
MergeDisplay.from_estimator(MERGED, []) -> as many, above 0, got \(0, 0, 0\)
MergeDisplay.from_estimator(MERGED, SITES, names=['one']) -> must be as many, .* got \(3, 3, 1\)
MergeDisplay.from_estimator(MERGED, NARROW) -> n_features_in_ of sites\[0\] must be 4, .* got 2
MergeDisplay.from_estimator(MERGED, SITES, features=[0]) -> sites must be two, got 1
MergeDisplay.from_estimator(combine_estimators(SINGLE), SINGLE) -> sites must be two, got 1
MergeDisplay.from_estimator(combine_estimators(COUNTS), COUNTS) -> Poisson components cannot be
MergeDisplay.from_estimator(MERGED, SITES, mass=0.0) -> masses
# Responsibilities.
ResponsibilityDisplay.from_predictions(each) for each in
    ([0.5, 0.5], np.empty((0, 2)), [[0.5, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]]) ->
    responsibilities must
ResponsibilityDisplay.from_estimator(each, X) for each in
    (KMeans(2).fit(X), make_pipeline(KMeans(2)).fit(X)) -> TypeError: it has no predict_proba
# Topics.
TopicsDisplay.from_estimator(LDA, feature_names=['one']) -> feature_names must be 12 names
TopicsDisplay.from_estimator(LDA, n_words=0) ->
    n_words of TopicsDisplay must be a whole number from 1 up
TopicsDisplay.from_estimator(LDA, topics=[3]) -> topics must be numbers of the 3 topics
TopicsDisplay.from_estimator(LDA, topics=[]) -> topics must be numbers
TopicsDisplay.from_estimator(LDA, ax=axes(2)) -> must be 3 Axes, got 2
TopicsDisplay([['a', 'b']], *each) for each in
    (([[0.5, 0.2], [0.1, 0.1]],), ([[0.5, 0.2]], [0.5, 0.5]), ([[0.5, 0.2]], None, [0, 1])) ->
    words and probabilities must be of one shape|shares must be of shape|numbers must be those of 1
TopicsDisplay.from_estimator(each) for each in (MIXTURE, PCA(2).fit(X)) ->
    TypeError: can't show (GaussianMixture|PCA): it has no topics
# Numbers of components.
ModelSelectionDisplay([1, 2]) -> at least one of bic, aic and score
ModelSelectionDisplay([1, 2], bic=[1.0, 2.0]) -> needs n_samples
ModelSelectionDisplay([1, 2], score=[1.0]) ->
    score of ModelSelectionDisplay must be of shape \(2,\)
ModelSelectionDisplay.from_estimator(GridSearchCV(GaussianMixture(), {'n_components': [1]})) ->
    NotFittedError: GridSearchCV
ModelSelectionDisplay.from_estimator(MIXTURE) ->
    TypeError: can't show GaussianMixture: it is no search
ModelSelectionDisplay.from_estimator([MIXTURE]) -> TypeError: can't show list: it is no search
ModelSelectionDisplay.from_estimator(SEARCH) -> did not search over one n_components
ModelSelectionDisplay.from_estimators([KMeans(2).fit(X)], X) ->
    TypeError: show KMeans: it needs bic
ModelSelectionDisplay.from_estimators([GaussianMixture(2)], X) -> NotFittedError: GaussianMixture
ModelSelectionDisplay.from_estimators([], X) -> from_estimators must not be empty
# Learning curves.
LearningCurveDisplay({}) -> one curve at least
LearningCurveDisplay({'a': LearningCurve.of([])}) ->
    'a' must be of shape \(n_updates,\), got \(0,\)
LearningCurveDisplay({'a': LearningCurve([10, 20, 10], [0.0, 0.0, 0.0])}) -> 'a' must rise
LearningCurveDisplay({'a': LearningCurve([10, 20], [0.0, 0.0], [1.0])}) -> eta of the curve 'a'
LearningCurveDisplay.from_estimator(STREAM, ax=axes(1), panels=['log_likelihood', 'eta']) ->
    must be 2 Axes, one for each panel, got 1
LearningCurveDisplay.from_estimator(STREAM, panels=['rate']) -> panels has 'rate'
LearningCurveDisplay.from_estimator(STREAM, window=0) -> window must be
LearningCurveDisplay.from_estimator(BATCH, panels=['eta']) -> 'eta': there is nothing to draw
# States.
StatePathDisplay.from_predictions([np.zeros((3, 1)), np.zeros((4, 1))], [0, 0, 0]) -> one sequence
StatePathDisplay.from_predictions(np.zeros((2, 3, 1)), [0, 0]) -> one sequence
StatePathDisplay.from_predictions(np.zeros((3, 1)), [0, 0]) -> states must be of shape
StatePathDisplay.from_predictions(np.zeros((3, 1)), each) for each in ([0, 0, -1], [0.0, 0.5, 1.0])
    -> whole numbers
StatePathDisplay([1.0, 2.0], [0, 2], posterior=HALVES) -> posterior must be of shape
StatePathDisplay([1.0, 2.0], [0, 1], names=['one']) -> names must be names of all 2 states
StatePathDisplay.from_estimator(HMM, ROWS, features=['height']) -> no feature 'height'
StatePathDisplay.from_estimator(HMM, ROWS, ax=axes(3)) -> ax must be 2 Axes at most
TransitionDisplay(each) for each in
    ([0.5, 0.5], [[0.5, 0.5]], [[0.7, 0.7], [0.5, 0.5]], [[1.5, -0.5], [0.0, 1.0]]) -> transmat must
TransitionDisplay(np.eye(2)).plot(threshold=0.5) -> require kind='graph'
TransitionDisplay(np.eye(2)).plot(kind='circle') -> kind must be
TransitionDisplay(np.eye(2)).plot(kind='graph', positions=[[0.0, 1.0]]) -> positions must be
TransitionDisplay(np.eye(2), names=['one']) -> names must be names of all 2 states
# Forecasts.
FORECASTS.plot(kinds=['smoothed']) -> kinds must be among .*, got \['smoothed'\]
ForecastDisplay([1.0], predicted=BAND) -> predicted must be of shape \(1, 1\), got \(2, 1\)
ForecastDisplay([1.0], forecast=displays.forecasts.QuantileBand(*BAND, BAND[0][:1])) ->
    forecast must be of shape \(2, 1\)
ForecastDisplay([1.0], forecast=displays.forecasts.QuantileBand(*BAND, BAND[0], 1.5)) ->
    mass must be
ForecastDisplay.from_estimator(HMM, ROWS).plot(mass=0.5) -> mass must be 0.95, .* got 0.5
ForecastDisplay.from_estimator(HMM, ROWS, mass=-1.0) -> mass must be
ForecastDisplay.from_estimator(CategoricalHMM(2).fit([[0], [1], [1]]), [[0], [1]]) -> quantiles
ForecastDisplay([1.0], imputed=[1.0]) -> imputed must be of shape
ForecastDisplay.from_estimator(KALMAN, ROWS, mass=1.0) -> mass must be
ForecastDisplay.from_estimator(KALMAN, ROWS, feature=2) -> no feature 2
ForecastDisplay.from_estimator(KALMAN, ROWS, kinds=['guessed']) -> kinds must .*, got \['guessed'\]
ForecastDisplay.from_estimator(KALMAN, ROWS, n_lags=60) -> n_lags must be
ForecastDisplay.from_estimator(KALMAN, ROWS, n_steps=-1) -> n_steps must be
# Components.
StructureDisplay([1.0], {}) -> components must not be empty
StructureDisplay([1.0], {'level': BAND}) -> components\['level'\] must be two arrays
StructureDisplay.from_estimator(KALMAN, ROWS) -> decompose requires a structure
StructureDisplay([1.0], {'level': [[1.0], [1.0]]}).plot(mass=1.0) -> mass must be
StructureDisplay([1.0], {'level': [[1.0], [1.0]]}).plot(feature=1) -> no feature 1
# Alignments.
AlignmentDisplay('abc', 'a', [('match', 'a', 'a'), ('delete', 'b', None)]) ->
    operations must lead to
AlignmentDisplay('ab', 'ba', [('swap', 'ab', 'ba')]) -> operations must be among .*, got \['swap'\]
AlignmentDisplay('a', 'a', [('match', 'a', 'a')], posterior=np.eye(3)) -> posterior must be of shape
AlignmentDisplay.from_estimator(EDIT, 'ab') -> target is required: EditDistance
"""
NAMES = {name: getattr(displays, name) for name in displays.__all__} | {
    "GridSearchCV": GridSearchCV, "KMeans": KMeans, "LearningCurve": LearningCurve, "PCA": PCA,
    "axes": lambda n: Figure().subplots(1, n), "make_pipeline": make_pipeline,
}  # fmt: skip


@pytest.mark.parametrize(("call", "words"), rows_of(REFUSED))
@pytest.mark.filterwarnings("ignore")
def test_displays_refuse_by_name(call, words):
    assert_refused_call(call, words, {**globals(), **NAMES})

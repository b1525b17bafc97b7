"""What common mistakes are told: who complains, of what, and what to do about it."""

import re
from functools import partial
from itertools import product

import dask.array
import numpy as np
import pytest
from cases.merged_cases import REPRESENTATIVES
from cases.refusals import assert_refused_call, rows_of
from scipy import sparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from sklearn_onlineem import (
    HMM,
    CategoricalHMM,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MixtureRegressor,
    PoissonHMM,
    PrequentialSearch,
    RegressionMixture,
    combine_estimators,
    em,
)
from sklearn_onlineem.diagnostics import (
    convergence_certificate,
    missing_information,
    standard_errors,
)
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em.stages.reinitialise import Reinitialise
from sklearn_onlineem.em.state import Step
from sklearn_onlineem.em.step import Sampled
from sklearn_onlineem.families.linear_gaussian import LinearGaussian

SOLVERS = ("Batch", "Componentwise", "Gibbs", "Newton", "SplitMerge", "BayesianOnline")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
COUNTS = RNG.poisson(3.0, size=(60, 4))
BITS = COUNTS[:, :1] % 2
SEQUENCES = [RNG.normal(size=(20, 2)) for _ in range(3)]
SYMBOLS = [RNG.integers(0, 4, size=(20, 1)) for _ in range(3)]


def with_value(value, rows=3):
    changed = X.copy()
    changed[rows, 1] = value
    return changed


def masked(*values):
    """An array of which the last value is masked."""
    return np.ma.masked_array(values, mask=[False] * (len(values) - 1) + [True])


def mixture(**parameters):
    return GaussianMixture(2, random_state=0, **parameters)


def chain(**parameters):
    return GaussianHMM(2, random_state=0, max_iter=2, tol=0, **parameters)


def symbols(**parameters):
    return CategoricalHMM(2, random_state=0, max_iter=2, tol=0, **parameters)


def system(**parameters):
    return KalmanFilter(2, max_iter=2, tol=0, **parameters)


def lines():
    return RegressionMixture(2, random_state=0).fit(Y, X[:, 1])


def series(*components, **parameters):
    return KalmanFilter(structure=[*components], **parameters)


def corrupt():
    """Rows of which one names a column that there is not."""
    found = sparse.csr_array(COUNTS)
    found.indices[0] = 9
    return found


def topics(**parameters):
    return LatentDirichletAllocation(2, random_state=0, max_iter=2, **parameters)


def shards(n_shards=4, **parameters):
    return DistributedEM(mixture(**parameters), n_shards=n_shards)


def search():
    return PrequentialSearch(mixture(), {"beta": [0.6]})


def regressor():
    return MixtureRegressor(mixture()).fit(X, X[:, 0])


def ahead():
    return mixture().partial_fit(X).partial_fit(X)


def segments(**parameters):
    return PoissonHMM(2, durations="poisson", max_duration=5, **parameters)


def rates(**parameters):
    return HMM(2, family="poisson", **parameters)


def merged(*members):
    return combine_estimators([member.partial_fit(COUNTS) for member in members])


PAIRS = [("ab", "ba"), ("a", "b")]
GAP = np.ma.masked_array(np.eye(2), mask=np.eye(2))
ELSEWHERE = dask.array.zeros(60, dtype=int, chunks=20)
PRIOR, CHAIN = (estimator.fit(X).as_prior(10.0) for estimator in (mixture(), chain()))
LEARN = "fit", "partial_fit"
FOUR = np.array([[True, False, True, True]] * 2)
DIAGNOSES = convergence_certificate, missing_information, standard_errors
MOVES = em.SplitMerge(), em.SplitMerge(n_components="fixed")
U, Y = X[:, 0], X[:, :1]
TWO, ANSWERS = (
    [[1.0], [2.0]],
    ("fit", "partial_fit", "log_density", "responsibilities", "bic", "score"),
)
PARTS = "initial", "transition", "observation"
START = dict(match=1, mismatch=1, delete=1, insert=1, end=1)

# Mistakes, and the words that their messages have to have: the name of what complains, of the
# argument, and something to go on with.
MISTAKES = r"""
# Calls in the wrong order.
mixture().predict(X) -> NotFittedError: GaussianMixture & fit
chain().score(X) -> NotFittedError: GaussianHMM & fit
EditDistance().distance('a', 'b') -> NotFittedError: EditDistance & fit
mixture().means_ -> AttributeError: GaussianMixture & not fitted
# The shape of X.
mixture().fit(X[:, 0]) ->
    GaussianMixture & X must be of shape .* got an array of shape \(60,\) & reshape\(-1, 1\)
mixture().fit([]) -> GaussianMixture & X .* \(0,\)
mixture().fit(None) -> GaussianMixture & X .* \(\)
chain().fit([]) -> GaussianHMM & X .* \(0,\)
mixture().fit(X[:0]) -> GaussianMixture & 0 sample
chain().fit([X, X[:0]]) -> GaussianHMM & Sequence 1 of X is empty
chain().fit([X, X[:, :1]]) -> GaussianHMM & Sequence 1 of X .* \(60, 1\) & 2 features
chain().fit([X[:, 0], each]) for each in (X[:5, 0], X[:, 1]) ->
    GaussianHMM & one dimension & reshape\(-1, 1\)
mixture().fit([[1.0, 2.0], [3.0]]) -> GaussianMixture & X has rows of several lengths
chain().fit(np.empty((0, 5, 2))) -> GaussianHMM & X has no sequences
mixture().fit(X).predict(X[:, :1]) -> GaussianMixture & 1 features & 2 features
system().partial_fit(X).partial_fit(X[:, :1]) -> KalmanFilter & 1 features & 2 features
WishartMixture(2).fit(X) -> WishartMixture & flattened square matrices
GaussianMixture(99).fit(X) ->
    GaussianMixture & n_components=99 & n_samples=60 & more rows & means_init
GaussianHMM(99).fit(X) -> GaussianHMM & n_components=99 & n_samples=60 & more rows
KalmanFilter(99).fit(X) -> KalmanFilter & n_dim_state=99 & n_samples=60 & more rows
mixture().partial_fit([{'heat': 1.0}, {'heat': 2.0}]) ->
    TypeError: GaussianMixture: X has a dict & DictVectorizer
chain().fit({'first': X, 'second': X}) ->
    TypeError: GaussianHMM: X is a dict & list\(X\.values\(\)\)
EditDistance().fit({'teh': 'the'}) ->
    EditDistance: Expected a list of pairs .* got dict & list\(\.\.\.\) of its items\(\)
# The values of X.
MultinomialMixture(2).fit(with_value(np.nan)) -> MultinomialMixture & X contains NaN & SimpleImputer
each(2).fit(np.full((5, 1), np.nan)) for each in (PoissonHMM, CategoricalHMM, MultinomialHMM) ->
    (Poisson|Categorical|Multinomial)HMM: X has nothing but NaN
chain().fit(with_value(np.inf)) -> GaussianHMM & X contains infinity
mixture().fit([['a', 'b'], ['c', 'd']]) -> GaussianMixture & X has strings & 'a' & OrdinalEncoder
symbols().fit(SYMBOLS).score(np.array([['a'], ['b']])) ->
    CategoricalHMM & such as 'a' & within PerSequence
mixture().fit(pd.DataFrame({'heat': [1.0, 2.0], 'site': ['north', 'south']})) ->
    GaussianMixture & such as 'north' & Leave such columns out
mixture().fit(pd.DataFrame({'heat': [1.0], 'day': pd.to_datetime(['2020-01-01'])})) ->
    TypeError: GaussianMixture & durations in column 'day' & seconds
mixture().fit(X + 1j) -> GaussianMixture & X is complex & real and imaginary
mixture().fit(sparse.csr_array(X)) -> TypeError: GaussianMixture & Sparse & toarray
PoissonMixture(2).fit(-COUNTS) -> PoissonMixture & Negative values
MultinomialMixture(2).fit(X) -> MultinomialMixture & Negative values
CompoundDirichlet().fit(X) -> CompoundDirichlet & Negative values
BernoulliMixture(2, binarize=None).fit(COUNTS) -> BernoulliMixture & between 0 and 1
symbols().fit(SYMBOLS).score([[['T'], ['A']], [['C'], ['G']]]) ->
    CategoricalHMM & X has strings & codes 0, 1, ...
symbols().fit([part + 0.5 for part in SYMBOLS]) -> CategoricalHMM & integer codes
symbols().partial_fit(SYMBOLS).partial_fit([[[7]]]) ->
    CategoricalHMM & integer codes in 0\.\.3 & n_features
mixture().fit(np.array([[10 ** 400, 1]], dtype=object)) ->
    GaussianMixture & X has numbers beyond the largest float
# Arguments that belong to X.
chain().fit(X, lengths=[20, 20]) -> GaussianHMM & lengths add up to 40 & 60 rows
chain().fit(X, lengths=[30.5, 29.5]) -> TypeError: GaussianHMM & lengths must be integers
mixture().fit(X, sample_weight=['a'] * 60) -> GaussianMixture: sample_weight:
chain().fit(SEQUENCES, sample_weight=[*'abc']) -> GaussianHMM: sample_weight:
chain().fit(SEQUENCES, sample_weight=[1, 2]) ->
    GaussianHMM: sample_weight must be of shape \(3,\); got \(2,\)
chain().fit(SEQUENCES, sample_weight=np.ones(60)) -> sample_weight must be of shape \(3,\); got
chain().fit(X, lengths=[20, 40], sample_weight=np.ones(3)) ->
    GaussianHMM: sample_weight must be of shape \(2,\), or \(60,\), equal in the rows of a sequence
chain().fit(X, lengths=[20, 40], sample_weight=np.arange(60) < 50) ->
    GaussianHMM: sample_weight differs between the rows of sequence 1
system().partial_fit(X, groups=np.arange(60) % 2, sample_weight=np.arange(60) % 3) ->
    KalmanFilter: sample_weight differs between the rows of sequence 0
chain().partial_fit(SEQUENCES, sample_weight=[1, 1, 2], continues=True) ->
    GaussianHMM: sample_weight must be 1 for a sequence that goes on & 2.0\]
system().partial_fit(X, continues=True).partial_fit(
    SEQUENCES, sample_weight=[0, 1, 1], continues=True) ->
    KalmanFilter: sample_weight must be 1 for a sequence that goes on & \[0.0
EditDistance().fit([('a', 'b')], sample_weight=[1, 2]) -> EditDistance: sample_weight
EditDistanceClassifier(EditDistance().fit([('a', 'b')]), prefit=True).fit(
    ['a'], ['b'], sample_weight=[2]) -> EditDistanceClassifier: with prefit=True & sample_weight
chain().fit(SEQUENCES, lengths=[20, 20, 20]) -> GaussianHMM & lengths and groups require a 2-D X
chain().fit(X, lengths=[60], groups=np.zeros(60)) -> GaussianHMM & either lengths or groups
chain().fit(X, groups=each) for each in (np.zeros(6), [0, 1], np.zeros((60, 1)), 0) ->
    GaussianHMM & groups must be of shape \(60,\)
chain().fit(X, lengths=each) for each in
    ([30, 0, 30], [30, -1, 31], [60, 0], [30, 1], [30, 1, 30], [2**62, 2**62, 60]) ->
    GaussianHMM & lengths
chain().fit(X, lengths=each) for each in ([30.0, 30.0], ['30', '30'], [True] * 60, [None]) ->
    TypeError: GaussianHMM & lengths must be integers
chain().fit(each, groups=np.zeros(60)) for each in (SEQUENCES, X.reshape(30, 2, 2)) ->
    GaussianHMM & lengths and groups require a 2-D X
chain().fit(X.reshape(30, 2, 2), lengths=[60]) -> GaussianHMM & lengths and groups require a 2-D X
chain().fit([X, X[0]]) -> GaussianHMM & Sequence 1 .*shape
chain().fit([X[:0]]) -> GaussianHMM & Sequence 0 .*empty
chain(semi_supervised=True).fit([X[:2], X[:3]], [0, 1]) -> GaussianHMM: X has 5 rows, and y 2
chain(semi_supervised=True).fit([X[:2], X[:3]], [[0, 1, 1], [0, 1]]) ->
    GaussianHMM: y\[0\] has 3 entries, and sequence 0 of X has 2
mixture().fit(X, sample_weight=-np.ones(60)) -> GaussianMixture & Negative values .* `sample_weight`
mixture().fit(X, sample_weight=np.ones(6)) -> GaussianMixture & sample_weight & \(60,\)
mixture().fit(X, sample_weight=np.zeros(60)) ->
    GaussianMixture & (?i)sample.weight & non-zero|above 0
mixture().fit(X, sample_weight=[10 ** 400] * 60) -> GaussianMixture & too large
# Topics.
topics().fit(COUNTS * 0.5) ->
    LatentDirichletAllocation & X must hold counts, whole numbers & e_step='map'
topics(e_step='map').fit(-COUNTS) ->
    LatentDirichletAllocation & Negative values in data & X must hold counts
topics().fit(COUNTS * 100000000.0) ->
    LatentDirichletAllocation & X has .* tokens in a row, beyond the 16777215 & e_step='map'
topics().fit(['some words', 'and more']) -> LatentDirichletAllocation & CountVectorizer
topics().partial_fit(COUNTS).partial_fit(COUNTS[:, :3]) ->
    LatentDirichletAllocation & 3 features & 4 features
topics(solver='gibbs').fit(COUNTS, sample_weight=np.arange(60.0)) ->
    LatentDirichletAllocation & sample_weight must be None
topics(semi_supervised=True).fit(COUNTS, np.ones((60, 3))) ->
    LatentDirichletAllocation & y must be of shape \(60, 2\) or \(60,\), got \(60, 3\)
topics(semi_supervised=True).fit(COUNTS, np.zeros((60, 2))) ->
    LatentDirichletAllocation & y allows no topic in row 0 & allow all
topics(n_sweeps=5).fit(COUNTS) -> burn_in of LatentDirichletAllocation & less than n_sweeps=5
topics().fit(COUNTS).bic(COUNTS) ->
    AttributeError: LatentDirichletAllocation has neither bic nor aic & perplexity
topics().fit(COUNTS).top_words(['a', 'b']) ->
    feature_names of LatentDirichletAllocation & 4 names & \(2,\)
# Parameters.
GaussianMixture(0).fit(X) -> 'n_components' parameter of GaussianMixture & \[1, inf\)
mixture(eta0=0).fit(X) -> 'eta0' parameter of GaussianMixture & 'auto'
mixture(beta=2).fit(X) -> 'beta' parameter of GaussianMixture & \[0.0, 1.0\]
mixture(schedule='cosine').fit(X) -> 'schedule' parameter of GaussianMixture & 'harmonic'
mixture(solver='em').fit(X) -> 'solver' parameter of GaussianMixture & 'batch'
mixture(n_jobs=0).fit(X) -> 'n_jobs' parameter of GaussianMixture & -1
HMM(2, family='gauss').fit(X) -> 'family' parameter of HMM & 'gaussian_full'
mixture().set_params(n_component=3) ->
    GaussianMixture has no parameter 'n_component' & 'n_components'
system(em_vars=['transitions']).fit(X) -> em_vars of KalmanFilter & transition_matrices
mixture(prior={'variance': 3.0}).fit(X) ->
    prior of GaussianMixture has the key 'variance' & degrees_of_freedom
mixture(means_init=np.zeros((3, 2))).fit(X) ->
    means_init of GaussianMixture & \(2, 2\), got shape \(3, 2\)
KalmanFilter(1, observation_matrices=[[1.0], [np.nan]]).fit(X) ->
    observation_matrices of KalmanFilter must be finite, got nan among them
mixture(solver=3).fit(X) ->
    'solver' parameter of GaussianMixture must be a str .* or a Solver of sklearn_onlineem.em
system(observation_covariance=-np.eye(2)).fit(X) ->
    observation_covariance of KalmanFilter & positive definite
mixture().partial_fit(X).set_params(n_components=3).partial_fit(X) ->
    GaussianMixture & n_components=2, but the parameter is now 3 & call fit again
chain(termination='end_state').partial_fit(X, continues=True) ->
    GaussianHMM & continues=True requires termination='given_length'
chain(termination='end_state', transmat_init=np.full((2, 2), 0.5)).fit(X) ->
    transmat_init of GaussianHMM leaves no room for the end & less than 1
chain(termination='end_state', transmat_init=[[0.5, 0.5, 0], [1, 0, 0]]).fit(X) ->
    transmat_init of GaussianHMM leaves no room for the end & above 0
GaussianHMM(2, n_iter=50) ->
    TypeError: ^GaussianHMM has no parameter 'n_iter': it is called 'max_iter' here
KalmanFilter(n_dim_state=2, n_dim_obs=1) ->
    TypeError: ^KalmanFilter has no parameter 'n_dim_obs': the data say
LatentDirichletAllocation(2, learning_method='online') ->
    TypeError: ^LatentDirichletAllocation has no parameter 'learning_method': .* 'solver'
GaussianMixture(n_component=2) ->
    TypeError: ^GaussianMixture has no parameter 'n_component'; did you mean 'n_components'
chain().set_params(min_covar=0.001) ->
    ^GaussianHMM has no parameter 'min_covar': it is called 'reg_covar' here
# Arguments of methods.
mixture().fit(X).sample(0) -> GaussianMixture & n_samples
chain().fit(X).sample(2.5) -> GaussianHMM & n_samples of .* must be a whole number
mixture().fit(X).sample(10 ** 30) -> n_samples of GaussianMixture & whole number from 1 up to
chain().fit(X).decode(X, algorithm='best') -> algorithm of GaussianHMM & 'viterbi'
each.sample(True) for each in
    (chain().fit(X), EditDistance().fit(PAIRS), mixture().fit(X), topics().fit(COUNTS)) ->
    n_samples of (GaussianHMM|EditDistance|GaussianMixture|LatentDirichletAllocation).*whole number
system().partial_fit(X, continues=np.ones(60)) -> continues of KalmanFilter must be a bool
chain().fit(X, weights=np.ones(60)) ->
    TypeError: ^GaussianHMM\.fit\(\) got an unexpected keyword argument 'weights' & arguments
    are \(X, y=None, \*, sample_weight=None, lengths=None, groups=None\)
mixture().fit(X).sample(5, 3) ->
    TypeError: ^GaussianMixture\.sample takes 1 by position, got 2 & arguments are \(n_samples=1\)
chain().fit(X).sample(5, random_state=3) ->
    TypeError: ^GaussianHMM\.sample does not take random_state, a parameter of the estimator
GaussianMixture(2, 'full') ->
    TypeError: ^GaussianMixture takes 1 by position, got 2: pass the others by name
system().fit(X).forecast(X, each) for each in (0, [20, 30], np.zeros(2)) ->
    n_steps of KalmanFilter must be a whole number
# Strings.
EditDistance().fit(['abc', 'abd']) ->
    EditDistance & a pair \(source, target\) as entry 0 of X, got str 'abc'
EditDistance().fit(['recieve', 'adress'], ['receive', 'address']) ->
    EditDistance & pairs by list\(zip\(sources, targets\)\)
EditDistance().fit([('a', 3)]) -> EditDistance & target of pair 0 of X, got int 3
EditDistance().fit([]) -> EditDistance & at least one pair
# Merging.
combine_estimators(mixture().fit(X)) -> TypeError: estimators must be a list & GaussianMixture
combine_estimators([mixture().fit(X)] * 2, weights=[1, 10 ** 400]) -> weights must be numbers
getattr(StreamPipeline([StandardScaler(), mixture()]), each)(X) for each in LEARN ->
    TypeError: StreamPipeline: steps must be a list of names and estimators, such as \[\('scaler'
# Names of other libraries.
system().em -> AttributeError: ^KalmanFilter has no attribute 'em': it is called 'fit' here
system().loglikelihood ->
    AttributeError: ^KalmanFilter has no attribute 'loglikelihood': it is called 'score' here
chain().fit(X).monitor_ -> AttributeError: ^GaussianHMM has no attribute 'monitor_': 'history_'
chain().fit(X).n_features ->
    AttributeError: ^GaussianHMM has no attribute 'n_features': it is called 'n_features_in_' here
# Lists of words, not pairs.
getattr(EditDistance().fit([('teh', 'the')]), each)(['teh'], ['the'])
    for each in ('distance', 'align') ->
    EditDistance: x and y are lists of unknown symbols, 'teh' the first & pairwise
# Estimators of estimators.
AnomalyDetector(mixture(), contamination=each).partial_fit(X) for each in (0.0, 0.6, 'auto') ->
    'contamination' parameter of AnomalyDetector
AnomalyDetector(mixture()).fit(X).set_params(contamination='auto').offset_ ->
    'contamination' parameter of AnomalyDetector
AnomalyDetector(mixture(), per_sequence='yes').fit(X) -> 'per_sequence' parameter of AnomalyDetector
AnomalyDetector(mixture(), per_sequence=True).fit(X) ->
    AnomalyDetector: per_sequence=True requires a hidden Markov model & got GaussianMixture
AnomalyDetector(chain(), per_sequence=True).fit([X]).predict([X], continues=True) ->
    AnomalyDetector: per_sequence=True requires whole sequences
AnomalyDetector(chain(), per_sequence=True).partial_fit([X], continues=True) ->
    AnomalyDetector: per_sequence=True requires whole sequences
AnomalyDetector(chain()).fit([X]).set_params(per_sequence=True).predict([X]) ->
    AnomalyDetector: per_sequence was False in the fit
AnomalyDetector(chain()).fit([X]).set_params(per_sequence=True).partial_fit([X]) ->
    AnomalyDetector: per_sequence was False in the fit
AnomalyDetector(chain()).offset_ -> AttributeError: AnomalyDetector has offset_ only once
AnomalyDetector(StandardScaler()).fit(X) -> 'estimator' parameter of AnomalyDetector
AnomalyDetector(mixture()).predict(X) -> NotFittedError: AnomalyDetector
AnomalyDetector(mixture()).fit(X, lengths=[30, 30]) -> TypeError: lengths
AnomalyDetector(chain(termination='end_state')).fit([X]).predict(X, continues=True) ->
    continues=True requires termination='given_length'
chain().fit(X).score_rows(X, continues='yes') -> continues of GaussianHMM must be a bool
MixtureRegressor(each).fit(X, X[:, 0]) for each in (PoissonMixture(2), StandardScaler(), 3) ->
    'mixture' parameter of MixtureRegressor
MixtureRegressor().predict(X) -> NotFittedError: MixtureRegressor
MixtureRegressor(mixture()).fit(sparse.csr_array(X), X[:, 0]) ->
    TypeError: MixtureRegressor: Sparse data
regressor().predict(sparse.csr_array(X)) -> TypeError: MixtureRegressor: Sparse data
regressor().predict(X, return_std='yes') -> return_std of MixtureRegressor.predict must be a bool
regressor().predict_interval(X, level=90) -> level of MixtureRegressor|MixtureRegressor: level
regressor().sample_y(X, 0) -> n_samples of MixtureRegressor
regressor().score_samples(X, X) -> MixtureRegressor: y has 2 targets
regressor().predict(np.full((1, 2), np.inf)) -> infinity
PerSequence(Normalizer()).fit(SEQUENCES).inverse_transform(SEQUENCES) ->
    TypeError: PerSequence: transformer has no inverse_transform
PerSequence(LinearDiscriminantAnalysis()).fit(SEQUENCES) ->
    PerSequence: LinearDiscriminantAnalysis requires y
PerSequence(FunctionTransformer()).partial_fit(SEQUENCES) ->
    TypeError: PerSequence: transformer has no partial_fit
DriftWatch(action=each) for each in ('start', None) ->
    action must be 'warn', 'restart', 'stop' or a function
DriftWatch(threshold=0.0) -> threshold must be a finite number above 0
DriftWatch(slack=-0.1) -> slack must be a finite number not below 0
DriftWatch(warm_up=each) for each in (1, 3.0) -> warm_up must be a whole number from 2 up
EarlyStopping([[1]], patience=each) for each in (0, True) -> patience must be
EarlyStopping([[1]], every=1.5) -> every must be
EarlyStopping([[1]], min_gain=-1.0) -> min_gain must be
# Mixtures of chains and of regressions.
RegressionMixture(3).fit(X[:2], X[:2, 0]) -> at least n_components=3 rows
MarkovChainMixture(2, n_symbols=10**9).fit(SYMBOLS) ->
    n_symbols of MarkovChainMixture is too large
MarkovChainMixture(2, n_symbols=3).fit(np.ones((4, 6))) ->
    n_symbols of MarkovChainMixture is 3, but X has 6
MarkovChainMixture(2, prior={'start_concentration': 2.0}).fit(np.eye(4)) ->
    start_concentration must be 1, got 2.0
# Topics and edit distances out of range.
topics(doc_topic_prior=each).fit(COUNTS) for each in (0.0, 1e21, 5e-324) -> doc_topic_prior
topics(topic_word_prior=each).partial_fit(COUNTS) for each in (-1.0, 1e21) -> topic_word_prior
topics(n_sweeps=2**31).fit(COUNTS) -> n_sweeps
topics(solver='newton').fit(COUNTS) -> solver
topics(e_step='exact').fit(COUNTS) -> e_step
topics(burn_in=20).partial_fit(COUNTS) -> burn_in.*n_sweeps=20
topics(total_samples=0.0).fit(COUNTS) -> total_samples
EditDistance(parametrization='three').fit(PAIRS) -> parametrization.* of EditDistance
EditDistance(kind='other').fit(PAIRS) -> kind.* of EditDistance
EditDistance(eta0=0.0).partial_fit(PAIRS) -> eta0.* of EditDistance
EditDistance(beta=2.0).fit(PAIRS) -> beta.* of EditDistance
EditDistance(operations_init=each).fit(PAIRS) for each in
    ({'match': 1.0}, {**START, 'mismatch': -1}, {**START, 'end': 0}) ->
    operations_init.* of EditDistance
EditDistance(operation_prior=each).partial_fit(PAIRS) for each in (0.5, {'swap': 2.0}, np.nan) ->
    operation_prior.* of EditDistance
EditDistance(alphabet=[]).fit(PAIRS) -> EditDistance & alphabet
EditDistance().fit(PAIRS).distance('a', 'b', kind='best') -> kind of EditDistance
EditDistance().fit(PAIRS).substitution_probabilities_ -> AttributeError: full
# Merging in rounds.
combine_estimators([mixture().fit(X), 'another']) -> TypeError: estimators\[1\] cannot be str
combine_estimators([mixture(), mixture().fit(X)]) ->
    NotFittedError: estimators\[0\], a GaussianMixture
combine_estimators([]) -> at least one
combine_estimators([mixture().fit(X)], method='best') -> method must be
combine_estimators([mixture().fit(X)], align='yes') ->
    align must be True, False or 'auto', got 'yes'
combine_estimators([ahead(), mixture().partial_fit(X)], base=ahead()) ->
    estimators\[1\].*has seen 60.*base has seen 120;
combine_estimators([mixture().fit(X)], base=chain().fit(X)) ->
    TypeError: base is GaussianHMM, and estimators.0. is Gaussian
# Shards.
shards().fit(X[:1], sample_weight=each) for each in ({'a': [1.0]}, 1.0, 'a') ->
    DistributedEM: sample_weight must be an array
shards().fit(X, sample_weight=np.ones(59)) -> DistributedEM: X has 60 entries, and sample_weight 59
shards().fit(X, sample_weight=np.where(np.arange(60) == 45, -1.0, 1.0)) ->
    DistributedEM: shard 3: .*sample_weight
DistributedEM(chain()).fit([X], inputs=[X]) -> TypeError: GaussianHMM takes no inputs
shards().fit(with_value(np.inf, 50)) -> DistributedEM: shard 3: .*infinity
shards().fit(with_value(np.inf, [5, 50])) -> DistributedEM: shard 0: .*infinity
shards(3).fit(np.where(np.arange(60)[:, None] // 20 == 1, np.nan, X)) ->
    DistributedEM: shard 1: nothing of it was observed
shards(n_init=2).fit(X) -> must have n_init=1, got .*, and solver='auto', got
DistributedEM(CompoundDirichlet(solver='newton'), mode=each).fit(COUNTS)
    for each in ('batch', 'synchronous', 'asynchronous') ->
    CompoundDirichlet must have n_init=1, got .*, and solver='auto', got
DistributedEM(CompoundDirichlet(solver=each)).fit(COUNTS)
    for each in (Online(inertia=Sampled(20)), Auto(online_passes=2)) ->
    CompoundDirichlet must have n_init=1, got .*, and solver='auto', got
each.fit(COUNTS) for each in [make(n_jobs=n) for make in (partial(DistributedEM, PoissonMixture()),
    PoissonMixture) for n in (10**400, -(10**400), 2**31, -(2**31) - 1)] ->
    n_jobs.* of (DistributedEM|PoissonMixture)
DistributedEM(topics(solver='gibbs')).fit(COUNTS) ->
    must have n_init=1, got .*, and solver='online', got
shards(tol=-1.0).fit(X) -> ^The 'tol' parameter of GaussianMixture
shards().fit(X, client='tcp://x') ->
    TypeError: client must be a distributed.Client or a SparkSession, got 'tcp://x'
shards().fit([dask.delayed(X)]) -> client
DistributedEM(BayesianGaussianMixture()).fit(X) ->
    TypeError: BayesianGaussianMixture: it is no mixture.*this library
# Streams.
search().partial_fit(X).partial_fit(X, sample_weight=np.ones(59)) ->
    inconsistent numbers of samples
search().partial_fit(X, lengths=[30, 30]) -> PrequentialSearch scores .* takes no lengths: pass
# Masks, and arrays that are elsewhere.
each.fit(X, lengths=masked(30, 30)) for each in (chain(), system()) ->
    GaussianHMM|KalmanFilter & lengths has masked
each.fit(X, groups=masked(*range(60))) for each in (chain(), system()) ->
    GaussianHMM|KalmanFilter & groups has masked
mixture(means_init=GAP).fit(X) -> means_init.*masked
mixture(init=GAP).fit(X) -> init.*masked
chain(means_init=GAP).fit(X) -> means_init.*masked
chain(transmat_init=GAP).fit(X) -> transmat_init.*masked
chain(startprob_init=GAP[0]).fit(X) -> startprob_init.*masked
chain(covars_init=GAP).fit(X) -> covars_init.*masked
system(transition_matrices=GAP).fit(X) -> transition_matrices.*masked
system(observation_covariance=GAP).fit(X) -> observation_covariance.*masked
mixture().fit(X, sample_weight=ELSEWHERE + 1.0) -> TypeError: sample_weight.* is a dask Array
mixture(semi_supervised=True).fit(X, ELSEWHERE) -> TypeError: y.* is a dask Array
chain().fit(X, lengths=ELSEWHERE[:2] + 30) -> TypeError: lengths.* is a dask Array
chain().fit(X, groups=ELSEWHERE) -> TypeError: groups.* is a dask Array
# Diagnostics.
each(mixture(), X) for each in DIAGNOSES -> NotFittedError: GaussianMixture
each(3, X) for each in DIAGNOSES -> TypeError: must be one of sklearn_onlineem .* got int
missing_information(each, X)
    for each in (BayesianGaussianMixture().fit(X), None, 'mixture', GaussianMixture) ->
    TypeError: of sklearn_onlineem
each(mixture().fit(X), X[:, :1]) for each in DIAGNOSES -> GaussianMixture & 1 features
each(topics().fit(COUNTS), COUNTS) for each in DIAGNOSES[:2] ->
    LatentDirichletAllocation & no exact E-step|must be a mixture
convergence_certificate(mixture().fit(X), X, lengths=[60]) -> TypeError: GaussianMixture.*lengths
standard_errors(mixture().fit(X), X, robust='yes') -> robust
standard_errors(chain().fit(X), X, robust=True) -> several observations
standard_errors(GaussianMixture().fit(X), X).intervals(each)
    for each in (0.0, 1.0, -1, 2, True, '95', np.nan, None) -> level
missing_information(mixture().fit(X), X, n_values=each) for each in (0, 1.5, True) -> n_values
missing_information(mixture().fit(X), X, tol=each) for each in (-1.0, 1.0, 'small', np.nan) -> tol
each(Mixture(2, family={0: 'gaussian', 1: 'categorical'}).fit(COUNTS[:, :2]), COUNTS[:, :2])
    for each in DIAGNOSES[1:] -> Mixture: The family must be one of .*, got Product
each(mixture(params={'weights': [True, False]}).fit(X), X) for each in DIAGNOSES[1:] ->
    GaussianMixture: .*all parameters learnt; params fixes
each(KalmanFilter(em_vars=[]).fit(X), X) for each in DIAGNOSES[1:] -> of which nothing is learnt
forecast_moments(chain().fit(X), X) -> TypeError: KalmanFilter, got GaussianHMM
forecast_moments(KalmanFilter(), X) -> NotFittedError: KalmanFilter
forecast_moments(KalmanFilter(em_vars=[]).fit(X), X, each) for each in (0, 1.5, True) ->
    n_steps of forecast_moments
forecast_moments(KalmanFilter(em_vars=[]).fit(X), COUNTS) -> KalmanFilter & 4 features
# Solvers.
GaussianMixture(3, solver=MOVES[1], weight_concentration_prior=0.5).fit(X) ->
    GaussianMixture: .*prior below 1 removes some
GaussianMixture(4, solver=MOVES[0], weight_concentration_prior=2.0).fit(X) ->
    GaussianMixture: .*leaves components without
SplitMerge(n_components='fixed', n_merges=3) -> n_components
chain(solver=each).fit(X) for each in MOVES -> GaussianHMM .* merged or split
system(solver=each).fit(X) for each in MOVES -> KalmanFilter .* merged or split
mixture(solver=each, semi_supervised=True).fit(X, np.arange(60) % 2) for each in MOVES ->
    GaussianMixture: labels
Online(stages=each) for each in ([Reinitialise()], (1,)) -> tuple of stages
Online(stages=(), start_rows=3) -> leave start_rows
each(skips_outliers='no') for each in (Online, BayesianOnline) -> skips_outliers
getattr(LaplaceMixture(solver='bayesian'), each)(X) for each in LEARN ->
    fixed size; those of LaplaceMixture
chain(solver=Gibbs()).fit(X) -> GaussianHMM has no collapsed Gibbs sampler
topics(solver=Gibbs(n_chains=2)).fit(COUNTS) -> LatentDirichletAllocation.*n_chains
topics(solver=Gibbs(n_draws=1)).fit(COUNTS) -> LatentDirichletAllocation.*n_draws
Forgetting(lambda t: each)(2) for each in (0.0, 1.5, np.nan, None, '0.5') ->
    factor\(2\) of Forgetting must be in \(0, 1\], got
# Priors and posteriors.
MultinomialMixture(2, prior='some').fit(COUNTS) -> prior
GaussianMixture().as_prior(1.0) -> NotFittedError: GaussianMixture
EditDistance().as_prior(1.0) -> AttributeError: as_prior
GaussianMixture().fit(X).as_prior(each) for each in (0.0, -1.0, np.inf, np.nan, 'many', None) ->
    GaussianMixture: weight must be
GammaMixture(prior={'pseudo_count': 2.0, 'mean_log': 0.1, 'mean': 1.5},
    solver=BayesianOnline('mean')).partial_fit(X ** 2) -> GammaMixture: .*posterior mean
KalmanFilter(prior={'observation': {'covariance': 1.0, 'degrees_of_freedom': 1.5}},
    solver=BayesianOnline('mean'), em_vars=['observation_covariance']).partial_fit(X) ->
    KalmanFilter: .*degrees_of_freedom
GammaMixture(solver='bayesian').partial_fit(X ** 2).score_samples(X ** 2, predictive=True) ->
    GammaMixture: .*closed form
PoissonMixture().fit(COUNTS).score_samples(COUNTS, predictive=True) ->
    PoissonMixture: .*running statistics: solver='bayesian'
PoissonMixture().fit(COUNTS).score_samples(COUNTS, predictive=each) for each in ('yes', 1, None) ->
    predictive of PoissonMixture.score_samples must be
GaussianMixture().to_sklearn() -> NotFittedError: GaussianMixture
mixture(solver='adaptive').partial_fit(np.tile(X, (12, 1))).to_sklearn() ->
    GaussianMixture.to_sklearn: .* several models
StudentTMixture().to_sklearn() -> AttributeError: StudentTMixture.* no attribute 'to_sklearn'
# What is learnt.
mixture(params='wx').fit(X) -> params of GaussianMixture has letters other than 'wmcp'
mixture(params={'colour': True}).fit(X) -> params of GaussianMixture has the key 'colour'
mixture(params={'means': [True]}).fit(X) -> must be True or False, or an array of booleans of shape
mixture(params={'means': [1.0, 0.0]}).fit(X) -> got shape .2,. of float64
mixture(params=3).fit(X) -> The 'params' parameter
mixture(covariance_type='diag', params={'means': np.ones((2, 3), bool)}).fit(X) ->
    mask of the means has 3 columns, but X has 2
# Mixtures in states, and regressions there.
GMMHMM(2, n_mix=0).fit(X) -> n_mix
GMMHMM(2, n_mix=2, weights_init=[[0.5, 0.6], [1.0, 0.0]]).fit(X) -> weights_init
GMMHMM(2, n_mix=2, means_init=np.zeros((2, 3, 2))).fit(X) -> means_init
GMMHMM(2, n_mix=2, covars_init=-np.ones((2, 2, 2))).fit(X) -> covars_init
GMMHMM(2, n_mix=2, weights_prior=np.zeros((2, 2))).fit(X) -> weights_prior
GMMHMM(2, n_mix=2, params={'means': np.ones((2, 3), bool)}).fit(X) -> params
MixtureOf('poisson') -> family must be a Family
MixtureOf(Poisson(), 1, tied=True) -> tied parts must be 2 or more
MixtureOf(Poisson(), each) for each in (0, 1.5, 2.0) -> n_mix must be
MixtureOf(Laplace()) -> Laplace has statistics that grow
GaussianHMM(2, n_mix=3) -> TypeError: GMMHMM
RegressionHMM(lags=each).fit(X, inputs=U) for each in (-1, 0.5) -> 'lags' parameter
RegressionHMM(lags=75).fit(X, inputs=U) -> lags=75
RegressionHMM(lags=1).fit(with_value(np.nan)) -> RegressionHMM: X has NaN in rows with other values
RegressionHMM().fit(X) -> RegressionHMM: inputs must be passed, or lags be 1
RegressionHMM(lags=3).partial_fit(X[:3], continues=True) -> pass more rows at first
RegressionHMM.from_parameters(lags=2, startprob=[1.0], transmat=[[1.0]], coef=np.ones((1, 2, 3)),
    intercept=np.zeros((1, 2)), covariances=[np.eye(2)]) ->
    coef must have 4 columns or more with lags=2
RegressionHMM(termination='end_state').fit([X], inputs=[U]).sample(inputs=U) ->
    inputs have lengths, and the model determines them
RegressionHMM(termination='end_state').fit([X], inputs=[U]).sample() ->
    inputs must be passed: the model has 1
RegressionHMM(response='gamma').fit(X, inputs=U) -> 'response' parameter of RegressionHMM
RegressionHMM(response=each, covariance_type='diag').fit(COUNTS, inputs=U)
    for each in ('bernoulli', 'poisson') ->
    covariance_type of RegressionHMM requires response='gaussian'
RegressionHMM(response=each, reg_covar=0.1).fit(COUNTS, inputs=U)
    for each in ('bernoulli', 'poisson') ->
    reg_covar of RegressionHMM requires response='gaussian'
RegressionHMM.from_parameters(response='poisson', lags=1, startprob=[1.0], transmat=[[1.0]],
    coef=[[[1.5]]], intercept=[[1.0]]).sample(100) -> RegressionHMM: rows that are drawn overflow
CategoricalHMM(2, emissionprob_init=np.full((2, 2), 0.5)).fit([[0], [2]]) -> CategoricalHMM.*0..1
# Durations of states.
getattr(PoissonHMM(2, durations='poisson'), each)(COUNTS) for each in LEARN ->
    durations of PoissonHMM require max_duration
PoissonHMM(2, max_duration=5).fit(COUNTS) -> max_duration of PoissonHMM requires durations
PoissonHMM(2, left_censored=True).fit(COUNTS) -> left_censored of PoissonHMM requires durations
PoissonHMM(2, durationprob_init=np.ones((2, 5)) / 5).fit(COUNTS) ->
    durationprob_init of PoissonHMM requires durations
chain(prior=each, durationprob_prior=2.0).partial_fit(X) for each in (None, CHAIN) ->
    durationprob_prior of .* requires durations
PoissonHMM(2, params={'durationprob': False}).fit(COUNTS) ->
    'durationprob' of params requires durations
PoissonHMM(2, durations='poisson', max_duration=each).fit(COUNTS) for each in (0, 2.5) ->
    max_duration
PoissonHMM(2, durations='geometric', max_duration=5).fit(COUNTS) -> durations
segments(durationprob_prior=0.5).fit(COUNTS) -> durationprob_prior of PoissonHMM must be at least 1
segments(durationprob_prior=np.ones((2, 4))).partial_fit(COUNTS) ->
    durationprob_prior of PoissonHMM must be .* of the shape
segments(durationprob_init=each).fit(COUNTS) for each in (np.ones((2, 4)) / 4, -np.ones((2, 5))) ->
    durationprob_init
segments(termination='absorbing_states', absorbing_states=[1],
    durationprob_init=np.full((2, 5), 0.2)).partial_fit(COUNTS) ->
    durationprob_init of PoissonHMM must be 1 for one row in absorbing states
segments(termination='end_state', transmat_init=[[0.5, 0.2], [0.3, 0.1]]).fit(COUNTS) ->
    transmat_init of PoissonHMM must be 0 on its diagonal
segments(transmat_init=[[0.9, 0.1], [0.1, 0.9]]).partial_fit(COUNTS) ->
    transmat_init of PoissonHMM must be 0 on its diagonal
# Families.
GaussianRegression(1, Tied()) -> do not share
LinearGaussian(Tied()) -> do not share .* got Tied\(\)
GaussianRegression(2).check(np.ones((3, 2))) -> columns of outputs after its n_inputs=2
each(1).check(np.full((3, 2), 0.5)) for each in (BernoulliRegression, PoissonRegression) ->
    Bits must be 0 or 1|Counts must be whole numbers
each(2).check(np.ones((3, 2))) for each in (BernoulliRegression, PoissonRegression) ->
    columns of (bits|counts) after
PoissonRegression(1).check(np.full((3, 2), each)) for each in (-1.0, 1e31, np.nan) ->
    Counts must be whole numbers
PoissonRegression(1, n_lags=1).check(np.array([[-1.0, 1.0]])) -> Lags of counts must not be below 0
PoissonRegression(2, n_lags=2).check(np.ones((3, 4))) ->
    n_lags=2 of 2 columns need as many inputs
BernoulliRegression(each) for each in (0, 1.5, None) -> n_inputs must be a whole number
PoissonRegression(2, n_lags=each) for each in (-1, 1.5, None) -> n_lags must be a whole number
Categorical(n_categories=each)
    for each in (0, 2.5, '3', (), (2, 0), (2, 2.0), {0: 3}, [[2], [3]], 1 << 21) ->
    n_categories must be whole numbers from 1 to 1048576
StudentT(degrees_of_freedom=each) for each in ('any', 0.0, 0.5, 1001.0, np.nan, None, [2.0, 3.0]) ->
    degrees_of_freedom
GaussianRegression(each) for each in (0, -1, 1.5, '2', None) -> ^n_inputs must be
# Members that do not match.
merged(mixture(), PoissonMixture(2)) ->
    TypeError: estimators\[1\] is PoissonMixture.*GaussianMixture
combine_estimators([PoissonMixture().fit(rows) for rows in (COUNTS, COUNTS[:, :3])]) ->
    estimators\[1\].*n_features_in_=3.*n_features_in_=4
merged(PoissonMixture(2), PoissonMixture(3)) -> estimators\[1\].*n_components=3.*n_components=2
merged(mixture(), mixture(covariance_type='diag')) -> covariance_type='diag'.*covariance_type='full'
merged(Mixture(2, family=Categorical(20)), Mixture(2, family=Categorical(30))) ->
    n_categories=30.*n_categories=20
combine_estimators([EditDistance().fit([(word, 'b')]) for word in ('ba', 'abc')]) ->
    symbols_=\['a', 'b', 'c'\].*symbols_=\['a', 'b'\]
combine_estimators([EditDistance(kind, alphabet='ab').fit(PAIRS) for kind in ('tied', 'full')]) ->
    parametrization='full'.*parametrization='tied'
merged(KalmanFilter(2), KalmanFilter(3)) -> KalmanFilter, has n_components=3.*n_components=2
merged(mixture(reg_covar=1e-3), mixture()) -> reg_covar='relative', and.*reg_covar=0.001
merged(rates(), rates(termination='end_state')) -> termination='end_state'.*='given_length'
merged(rates(), rates(params='st')) -> params='st', and.*params='ste'
merged(*(rates(termination='absorbing_states', absorbing_states=[k]) for k in (0, 1))) ->
    absorbing_states=\[1\], and.*absorbing_states=\[0\]
merged(*(mixture(params={'means': [k, not k]}) for k in (True, False))) ->
    params=\{'means': \[False, True\]\}, and.*params=\{'means': \[True, False\]\}
merged(mixture(), mixture(params={'means': [True, False]})) ->
    params=\{'means': \[True, False\]\}, and.*params='w
combine_estimators([PoissonMixture().fit(COUNTS)] * 2, each)
    for each in ([1.0, -1.0], [0.0, 0.0], [1.0, np.nan], [1.0, np.inf], [1.0], [[1.0, 1.0]]) ->
    weights must be
EditDistanceClassifier().fit(*each) for each in (([], []), (['a'], ['a', 'b'])) ->
    EditDistanceClassifier
EditDistanceClassifier(EditDistance(), prefit=True).fit(['a'], ['a']) ->
    NotFittedError: EditDistance
# Start values that do not add up, and searches.
getattr(PoissonMixture(2, weights_init=[0.5, 0.4]), each)(COUNTS) for each in LEARN ->
    weights_init of PoissonMixture.* sum of 0.9
mixture(weights_init=[5.0, 5.0]).fit(X) -> weights_init of GaussianMixture.* sum of 10
PoissonHMM(2, startprob_init=[0.5, 0.4]).fit(COUNTS) -> startprob_init of PoissonHMM.* sum of 0.9
getattr(PoissonHMM(2, transmat_init=[[0.5, 0.5], [0.5, 0.4]]), each)(COUNTS) for each in LEARN ->
    transmat_init of PoissonHMM.*add up to 1, got a sum of 0.9 in row 1
rates(termination='end_state', transmat_init=[[0.5, 0.6], [0.5, 0.4]]).fit(COUNTS) ->
    transmat_init of HMM.*at most 1, got a sum of 1.1 in row 0
search().set_params(estimator=StandardScaler).partial_fit(X) -> TypeError: estimator
getattr(search().set_params(param_grid={'n_components': 3}), each)(X) for each in LEARN ->
    TypeError: n_components
search().set_params(param_grid={'absent': [3]}).fit(X) -> absent
search().set_params(param_grid=[]).fit(X) -> param_grid of PrequentialSearch has no settings
search().set_params(batch_size=0).partial_fit(X) -> 'batch_size' parameter
search().set_params(n_jobs=0).partial_fit(X) -> 'n_jobs' parameter
topics().partial_fit(COUNTS).partial_fit(COUNTS * np.nan) -> LatentDirichletAllocation.*NaN
topics().fit(COUNTS).perplexity(np.eye(4)) -> two tokens
EditDistance().fit(np.ma.masked_array([['ab', 'b'], ['a', 'b']], [[0, 0], [0, 1]])) -> EditDistance
MarkovChainMixture(2).fit([*SYMBOLS, np.array([[each]])])
    for each in (-1, 0.5, 1e10, 1e300, 300, 4096) ->
    MarkovChainMixture: X has (the symbol|values whose squares)
PoissonMixture(3, weight_concentration_prior=each).fit(COUNTS)
    for each in ([1.0, 2.0], np.ones((3, 1)), [1.0, 2.0, np.nan], [1, 2, 'a']) ->
    weight_concentration_prior of PoissonMixture .*must be
PoissonMixture(2, weight_concentration_prior=-1.0, **each).fit(COUNTS)
    for each in ({'solver': 'gibbs', 'prior': {'shape': 1.0, 'rate': 1.0}},
    {'solver': BayesianOnline('mean')}) -> weight_concentration_prior
PoissonMixture(2, solver='gibbs', prior=each, weight_concentration_prior=1.0).fit(COUNTS)
    for each in (None, {'shape': 2.0}) -> PoissonMixture: .* rate is 0: set prior=
ExponentialMixture(2, solver='gibbs', prior=each, weight_concentration_prior=1.0).fit(COUNTS + 1.0)
    for each in (None, {'shape': 2.0}) -> ExponentialMixture: .* rate is 0: set prior=
StreamCertificate()(each) for each in (None, 3, (1.0, 2.0, 3.0, 4), Step('a', 0.0, 0.0, 3)) ->
    TypeError: step must be one of sklearn_onlineem.em
DriftWatch()(each) for each in (None, 3, (1.0, 2.0, 3.0, 4), Step(1, 2, 3, None)) ->
    TypeError: step must be one of sklearn_onlineem.em
# Callbacks of streams, levels and settings.
each[0](half_life=each[1]) for each in
    product((StreamCertificate, DriftWatch), (0, -1.0, np.nan, np.inf, '3', None, True)) ->
    half_life must be a finite number above 0
StreamCertificate().is_stationary(0) -> n_errors must be a finite number above 0
Restart(each) for each in (-1, 0.5, np.nan, '3', None) -> n_rows must be a whole number from 0 up
each[0].fit(X).forecast(X, quantiles=each[1]) for each in product((chain(), system()),
    (0.5, [], [0.0], [1.0], [np.nan], [[0.5]], ['a'], 5.0)) ->
    quantiles of (GaussianHMM|KalmanFilter)
each('diag') for each in (Gaussian, StudentT, partial(GaussianRegression, 1)) ->
    must be Full.*got 'diag'
Gibbs(**each) for each in ({'n_chains': 0}, {'n_draws': -1}, {'n_draws': 0.5}) -> n_(chains|draws)
each(2, solver=Gibbs()).fit(COUNTS + 1.0)
    for each in (LaplaceMixture, CompoundDirichletMixture, StudentTMixture) ->
    ^(Laplace|CompoundDirichlet|StudentT)Mixture: .* closed form
WishartMixture(2, solver=Gibbs()).fit([[1.0, 0.0, 0.0, 1.0]] * 9) -> WishartMixture: .* closed form
GammaMixture(2, solver=Gibbs(), prior={'pseudo_count': 2.0, 'mean_log': -0.5, 'mean': 1.0}).fit(
    X**2) -> GammaMixture: .* closed form
Online(sample=each) for each in (0, 9, 1.5, True) -> sample
EditDistance(solver=Online(sample=60)).partial_fit(PAIRS * 20) -> sample needs rows
# Structures of series.
series(*each).fit(Y) for each in ([], [1]) -> TypeError: KalmanFilter & must be a list of components
series(Level(), Level(fixed=True)).fit(Y) -> KalmanFilter & at most one Level
series(Season(4), Season(4, fixed=True)).fit(Y) -> KalmanFilter & different periods
series(Cycle(4), Cycle(4.0)).fit(Y) -> KalmanFilter & cycles of different periods
series(Level(), Inputs(), Inputs()).fit(Y) -> KalmanFilter & at most one Inputs
series(Inputs()).fit(Y) -> KalmanFilter & a component beside Inputs
series(Level(), Inputs()).fit(Y) -> KalmanFilter & and requires inputs
series(Level(), Season(100)).fit(Y) -> KalmanFilter & do not determine a diffuse start
series(Level(), n_dim_state=2).fit(Y) -> determines n_dim_state
series(Level(), em_vars=[]).fit(Y) -> determines em_vars
series(Level(), observation_matrices=1.0).fit(Y) -> determines observation_matrices
series(Level(), transition_covariance_type='spherical').fit(Y) ->
    transition_covariance_type='full' or 'diag'
series(Level()).fit(Y, inputs=U) -> must have Inputs\(\) where
KalmanFilter().fit(Y).decompose(Y) -> requires a structure
Season(each) for each in (1, 2.5, True) -> period
Cycle(each) for each in (2, 0.5, np.inf, np.nan, True, '12') -> period must be a number between 2
Cycle(damped=False) -> requires a period
Cycle(12, fixed=True) -> requires damped=False
# Inputs and priors of systems.
KalmanFilter(em_vars=['transition_input_weights']).fit(X) ->
    transition_input_weights of KalmanFilter is in em_vars
KalmanFilter(params={'observation_input_weights': True}).fit(X) ->
    observation_input_weights of KalmanFilter is in em_vars
KalmanFilter(transition_input_weights=[[1.0]]).fit(X) ->
    KalmanFilter: inputs must be passed: the model has 1
KalmanFilter(transition_input_weights=np.ones((1, 3))).fit(X, inputs=U) ->
    inputs have 1 columns, but 3 are expected
KalmanFilter(observation_input_weights=np.ones((3, 1))).fit(X, inputs=U) ->
    observation_input_weights of .* of shape \(2, 1\)
KalmanFilter(params={'transition_input_weights': np.eye(2, dtype=bool)}).fit(X, inputs=U) -> params
getattr(KalmanFilter(solver='stochastic'), each)(X, inputs=U) for each in LEARN ->
    states are not drawn where there are inputs
getattr(system().fit(X), each)(X, inputs=U) for each in ('score', 'filter', 'partial_fit') ->
    inputs have 1 columns, but 0 are expected
getattr(system(prior={each[0]: {each[1]: 5.0}}), each[2])(X)
    for each in product(PARTS[:1], ('matrix', 'matrix_precision'), LEARN) ->
    prior\['initial'\] of KalmanFilter: matrix.* inputs
getattr(system(prior={each[0]: {'matrix': np.nan}}), each[1])(X)
    for each in product(PARTS, LEARN) -> prior\['.*'\] of KalmanFilter.*matrix
getattr(system(prior={each[0]: {'matrix_precision': -1.0}}), each[1])(X)
    for each in product(PARTS, LEARN) -> prior\['.*'\] of KalmanFilter.*matrix_precision
getattr(system(prior={each[0]: {'offset': np.inf}}), each[1])(X)
    for each in product(PARTS, LEARN) -> prior\['.*'\] of KalmanFilter.*offset
getattr(system(prior={each[0]: {'offset_precision': each[1]}}), each[2])(X)
    for each in product(PARTS, (-1.0, np.nan), LEARN) ->
    prior\['.*'\] of KalmanFilter.*offset_precision
getattr(system(prior={each[0]: {'covariance': each[1]}}), each[2])(X)
    for each in product(PARTS, (-1.0, np.triu(np.ones((2, 2)))), LEARN) ->
    prior\['.*'\] of KalmanFilter.*covariance
getattr(system(prior={each[0]: {'degrees_of_freedom': each[1]}}), each[2])(X)
    for each in product(PARTS, (-50.0, np.nan), LEARN) ->
    prior\['.*'\] of KalmanFilter.*degrees_of_freedom
getattr(system(prior={each[0]: {'spread': 1.0}}), each[1])(X)
    for each in product(PARTS, LEARN) -> prior\['.*'\] of KalmanFilter.*spread
system(prior=each).fit(X) for each in ({'transitions': {}}, {'transition': 5.0}) ->
    prior.* of KalmanFilter
# Components that have no turns, and corrupt rows of streams.
chain(solver=em.Componentwise()).fit(X) -> GaussianHMM has no components that can be refreshed
EditDistance(solver=em.Componentwise()).fit(PAIRS) ->
    EditDistance has no components that can be refreshed
CompoundDirichlet(solver='componentwise').fit(COUNTS) -> 'solver' parameter of CompoundDirichlet
topics(solver='componentwise').fit(COUNTS) -> 'solver' parameter of LatentDirichletAllocation
mixture(solver='componentwise', params={'means': np.array([True, False])}).fit(X) ->
    GaussianMixture: componentwise EM learns all
StreamPipeline([('mixture', mixture())]).partial_fit(corrupt()) -> corrupt csr
StreamPipeline([('mixture', mixture())]).fit_stream([corrupt()]) -> corrupt csr
getattr(search(), each)(corrupt()) for each in LEARN -> corrupt csr
mixture(schedule=lambda t: each, batch_size=20).fit(X) for each in (None, '0.5', -1.0) ->
    GaussianMixture.*schedule
mixture(schedule=lambda t: each).partial_fit(np.tile(X, (12, 1))).partial_fit(X)
    for each in (None, '0.5', -1.0) -> GaussianMixture.*schedule
each[0].fit(X).sample(each[1]) for each in product(
    (GaussianMixture(), GaussianHMM(), KalmanFilter()), (2**63 - 1, 10**30, 10**16)) ->
    (GaussianMixture|GaussianHMM|KalmanFilter).* (too large|must be a whole number from 1 up to)
EditDistance().fit(PAIRS).sample(each) for each in (2**63 - 1, 10**30, 10**16) ->
    EditDistance.* (too large|must be a whole number from 1 up to)
each[0].fit(X).sample(3, n_sequences=each[1])
    for each in product((GaussianHMM(), KalmanFilter()), (2**63 - 1, 10**30, 10**16)) ->
    (GaussianHMM|KalmanFilter).* (too large|must be a whole number from 1 up to)
system().fit(X).filter_update(X[0]) -> KalmanFilter: .*both
KalmanFilter().live_filter() -> NotFittedError: KalmanFilter
PoissonHMM(max_iter=1).fit((X**2).round()).live_filter().update([-1.0, 0.0]) ->
    live_filter\(\).update: Negative values
HMM(family='gamma').fit(0.0 * X) -> HMM: .*zeros: replace them by .*GammaMixture
system().fit(X).live_filter().update(['a', 'b']) -> live_filter.*: a row must have numbers: .*'a'
system().fit(X).forecast(X, n_steps=each) for each in (2**63 - 1, 10**30, 10**16) ->
    n_steps (is too large|of KalmanFilter must be)
merged(system(), system(params={'observation_offsets': False})) ->
    has params=\{'observation_offsets': False\}
# Regressions.
RegressionHMM(response='bernoulli').fit(each, inputs=U) for each in (BITS + 0.5, BITS - 2.0) ->
    RegressionHMM: Bits must be 0 or 1
RegressionHMM(response='poisson').fit(each, inputs=U) for each in (BITS + 0.5, BITS - 2.0) ->
    RegressionHMM: Counts must be whole numbers from 0
getattr(RegressionHMM(response=each[0]).fit(BITS, inputs=U), each[1])(BITS + 0.5, inputs=U)
    for each in product(('bernoulli', 'poisson'), ('partial_fit', 'score', 'filter')) ->
    RegressionHMM: (Bits must be 0 or 1|Counts must be whole numbers from 0)
RegressionHMM(response=each).fit(BITS, inputs=U).covariances_
    for each in ('bernoulli', 'poisson') ->
    AttributeError: covariances_ requires response='gaussian'
getattr(lines(), each)([[np.nan], [1.0]], [1.0, 2.0]) for each in ANSWERS ->
    RegressionMixture & X contains NaN
getattr(lines(), each)(TWO, [1.0, np.nan]) for each in ANSWERS ->
    RegressionMixture & y contains NaN. Leave out rows
getattr(lines(), each)(TWO, [1.0, np.inf]) for each in ANSWERS ->
    RegressionMixture & y contains infinity
getattr(lines(), each)(TWO, [1.0, 1e200]) for each in ANSWERS ->
    RegressionMixture & y can't have values whose squares overflow
getattr(lines(), each)(TWO, [1.0]) for each in ANSWERS ->
    RegressionMixture & y must have a row for each
getattr(lines(), each)(TWO, np.ones((2, 1, 1))) for each in ANSWERS -> RegressionMixture & y
getattr(lines(), each)(TWO, np.ma.array([1.0, 2.0], mask=[True, False])) for each in ANSWERS ->
    RegressionMixture & y has masked
getattr(lines(), each)(TWO, ['a', 'b']) for each in ANSWERS -> RegressionMixture & y|convert
getattr(lines(), each)(TWO, None) for each in ANSWERS -> RegressionMixture & requires y to be passed
getattr(lines(), each)(TWO, np.ones((2, 2))) for each in ANSWERS[1:] ->
    RegressionMixture & y has 2 targets, but 1 are expected
getattr(lines(), each)([[1.0, 2.0]], [1.0]) for each in ANSWERS[1:] ->
    RegressionMixture & X has 2 features
# Start values and priors of states.
getattr(GaussianHMM(2, covariance_type=each[0]), each[1])(X * [1.0, np.nan])
    for each in product(('full', 'tied', 'diag', 'spherical'), LEARN) -> GaussianHMM: Feature 1
getattr(GaussianHMM(2, **each[0]), each[1])(X)
    for each in product(({'means_init': np.zeros((2, 3))}, {'covars_init': np.zeros((2, 2))},
    {'covars_init': np.ones((2, 3))}, {'covars_init': [np.ones((2, 2))] * 2,
    'covariance_type': 'full'}, {'prior': {'mean_precision': np.nan}},
    {'prior': {'degrees_of_freedom': -50.0}, 'covariance_type': 'full'},
    {'means_prior': [0.0, np.nan], 'means_weight': 1.0}, {'covars_prior': -np.eye(2)},
    {'startprob_prior': [np.inf, 1.0]}), LEARN) -> GaussianHMM
getattr(PoissonHMM(2, **each[0]), each[1])(COUNTS[:, :2])
    for each in product(({'lambdas_init': [[-1.0, 1.0], [1.0, 1.0]]},
    {'lambdas_init': [[1.0], [1.0]]}, {'prior': {'shape': np.nan}}), LEARN) -> PoissonHMM
getattr(HMM(2, family='exponential', prior=each[0]), each[1])(COUNTS)
    for each in product(({'rate': -1.0}, {'spread': 1.0}), LEARN) -> HMM
getattr(MultinomialHMM(2, **each[0]), each[1])(COUNTS[:, :2])
    for each in product(({'emissionprob_init': [[-1.0, 2.0], [0.5, 0.5]]},
    {'emissionprob_prior': [0.0, 1.0]}, {'emissionprob_prior': [np.nan, 1.0]},
    {'emissionprob_prior': [1.0, 1.0, 1.0]}), LEARN) -> MultinomialHMM
getattr(CategoricalHMM(2, n_features=3, emissionprob_init=np.ones((2, 4))), each)(SYMBOLS)
    for each in LEARN -> CategoricalHMM
# Priors that were learnt from other data.
GaussianMixture(3, prior=PRIOR).fit(X) -> n_components=2, but the estimator has 3
mixture(prior=PRIOR, covariance_type='diag').partial_fit(X) -> covariance_type
mixture(prior=PRIOR, means_init=X[:2]).fit(X) ->
    means_init .* cannot be combined with a LearntPrior
mixture(prior=PRIOR, init_params='random').partial_fit(X) -> init_params .* LearntPrior
chain(prior=CHAIN, startprob_init=[0.5, 0.5]).fit(X) -> startprob_init .* LearntPrior
chain(prior=CHAIN, transmat_init=np.eye(2)).partial_fit(X) -> transmat_init .* LearntPrior
mixture(prior=PRIOR).fit(X[:, :1]) -> X has 1 features.* from 2
getattr(each[0], each[1])(X)
    for each in product((chain(prior=PRIOR), system(prior=PRIOR)), LEARN) ->
    learnt by a GaussianMixture
system(prior=KalmanFilter().fit(X).as_prior(1.0)).fit(X) -> n_dim_state=1
StreamPipeline([('mixture', mixture())]).fit_stream(each)
    for each in (X, pd.DataFrame({'a': [1.0]}), {'a': [1.0]}, 'rows.csv') ->
    StreamPipeline.fit_stream.*must be an iterable of chunks, got a (ndarray|DataFrame|dict|str)
StreamPipeline([('mixture', mixture())]).fit_stream(3) ->
    TypeError: StreamPipeline.fit_stream.*must be an iterable of chunks, got a int
StreamPipeline([('mixture', mixture())]).fit_stream(each) for each in ([()], [(1, 2, 3, 4, 5)]) ->
    StreamPipeline.fit_stream.*has (0|5) parts
PoissonMixture(2, warm_start=True).fit(COUNTS).fit(COUNTS[:, :3]) -> PoissonMixture & 3 features
Mixture(2, family='categorical', warm_start=True).fit(COUNTS % 3).fit(COUNTS % 3 + 4) ->
    ^Mixture: .*codes in 0..2
PoissonMixture(2, warm_start=True).fit(COUNTS).set_params(n_components=3).fit(COUNTS) ->
    PoissonMixture.*n_components
CategoricalHMM(2, params={'emissionprob': FOUR}).fit(COUNTS[:, :2] % 2) ->
    CategoricalHMM.*masks of several columns.*n_features
CategoricalHMM(2, params={'emissionprob': FOUR}).fit(COUNTS[:, :1] % 2) ->
    CategoricalHMM.*mask of 4 probabilities.*has 2
CategoricalHMM(2, n_features=3, params={'emissionprob': FOUR}).fit(COUNTS[:, :1] % 2) ->
    CategoricalHMM.*mask of 4 probabilities.*n_features=3
# What is not cut into shards, and labels of topics.
DistributedEM(PoissonMixture(2)).fit(each) for each in
    (None, '', 'abc', b'abc', {'a': [1.0]}, {1.0}, 3, object(), np.array(None), iter([1.0])) ->
    DistributedEM: X must be an array
topics(semi_supervised=True).fit(COUNTS, each)
    for each in [np.full((60, 2), one) for one in (np.nan, 'a', 1j, None)] ->
    LatentDirichletAllocation.*y must hold numbers
topics(semi_supervised=True).fit(COUNTS, np.ma.masked_array(np.ones((60, 2)), True)) ->
    LatentDirichletAllocation.*mask
topics(semi_supervised=True).fit(COUNTS, np.full(60, 3)) -> LatentDirichletAllocation.*known comp
topics(semi_supervised=True).fit(COUNTS, np.zeros(59, int)) -> LatentDirichletAllocation.*rows
"""


OTHERS = {
    one.__name__: one
    for one in (
        BayesianGaussianMixture,
        FunctionTransformer,
        LinearDiscriminantAnalysis,
        LinearGaussian,
        Normalizer,
        Reinitialise,
        Sampled,
        StandardScaler,
        Step,
        partial,
        product,
    )
}


@pytest.mark.parametrize(("call", "words"), rows_of(MISTAKES))
@pytest.mark.filterwarnings("ignore")
def test_common_mistakes_are_told_who_complains_of_what_and_what_to_do(call, words):
    assert_refused_call(call, words, {**globals(), **OTHERS})


@pytest.mark.parametrize("case", REPRESENTATIVES, ids=repr)
@pytest.mark.filterwarnings("ignore")
def test_no_message_names_a_class_that_users_do_not_know(case, rng):
    data = case.data(rng, 30)[0]
    calls = [
        lambda solver=solver: case(solver=solver, max_iter=1).fit(data)
        for solver in (*(getattr(em, name)() for name in SOLVERS), 3)
    ]
    fitted = case(max_iter=1).partial_fit(data)
    calls += [lambda: standard_errors(fitted, data), lambda: convergence_certificate(fitted, data)]
    n_refused = 0
    for call in calls:
        try:
            call()
        except (AttributeError, ValueError, TypeError) as error:
            n_refused += 1
            assert not re.search(r"\w+Model\b|Transducer|sklearn_onlineem\.\w+\.\w", str(error))
    assert n_refused > 0

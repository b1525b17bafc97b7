"""What common mistakes are told: who complains, of what, and what to do about it."""

import re

import numpy as np
import pandas as pd
import pytest
from cases.merged_cases import REPRESENTATIVES
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import (
    HMM,
    BernoulliMixture,
    CategoricalHMM,
    CompoundDirichlet,
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MultinomialMixture,
    PoissonMixture,
    StreamPipeline,
    WishartMixture,
    combine_estimators,
    em,
)
from sklearn_onlineem.diagnostics import convergence_certificate, standard_errors

SOLVERS = ("Batch", "Componentwise", "Gibbs", "Newton", "SplitMerge", "BayesianOnline")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
COUNTS = RNG.poisson(3.0, size=(60, 4))
SEQUENCES = [RNG.normal(size=(20, 2)) for _ in range(3)]
SYMBOLS = [RNG.integers(0, 4, size=(20, 1)) for _ in range(3)]


def with_value(value):
    changed = X.copy()
    changed[3, 1] = value
    return changed


def mixture(**parameters):
    return GaussianMixture(2, random_state=0, **parameters)


def chain(**parameters):
    return GaussianHMM(2, random_state=0, max_iter=2, tol=0, **parameters)


def symbols(**parameters):
    return CategoricalHMM(2, random_state=0, max_iter=2, tol=0, **parameters)


def system(**parameters):
    return KalmanFilter(2, max_iter=2, tol=0, **parameters)


def topics(**parameters):
    return LatentDirichletAllocation(2, random_state=0, max_iter=2, **parameters)


# A mistake, and the words that its message has to have: the name of what complains, of the
# argument, and something to go on with. Its error is a ValueError if it is not said which.
MISTAKES = {
    # What is done in the wrong order.
    "predict before fit": (lambda: mixture().predict(X), "GaussianMixture & fit", NotFittedError),
    "score before fit": (lambda: chain().score(X), "GaussianHMM & fit", NotFittedError),
    "distance before fit": (
        lambda: EditDistance().distance("a", "b"),
        "EditDistance & fit",
        NotFittedError,
    ),
    "an attribute before fit": (
        lambda: mixture().means_,
        "GaussianMixture & not fitted",
        AttributeError,
    ),
    # The shape of X.
    "one dimension": (
        lambda: mixture().fit(X[:, 0]),
        r"GaussianMixture & X must be of shape .* got an array of shape \(60,\) & "
        r"reshape\(-1, 1\)",
    ),
    "nothing": (lambda: mixture().fit([]), r"GaussianMixture & X .* \(0,\)"),
    "None": (lambda: mixture().fit(None), r"GaussianMixture & X .* \(\)"),
    "no sequences": (lambda: chain().fit([]), r"GaussianHMM & X .* \(0,\)"),
    "no rows": (lambda: mixture().fit(X[:0]), "GaussianMixture & 0 sample"),
    "an empty sequence": (
        lambda: chain().fit([X, X[:0]]),
        "GaussianHMM & Sequence 1 of X is empty",
    ),
    "sequences of several widths": (
        lambda: chain().fit([X, X[:, :1]]),
        r"GaussianHMM & Sequence 1 of X .* \(60, 1\) & 2 features",
    ),
    "sequences of one dimension": (
        lambda: chain().fit([X[:, 0], X[:5, 0]]),
        r"GaussianHMM & one dimension & reshape\(-1, 1\)",
    ),
    "sequences of one dimension and one length": (
        lambda: chain().fit([X[:, 0], X[:, 1]]),
        r"GaussianHMM & one dimension & reshape\(-1, 1\)",
    ),
    "rows of several lengths": (
        lambda: mixture().fit([[1.0, 2.0], [3.0]]),
        "GaussianMixture & X has rows of several lengths",
    ),
    "a list of nothing": (
        lambda: chain().fit(np.empty((0, 5, 2))),
        "GaussianHMM & X has no sequences",
    ),
    "another width": (
        lambda: mixture().fit(X).predict(X[:, :1]),
        "GaussianMixture & 1 features & 2 features",
    ),
    "another width in a stream": (
        lambda: system().partial_fit(X).partial_fit(X[:, :1]),
        "KalmanFilter & 1 features & 2 features",
    ),
    "vectors for matrices": (
        lambda: WishartMixture(2).fit(X),
        "WishartMixture & flattened square matrices",
    ),
    "more components than rows": (
        lambda: GaussianMixture(99).fit(X),
        "GaussianMixture & n_components=99 & n_samples=60 & more rows & means_init",
    ),
    "more states than rows": (
        lambda: GaussianHMM(99).fit(X),
        "GaussianHMM & n_components=99 & n_samples=60 & more rows",
    ),
    "more dimensions than rows": (
        lambda: KalmanFilter(99).fit(X),
        "KalmanFilter & n_dim_state=99 & n_samples=60 & more rows",
    ),
    "a list of dicts": (
        lambda: mixture().partial_fit([{"heat": 1.0}, {"heat": 2.0}]),
        "GaussianMixture: X has a dict & DictVectorizer",
        TypeError,
    ),
    "a dict of sequences": (
        lambda: chain().fit({"first": X, "second": X}),
        r"GaussianHMM: X is a dict & list\(X\.values\(\)\)",
        TypeError,
    ),
    "a dict of strings": (
        lambda: EditDistance().fit({"teh": "the"}),
        r"EditDistance: Expected a list of pairs .* got dict & "
        r"list\(\.\.\.\) of its items\(\)",
    ),
    # The values of X.
    "NaN": (
        lambda: MultinomialMixture(2).fit(with_value(np.nan)),
        "MultinomialMixture & X contains NaN & SimpleImputer",
    ),
    "infinity": (lambda: chain().fit(with_value(np.inf)), "GaussianHMM & X contains infinity"),
    "words": (
        lambda: mixture().fit([["a", "b"], ["c", "d"]]),
        "GaussianMixture & X has strings & 'a' & OrdinalEncoder",
    ),
    "symbols of NumPy": (
        lambda: symbols().fit(np.array([["a"], ["b"]])),
        "CategoricalHMM & such as 'a' & within PerSequence",
    ),
    "a column of names": (
        lambda: mixture().fit(pd.DataFrame({"heat": [1.0, 2.0], "site": ["north", "south"]})),
        "GaussianMixture & such as 'north' & Leave such columns out",
    ),
    "a column of times": (
        lambda: mixture().fit(pd.DataFrame({"heat": [1.0], "day": pd.to_datetime(["2020-01-01"])})),
        "GaussianMixture & durations in column 'day' & seconds",
        TypeError,
    ),
    "complex numbers": (
        lambda: mixture().fit(X + 1j),
        "GaussianMixture & X is complex & real and imaginary",
    ),
    "sparse rows": (
        lambda: mixture().fit(sparse.csr_array(X)),
        "GaussianMixture & Sparse & toarray",
        TypeError,
    ),
    "negative counts": (lambda: PoissonMixture(2).fit(-COUNTS), "PoissonMixture & Negative values"),
    "measurements for counts": (
        lambda: MultinomialMixture(2).fit(X),
        "MultinomialMixture & Negative values",
    ),
    "measurements for words": (
        lambda: CompoundDirichlet().fit(X),
        "CompoundDirichlet & Negative values",
    ),
    "counts for bits": (
        lambda: BernoulliMixture(2, binarize=None).fit(COUNTS),
        "BernoulliMixture & between 0 and 1",
    ),
    "letters for symbols": (
        lambda: symbols().fit([[["T"], ["A"]], [["C"], ["G"]]]),
        "CategoricalHMM & X has strings & codes 0, 1, ...",
    ),
    "fractions for symbols": (
        lambda: symbols().fit([part + 0.5 for part in SYMBOLS]),
        "CategoricalHMM & integer codes",
    ),
    "a new symbol in a stream": (
        lambda: symbols().partial_fit(SYMBOLS).partial_fit([[[7]]]),
        r"CategoricalHMM & integer codes in 0\.\.3 & n_features",
    ),
    "numbers of many digits": (
        lambda: mixture().fit(np.array([[10**400, 1]], dtype=object)),
        "GaussianMixture & X has numbers beyond the largest float",
    ),
    # What belongs to X.
    "lengths that do not add up": (
        lambda: chain().fit(X, lengths=[20, 20]),
        "GaussianHMM & lengths add up to 40 & 60 rows",
    ),
    "lengths that are no integers": (
        lambda: chain().fit(X, lengths=[30.5, 29.5]),
        "GaussianHMM & lengths must be integers",
        TypeError,
    ),
    "lengths of a list": (
        lambda: chain().fit(SEQUENCES, lengths=[20, 20, 20]),
        "GaussianHMM & lengths and groups require a 2-D X",
    ),
    "lengths and groups": (
        lambda: chain().fit(X, lengths=[60], groups=np.zeros(60)),
        "GaussianHMM & either lengths or groups",
    ),
    "too few groups": (
        lambda: chain().fit(X, groups=np.zeros(6)),
        r"GaussianHMM & groups must be of shape \(60,\)",
    ),
    "a negative weight": (
        lambda: mixture().fit(X, sample_weight=-np.ones(60)),
        "GaussianMixture & Negative values .* `sample_weight`",
    ),
    "too few weights": (
        lambda: mixture().fit(X, sample_weight=np.ones(6)),
        r"GaussianMixture & sample_weight & \(60,\)",
    ),
    "weights of 0": (
        lambda: mixture().fit(X, sample_weight=np.zeros(60)),
        "GaussianMixture & (?i)sample.weight & non-zero|above 0",
    ),
    "a weight of many digits": (
        lambda: mixture().fit(X, sample_weight=[10**400] * 60),
        "GaussianMixture & too large",
    ),
    # Topics.
    "fractions where topics are drawn": (
        lambda: topics().fit(COUNTS * 0.5),
        "LatentDirichletAllocation & X must hold counts, whole numbers & e_step='map'",
    ),
    "negative counts of words": (
        lambda: topics(e_step="map").fit(-COUNTS),
        "LatentDirichletAllocation & Negative values in data & X must hold counts",
    ),
    "documents that are too long to draw": (
        lambda: topics().fit(COUNTS * 1e8),
        "LatentDirichletAllocation & X has .* tokens in a row, beyond the 16777215 & e_step='map'",
    ),
    "texts for counts": (
        lambda: topics().fit(["some words", "and more"]),
        "LatentDirichletAllocation & CountVectorizer",
    ),
    "a new vocabulary in a stream": (
        lambda: topics().partial_fit(COUNTS).partial_fit(COUNTS[:, :3]),
        "LatentDirichletAllocation & 3 features & 4 features",
    ),
    "weights of documents that are drawn together": (
        lambda: topics(solver="gibbs").fit(COUNTS, sample_weight=np.arange(60.0)),
        "LatentDirichletAllocation & sample_weight must be None",
    ),
    "topics of another number": (
        lambda: topics(semi_supervised=True).fit(COUNTS, np.ones((60, 3))),
        r"LatentDirichletAllocation & "
        r"y must be of shape \(60, 2\) or \(60,\), got \(60, 3\)",
    ),
    "no topic": (
        lambda: topics(semi_supervised=True).fit(COUNTS, np.zeros((60, 2))),
        "LatentDirichletAllocation & y allows no topic in row 0 & allow all",
    ),
    "sweeps that are all discarded": (
        lambda: topics(n_sweeps=5).fit(COUNTS),
        "burn_in of LatentDirichletAllocation & less than n_sweeps=5",
    ),
    "a criterion of a bound": (
        lambda: topics().fit(COUNTS).bic(COUNTS),
        "LatentDirichletAllocation has neither bic nor aic & perplexity",
        AttributeError,
    ),
    "a vocabulary of another length": (
        lambda: topics().fit(COUNTS).top_words(["a", "b"]),
        r"feature_names of LatentDirichletAllocation & 4 names & \(2,\)",
    ),
    # Parameters.
    "no components": (
        lambda: GaussianMixture(0).fit(X),
        r"'n_components' parameter of GaussianMixture & \[1, inf\)",
    ),
    "no learning rate": (
        lambda: mixture(eta0=0).fit(X),
        "'eta0' parameter of GaussianMixture & 'auto'",
    ),
    "a decay above 1": (
        lambda: mixture(beta=2).fit(X),
        r"'beta' parameter of GaussianMixture & \[0.0, 1.0\]",
    ),
    "an unknown schedule": (
        lambda: mixture(schedule="cosine").fit(X),
        "'schedule' parameter of GaussianMixture & 'harmonic'",
    ),
    "an unknown solver": (
        lambda: mixture(solver="em").fit(X),
        "'solver' parameter of GaussianMixture & 'batch'",
    ),
    "no threads": (lambda: mixture(n_jobs=0).fit(X), "'n_jobs' parameter of GaussianMixture & -1"),
    "an unknown family": (
        lambda: HMM(2, family="gauss").fit(X),
        "'family' parameter of HMM & 'gaussian_full'",
    ),
    "an unknown parameter": (
        lambda: mixture().set_params(n_component=3),
        "GaussianMixture has no parameter 'n_component' & 'n_components'",
    ),
    "an unknown part to learn": (
        lambda: system(em_vars=["transitions"]).fit(X),
        "em_vars of KalmanFilter & transition_matrices",
    ),
    "an unknown key of a prior": (
        lambda: mixture(prior={"variance": 3.0}).fit(X),
        "prior of GaussianMixture has the key 'variance' & degrees_of_freedom",
    ),
    "start values of another shape": (
        lambda: mixture(means_init=np.zeros((3, 2))).fit(X),
        r"means_init of GaussianMixture & \(2, 2\), got shape \(3, 2\)",
    ),
    "start values that are no numbers": (
        lambda: KalmanFilter(1, observation_matrices=[[1.0], [np.nan]]).fit(X),
        "observation_matrices of KalmanFilter must be finite, got nan among them",
    ),
    "no solver": (
        lambda: mixture(solver=3).fit(X),
        "'solver' parameter of GaussianMixture must be a str .* or a Solver of sklearn_onlineem.em",
    ),
    **{
        f"steps without names in {learn.__name__}": (
            lambda learn=learn: learn(StreamPipeline([StandardScaler(), mixture()]), X),
            r"StreamPipeline: steps must be a list of names and estimators, such as \[\('scaler'",
            TypeError,
        )
        for learn in (StreamPipeline.fit, StreamPipeline.partial_fit)
    },
    **{
        f"another library's {name}": (
            lambda name=name, fitted=fitted: getattr(fitted(), name),
            f"^{who} has no attribute '{name}': {cure}",
            AttributeError,
        )
        for who, name, fitted, cure in (
            ("KalmanFilter", "em", lambda: system(), "it is called 'fit' here"),
            ("KalmanFilter", "loglikelihood", lambda: system(), "it is called 'score' here"),
            ("GaussianHMM", "monitor_", lambda: chain().fit(X), "'history_'"),
            ("GaussianHMM", "n_features", lambda: chain().fit(X), "it is called 'n_features_in_'"),
        )
    },
    "a matrix that is no covariance": (
        lambda: system(observation_covariance=-np.eye(2)).fit(X),
        "observation_covariance of KalmanFilter & positive definite",
    ),
    "the parameters of a model that is fitted": (
        lambda: mixture().partial_fit(X).set_params(n_components=3).partial_fit(X),
        "GaussianMixture & n_components=2, but the parameter is now 3 & call fit again",
    ),
    "pieces of sequences that end": (
        lambda: chain(termination="end_state").partial_fit(X, continues=True),
        "GaussianHMM & continues=True requires termination='given_length'",
    ),
    "transitions that never end": (
        lambda: chain(termination="end_state", transmat_init=np.full((2, 2), 0.5)).fit(X),
        "transmat_init of GaussianHMM leaves no room for the end & less than 1",
    ),
    "an end that is never reached": (
        lambda: chain(termination="end_state", transmat_init=[[0.5, 0.5, 0], [1, 0, 0]]).fit(X),
        "transmat_init of GaussianHMM leaves no room for the end & above 0",
    ),
    "hmmlearn's name of a parameter": (
        lambda: GaussianHMM(2, n_iter=50),
        "^GaussianHMM has no parameter 'n_iter': it is called 'max_iter' here",
        TypeError,
    ),
    "pykalman's name of a parameter": (
        lambda: KalmanFilter(n_dim_state=2, n_dim_obs=1),
        "^KalmanFilter has no parameter 'n_dim_obs': the data say",
        TypeError,
    ),
    "scikit-learn's name of a parameter": (
        lambda: LatentDirichletAllocation(2, learning_method="online"),
        "^LatentDirichletAllocation has no parameter 'learning_method': .* 'solver'",
        TypeError,
    ),
    "a parameter that was misspelt": (
        lambda: GaussianMixture(n_component=2),
        "^GaussianMixture has no parameter 'n_component'; did you mean 'n_components'",
        TypeError,
    ),
    "another library's name of a parameter that is set": (
        lambda: chain().set_params(min_covar=1e-3),
        "^GaussianHMM has no parameter 'min_covar': it is called 'reg_covar' here",
    ),
    # Arguments of methods.
    "no samples": (lambda: mixture().fit(X).sample(0), "GaussianMixture & n_samples"),
    "half a sample": (
        lambda: chain().fit(X).sample(2.5),
        "GaussianHMM & n_samples of .* must be a whole number",
    ),
    "more samples than there are numbers": (
        lambda: mixture().fit(X).sample(10**30),
        "n_samples of GaussianMixture & whole number from 1 up to",
    ),
    "an unknown algorithm": (
        lambda: chain().fit(X).decode(X, algorithm="best"),
        "algorithm of GaussianHMM & 'viterbi'",
    ),
    "a truth value for a number": (
        lambda: chain().fit(X).sample(True),
        "n_samples of GaussianHMM & whole number",
    ),
    "a truth value for a number of pairs": (
        lambda: EditDistance().fit([("a", "b")]).sample(True),
        "n_samples of EditDistance & whole number",
    ),
    "an array for a truth value": (
        lambda: system().partial_fit(X, continues=np.ones(60)),
        "continues of KalmanFilter must be a bool",
    ),
    "weights of rows of sequences": (
        lambda: chain().fit(X, sample_weight=np.ones(60)),
        r"^GaussianHMM\.fit\(\) got an unexpected keyword argument 'sample_weight' & "
        r"arguments are \(X, y=None, \*, lengths=None, groups=None\)",
        TypeError,
    ),
    "too many arguments": (
        lambda: mixture().fit(X).sample(5, 3),
        r"^GaussianMixture\.sample takes 1 by position, got 2 & "
        r"arguments are \(n_samples=1\)",
        TypeError,
    ),
    "a parameter of the estimator for an argument": (
        lambda: chain().fit(X).sample(5, random_state=3),
        r"^GaussianHMM\.sample does not take random_state, a parameter of the estimator",
        TypeError,
    ),
    "too many parameters by position": (
        lambda: GaussianMixture(2, "full"),
        "^GaussianMixture takes 1 by position, got 2: pass the others by name",
        TypeError,
    ),
    "no future": (lambda: system().fit(X).forecast(X, n_steps=0), "n_steps of KalmanFilter"),
    # Strings.
    "strings that are no pairs": (
        lambda: EditDistance().fit(["abc", "abd"]),
        r"EditDistance & a pair \(source, target\) as entry 0 of X, got str 'abc'",
    ),
    "two lists of strings for one of pairs": (
        lambda: EditDistance().fit(["recieve", "adress"], ["receive", "address"]),
        r"EditDistance & pairs by list\(zip\(sources, targets\)\)",
    ),
    "a number for a string": (
        lambda: EditDistance().fit([("a", 3)]),
        "EditDistance & target of pair 0 of X, got int 3",
    ),
    **{
        f"lists of words to {ask.__name__}": (
            lambda ask=ask: ask(EditDistance().fit([("teh", "the")]), ["teh"], ["the"]),
            "EditDistance: x and y are lists of unknown symbols, 'teh' the first & pairwise",
        )
        for ask in (EditDistance.distance, EditDistance.align)
    },
    "no pairs": (lambda: EditDistance().fit([]), "EditDistance & at least one pair"),
    # Merging.
    "nothing to merge": (lambda: combine_estimators([]), "at least one estimator"),
    "one estimator to merge": (
        lambda: combine_estimators(mixture().fit(X)),
        "estimators must be a list & GaussianMixture",
        TypeError,
    ),
    "a merging weight of many digits": (
        lambda: combine_estimators([mixture().fit(X)] * 2, weights=[1, 10**400]),
        "weights must be finite",
    ),
    "merging what is not fitted": (
        lambda: combine_estimators([mixture(), mixture()]),
        r"estimators\[0\], a GaussianMixture, is not fitted",
        NotFittedError,
    ),
    "merging several classes": (
        lambda: combine_estimators([mixture().fit(X), chain().fit(X)]),
        r"estimators\[1\] is GaussianHMM & of one class",
        TypeError,
    ),
    "merging several widths": (
        lambda: combine_estimators([mixture().fit(X), mixture().fit(COUNTS)]),
        r"estimators\[1\] & n_features_in_=4 & n_features_in_=2",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_common_mistakes_are_told_who_complains_of_what_and_what_to_do(mistake):
    call, words, *other = MISTAKES[mistake]
    with pytest.raises(*(other or [ValueError])) as raised:
        call()
    message = str(raised.value)
    for word in words.split(" & "):
        assert raised.match(f"(?s){word}")
    assert len(message) < 1000, "a message, not a print of the data"


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

"""Weights of rows, sequences and members: what they repeat, and numbers of any size."""

import copy

import numpy as np
import pytest
from cases.comparing import arrays, assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS, EstimatorCase, sequence_clusters
from cases.merged_cases import MERGED, SINGLE, TOPICS, WAYS, Pairs
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS, flat
from cases.states import state_of

from sklearn_onlineem import AnomalyDetector, MarkovChainMixture, StreamPipeline, combine_estimators
from sklearn_onlineem.diagnostics import convergence_certificate, standard_errors
from sklearn_onlineem.distributed import DistributedEM

pytestmark = pytest.mark.filterwarnings("ignore")

SEQUENCES = [*SEQUENCE_ESTIMATORS, *KALMAN_FILTERS]
all_estimators = pytest.mark.parametrize("case", [*ESTIMATORS, *SEQUENCES], ids=repr)
representatives = pytest.mark.parametrize(
    "case", [case for case in [*ESTIMATORS, *SEQUENCES] if repr(case) in WAYS], ids=repr
)
all_merged = pytest.mark.parametrize("case", MERGED, ids=repr)
METHODS = ("entropic", "averaging", "sampled")
SOLVERS = [
    {"max_iter": 5},
    {"max_iter": 5, "solver": "online", "batch_size": 10},
    {"max_iter": 5, "solver": "batch"},
]


def is_finite(model):
    return all(np.isfinite(a).all() for a in arrays(model) if a.dtype.kind == "f")


@pytest.mark.parametrize("weight", [5e-324, 1e-200, 1e200, 1.7e308])
@representatives
def test_weights_that_vanish_or_overflow_are_refused(case, weight, rng):
    X = case.data(rng)[0]
    weights = np.full(len(X), weight)
    estimator = case()
    for learn in (estimator.fit, estimator.partial_fit):
        with pytest.raises(
            ValueError, match=rf"{type(estimator).__name__}.*sample_weight must have a sum"
        ):
            learn(X, sample_weight=weights)
    estimator.fit(X)
    model = estimator.model_
    with pytest.raises(ValueError, match="sample_weight must have a sum"):
        estimator.partial_fit(X, sample_weight=weights)
    assert estimator.model_ is model


@pytest.mark.parametrize(
    ("small", "large", "arguments"), [(1e-99, 1e97, SOLVERS[1]), (1e97, 1e97, SOLVERS[2])], ids=str
)
@all_estimators
def test_weights_that_are_taken_give_finite_models(case, small, large, arguments, rng):
    X = case.data(rng)[0]
    weights = np.where(np.arange(len(X)) < 0.9 * len(X), small, large)
    estimator = case(**arguments).fit(X, sample_weight=weights)
    assert is_finite(estimator.model_)
    assert np.isfinite(estimator.lower_bound_)
    estimator.partial_fit(X[:10], sample_weight=np.full(10, small)).partial_fit(X)
    assert is_finite(estimator.model_)


@pytest.mark.parametrize("arguments", SOLVERS, ids=str)
@representatives
def test_vanishing_weights_are_zeros(case, arguments, rng):
    X = case.data(rng)[0]
    heavy = np.arange(len(X)) < 0.1 * len(X)
    found, expected = (
        case(**arguments).fit(X, sample_weight=np.where(heavy, 1.0, small)) for small in (5e-324, 0)
    )
    assert is_finite(found.model_)
    assert_identical(found.model_, expected.model_)


def members(case, rng):
    X = case.data(rng)[0]
    start = case().fit(X)
    return [start, case().fit(X[: len(X) // 2])]


def merged(both, weights, method):
    arguments = {"method": method, "random_state": 0, "n_pseudo_samples": 500}
    return combine_estimators(both, weights=weights, **arguments).model_


@all_merged
def test_only_ratios_of_members_weights_matter(case, rng):
    both = members(case, rng)
    for method in METHODS:
        expected = merged(both, [1.0, 2.0], method)
        assert is_finite(expected)
        for scale in (-1073, -1030, -300, 300, 1022):
            assert_identical(merged(both, np.ldexp([1.0, 2.0], scale), method), expected)


@all_merged
def test_a_member_of_vanishing_weight_says_nothing(case, rng):
    both = members(case, rng)
    for method in METHODS:
        expected = merged(both, [1.0, 0.0], method)
        # Powers of two: others round, which shows where data hardly determine a parameter.
        for weights in ([2.0**1023, 5e-324], [2.0**500, 1e-100], [1.0, 5e-324]):
            found = merged(both, weights, method)
            assert is_finite(found)
            assert_close(found, expected)


# ---------------------------------------------------------------------------------- of sequences


CHAINS = EstimatorCase(
    MarkovChainMixture, sequence_clusters, {"n_symbols": 3}, "MarkovChainMixture(sequences)"
)
WEIGHTED = [*SEQUENCES, CHAINS, *(case for case in MERGED if isinstance(case, Pairs))]
all_weighted = pytest.mark.parametrize("case", WEIGHTED, ids=repr)


def repeated(X, repeats):
    if isinstance(X, np.ndarray):
        return np.repeat(X, repeats, axis=0)
    return [sequence for sequence, n in zip(X, repeats, strict=True) for _ in range(n)]


def learnt(estimator):
    """The model, its own statistics, the lengths it has seen, and how much it has seen."""
    state = estimator._fitted.state
    survival = () if state.lengths is None else state.lengths.survival
    return state.model, state.own_statistics, survival, estimator.n_samples_seen_


def started(case, rng, **arguments):
    """A fit to go on from, rows or sequences, and how often each of them is repeated."""
    X, y = case.data(rng, 60 if case in ESTIMATORS else 20)
    repeats = np.append(rng.integers(0, 4, len(X) - 1), 2)
    start = case.start(X, y) if case in SEQUENCES else {}
    return case(**start, max_iter=3, **arguments).fit(X), X, repeats


# Topics by the E-step that draws nothing.
DOCUMENTS = [SINGLE[0], *(case for case in TOPICS if case.arguments["e_step"] == "map")]


@pytest.mark.parametrize("case", [*ESTIMATORS, *WEIGHTED, *DOCUMENTS], ids=repr)
@pytest.mark.parametrize("solver", ["batch", "online"])
def test_a_weight_repeats_a_row_or_a_whole_sequence(case, solver, rng):
    start, X, repeats = started(case, rng, solver="batch")
    found, expected = (copy.deepcopy(start) for _ in range(2))
    for part in (slice(0, 9), slice(9, 10), slice(10, None)) if solver == "online" else ():
        if repeats[part].any():
            found.partial_fit(X[part], sample_weight=repeats[part])
            expected.partial_fit(repeated(X[part], repeats[part]))
    if solver == "batch":
        again = {"warm_start": True, "max_iter": 5, "tol": 0.0}
        found.set_params(**again).fit(X, sample_weight=repeats)
        expected.set_params(**again).fit(repeated(X, repeats))
    assert_close(learnt(found), learnt(expected))
    assert found.n_samples_seen_ == len(X) + repeats.sum()
    if case in SEQUENCES:
        score = found.score(X, sample_weight=repeats)
        assert score == pytest.approx(found.score(repeated(X, repeats)), rel=1e-10)
    assert found.history_[-1].log_likelihood == pytest.approx(
        expected.history_[-1].log_likelihood, rel=1e-10
    )


@all_weighted
def test_merged_members_count_by_their_weights(case, rng):
    start, X, repeats = started(case, rng)
    found, expected = (
        combine_estimators([start, copy.deepcopy(start).partial_fit(*data, **weight)])
        for data, weight in (((X,), {"sample_weight": repeats}), ((repeated(X, repeats),), {}))
    )
    assert_close(learnt(found), learnt(expected))


@pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS, ids=repr)
def test_starts_heed_weights_of_sequences(case, rng):
    X, y = case.data(rng, 20)
    repeats, arguments = rng.integers(0, 4, 20), {**case.start(X, y), "solver": "batch"}
    found = case(**arguments, max_iter=0).fit(X, sample_weight=repeats)
    assert_close(found.model_, case(**arguments, max_iter=0).fit(repeated(X, repeats)).model_)


@all_weighted
def test_sequences_without_weight_are_left_out(case, rng):
    X, _ = case.data(rng, 20)
    kept = np.arange(20) % 3 != 1
    found = case(max_iter=3).fit(X, sample_weight=np.where(kept, 1.0, 1e-200))
    expected = case(max_iter=3).fit(
        [X[i] for i in np.flatnonzero(kept)], sample_weight=np.ones(kept.sum())
    )
    assert_identical(state_of(found), state_of(expected))


@pytest.mark.parametrize("case", [SEQUENCE_ESTIMATORS[0], KALMAN_FILTERS[0], CHAINS])
def test_all_forms_of_sequences_take_weights(case, rng):
    X, _ = case.data(rng, 6)
    weight, (rows, lengths) = np.array([1.0, 2.5, 0.0, 1.0, 3.0, 0.5]), flat(X)
    groups = np.repeat(np.arange(6), lengths)
    expected = state_of(case(max_iter=3).fit(X, sample_weight=weight))
    # The first rows of all sequences, then the second ones, and so on.
    dealt = np.argsort(np.concatenate([np.arange(n) for n in lengths]), kind="stable")
    for given in (weight, weight[groups]):
        found = case(max_iter=3).fit(rows, sample_weight=given, lengths=lengths)
        assert_identical(state_of(found), expected)
    for given in (weight, weight[groups[dealt]].tolist()):
        found = case(max_iter=3).fit(rows[dealt], sample_weight=given, groups=groups[dealt])
        assert_identical(state_of(found), expected)


@pytest.mark.parametrize("case", [SEQUENCE_ESTIMATORS[0], SEQUENCE_ESTIMATORS[-1]], ids=repr)
def test_errors_and_certificates_count_repeated_sequences(case, rng):
    X, y = case.data(rng, 60)
    repeats = rng.integers(0, 4, 60)
    fitted = case(**case.start(X, y), tol=1e-9, max_iter=3000).fit(X, sample_weight=repeats)
    weights = {"sample_weight": repeats}
    for robust in (False, True):
        found = standard_errors(fitted, X, robust, **weights).errors
        assert_close(found, standard_errors(fitted, repeated(X, repeats), robust).errors, rtol=1e-6)
    found = convergence_certificate(fitted, X, **weights)
    assert_close(
        found.certificate, convergence_certificate(fitted, repeated(X, repeats)).certificate
    )
    assert found.n_observations == repeats.sum()


@all_weighted
def test_clients_pass_weights_on(case, rng):
    X, _ = case.data(rng, 20)
    weight, arguments = rng.random(20) + 0.5, {"max_iter": 2, "solver": "batch", "tol": 0.0}
    stream = case().partial_fit(X, sample_weight=weight)
    piped = StreamPipeline([("model", case())]).partial_fit(X, sample_weight=weight)
    assert_identical(state_of(piped[-1]), state_of(stream))
    fitted = case(**arguments).fit(X, sample_weight=weight)
    if not isinstance(case, Pairs):
        detector = AnomalyDetector(case(**arguments)).fit(X, sample_weight=weight)
        assert_identical(state_of(detector.estimator_), state_of(fitted))
    shards = DistributedEM(case(max_iter=2, tol=0.0), n_shards=3).fit(X, sample_weight=weight)
    local = case(max_iter=0).fit(X[:6], sample_weight=weight[:6])
    again = {"max_iter": 2, "warm_start": True, "solver": "batch"}
    local.set_params(**again).fit(X, sample_weight=weight)
    assert_close(shards.estimator_.model_, local.model_, rtol=1e-7, atol=1e-9)
    assert shards.estimator_.n_samples_seen_ == pytest.approx(weight.sum(), rel=1e-12)

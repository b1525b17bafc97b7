"""Shards are learnt as one machine learns."""

import copy
import inspect
import math
import pickle
import signal
import subprocess
import sys
import time
from functools import partial

import joblib
import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS, by_likelihood
from cases.guide import code_of
from cases.merged_cases import EXACT, NUMBERED, REGULAR
from cases.shards import all_modes, batch_pass
from cases.wrappers import WRAPPERS, all_wrappers
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_onlineem import (
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    MultinomialMixture,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.distributed import DistributedEM, _executors
from sklearn_onlineem.distributed._executors import JoblibExecutor
from sklearn_onlineem.distributed._shards import cut
from sklearn_onlineem.distributed._tasks import Result, merge, whole
from sklearn_onlineem.em import Batch
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.estimators._rows import RowEstimator
from sklearn_onlineem.estimators.base import rules_of, set_start
from sklearn_onlineem.persistence import load, save
from sklearn_onlineem.statistics import Sums

NUMBERED_NAMES = {repr(case) for case in NUMBERED}


def with_and_without_labels(cases):
    """Each case, and once more with labels and weights, if it takes rows."""
    cases = list(cases)
    labelled_too = [(case, True) for case in cases if isinstance(case(), RowEstimator)]
    return pytest.mark.parametrize(
        ("case", "is_labelled"), [*((case, False) for case in cases), *labelled_too], ids=repr
    )


@all_modes
def test_a_smoothing_prior_counts_once(mode, rng):
    """Not once for each of the learners: a word that no row has is half a count."""
    # Of rows of 10 words each, as rates weigh batches otherwise than a sum does.
    X = rng.multinomial(10, [0.2] * 5 + [0.0], 200).astype(float)
    mixture = MultinomialMixture(1, batch_size=5, random_state=0)
    found = DistributedEM(mixture, n_shards=4, **mode).fit(X).estimator_.probabilities_[0, -1]
    assert found == pytest.approx(0.5 / (2000.0 + 3.0), rel=0.005)


def shards_of(X, n_shards, estimator):
    return cut({"X": X}, n_shards, estimator)["X"]


def made(case, is_labelled, **arguments):
    """An estimator, which learns from labels if it can and should."""
    learns = is_labelled and "semi_supervised" in case().get_params()
    return case(**({"semi_supervised": True} if learns else {}), **arguments)


def besides(rng, estimator, n):
    """Some labels, and weights of which some are 0."""
    labels = rng.integers(0, getattr(estimator, "n_components", 1), n)
    y = np.where(rng.random(n) < 0.3, labels, -1)
    return {"y": y, "sample_weight": rng.integers(0, 4, n).astype(float)}


def shards_of_all(arguments, n_shards, estimator):
    """Arguments of fits, one for each shard."""
    columns = cut(arguments, n_shards, estimator)
    return [dict(zip(columns, parts, strict=True)) for parts in zip(*columns.values(), strict=True)]


def parts_of(shard, part):
    return {name: values[part] for name, values in shard.items()}


def joined(shards):
    columns = {name: [shard[name] for shard in shards] for name in shards[0]}
    return {
        name: sum(parts, []) if isinstance(parts[0], list) else np.concatenate(parts)
        for name, parts in columns.items()
    }


@with_and_without_labels(EXACT)
def test_rounds_of_batch_em_are_those_of_one_machine(case, is_labelled, rng):
    estimator = made(case, is_labelled, max_iter=4, tol=0.0, batch_size=10)
    more = besides(rng, estimator, 60) if is_labelled else {}
    arguments = {"X": case.data(rng, 60)[0], **more}
    learner = DistributedEM(estimator, n_shards=5).fit(**arguments)
    local = set_start(clone(estimator), **shards_of_all(arguments, 5, estimator)[0])
    data = local._input().read(**arguments)
    path = [batch_pass(local, data) for _ in range(4)]
    assert_close(learner.estimator_.model_, local.model_, rtol=1e-8, atol=1e-8)
    assert_allclose(learner.estimator_.lower_bounds_, path, rtol=1e-10)
    assert learner.estimator_.n_samples_seen_ == data.total_weight
    assert learner.estimator_.n_steps_ == 4


# Statistics that learners return have the weight of their rows alone, without that of a prior.
@with_and_without_labels(by_likelihood(REGULAR))
def test_merging_after_every_step_is_one_machine_with_larger_batches(case, is_labelled, rng):
    """Also with rates that decay, and priors are spread over the same rows."""
    X, _ = case.data(rng, 3 * 80)
    # Floors, which add up otherwise, are far from components of all kinds of rows.
    init = {"init": "random"} if repr(case) in NUMBERED_NAMES else {}
    estimator = made(case, is_labelled, batch_size=8, schedule="harmonic", eta0=0.5, **init)
    arguments = {"X": [*X] if isinstance(X, list) else X}
    if is_labelled:
        arguments |= besides(rng, estimator, 240)
        # The learners' batches weigh the same.
        arguments["sample_weight"] = np.tile(rng.integers(1, 4, 80).astype(float), 3)
    learner = DistributedEM(estimator, mode="synchronous", shuffle=False, n_shards=3)
    learner.fit(**arguments)
    shards = shards_of_all(arguments, 3, estimator)
    local = set_start(clone(estimator), **shards[0])
    model, schedule, n_seen = local.model_, rules_of(local).stream.schedule, 0.0
    for t in range(10):
        batch = joined([parts_of(shard, slice(8 * t, 8 * (t + 1))) for shard in shards])
        data = local._input().read(**batch)
        model, _ = online_step(model, data, rate_of(schedule, n_seen, data.total_weight))
        n_seen += data.total_weight
    assert_close(learner.estimator_.model_, model, rtol=1e-9, atol=1e-9)
    assert learner.estimator_.n_samples_seen_ == n_seen
    assert len(learner.history_) == learner.estimator_.n_steps_ == 10


def test_states_of_sequences_are_cut_as_they_are(rng):
    X = [rng.standard_normal((length, 2)) for length in (5, 3, 8, 4)]
    y = [rng.integers(-1, 2, len(sequence)) for sequence in X]
    estimator = GaussianHMM(2, semi_supervised=True, random_state=0, max_iter=3, tol=0.0)
    learner = DistributedEM(estimator, n_shards=2).fit(X, y)
    local = set_start(clone(estimator), X[:2], y=y[:2])
    for _ in range(3):
        batch_pass(local, local._input().read(X, y=y))
    assert_close(learner.estimator_.model_, local.model_, rtol=1e-9, atol=1e-9)


def test_shards_without_weight_are_left_out(rng):
    X = ESTIMATORS[0].data(rng, 80)[0]
    estimator = GaussianMixture(2, random_state=0, max_iter=3, tol=0.0)
    weights = np.repeat([0.0, 1.0, 0.0, 2.0], 20)
    found = DistributedEM(estimator, n_shards=4).fit(X, sample_weight=weights)
    kept = weights > 0
    expected = DistributedEM(estimator, n_shards=2).fit(X[kept], sample_weight=weights[kept])
    assert_identical(found.estimator_.model_, expected.estimator_.model_)


@pytest.mark.pinned("streams leave out rows that surprise them, which learners of shards do not")
@with_and_without_labels(by_likelihood(EXACT))
def test_asynchronous_learners_are_merged_as_estimators_are(case, is_labelled, rng):
    # Labels at random, against clear clusters, would make components change places.
    init = {"init": "random"} if is_labelled and repr(case) in NUMBERED_NAMES else {}
    estimator = made(case, is_labelled, batch_size=10, schedule="harmonic", eta0=0.5, **init)
    arguments = {"X": case.data(rng, 90)[0]}
    if is_labelled:
        arguments |= besides(rng, estimator, 90)
        arguments["sample_weight"] += 1.0
    learner = DistributedEM(estimator, mode="asynchronous", shuffle=False, n_shards=3)
    learner.fit(**arguments)
    shards = shards_of_all(arguments, 3, estimator)
    start, members = set_start(clone(estimator), **shards[0]), []
    for shard in shards:
        member = copy.deepcopy(start)
        for t in range(0, 30, 10):
            member.partial_fit(**parts_of(shard, slice(t, t + 10)))
        members.append(member)
    # Members that begin alike are not aligned.
    expected = combine_estimators(members, align=False)
    assert_close(learner.estimator_.model_, expected.model_, rtol=1e-9)
    assert learner.estimator_.n_samples_seen_ == expected.n_samples_seen_


@all_modes
def test_what_comes_out_is_a_plain_estimator(mode, rng):
    X = ESTIMATORS[0].data(rng, 120)[0]
    estimator = GaussianMixture(3, random_state=0, max_iter=2, tol=0.0, batch_size=20)
    learner = DistributedEM(estimator, n_shards=3, **mode).fit(X, validation=X)
    local = pickle.loads(pickle.dumps(learner.estimator_))
    assert type(local) is GaussianMixture
    assert local.get_params() == estimator.get_params()
    assert local.partial_fit(X[:7]).n_samples_seen_ == 127
    assert_allclose(learner.predict_proba(X), learner.estimator_.predict_proba(X))
    last = learner.history_[-1]
    assert last.validation == pytest.approx(learner.score(X))
    assert last.seconds > 0.0
    assert last.bytes_sent > 6 * sum(a.nbytes for a in (local.means_, local.covariances_))
    clone(learner)


def test_the_history_shows_rising_likelihoods_of_batch_em(rng):
    X = ESTIMATORS[0].data(rng, 200)[0]
    learner = DistributedEM(GaussianMixture(3, random_state=0, max_iter=50, tol=1e-6)).fit(X)
    path = [part.log_likelihood for part in learner.history_]
    assert (np.diff(path) >= -1e-12).all()
    assert learner.estimator_.converged_


@all_modes
def test_a_known_model_is_the_start_and_its_fixed_parts_stay(mode, rng):
    X = rng.standard_normal((120, 2)) + 5.0 * np.eye(2)[rng.integers(0, 2, 120)]
    known = GaussianMixture.from_parameters(
        weights=[0.3, 0.7], means=[[4.0, 0.0], [0.0, 4.0]], covariances=[np.eye(2)] * 2,
        params={"weights": [False, True], "means": [True, False]}, warm_start=True, tol=0.0,
        max_iter=5, random_state=0, reg_covar=1e-6,
    )  # fmt: skip
    distributed = DistributedEM(known, n_shards=3, **mode).fit(X)
    found = distributed.estimator_
    assert_allclose(found.weights_, [0.3, 0.7], rtol=1e-14)
    assert_allclose(found.means_[1], [0.0, 4.0], atol=1e-14)
    assert known.n_samples_seen_ == 0
    if mode["mode"] == "batch":
        alone = clone(known).set_params(solver=Batch(acceleration=None))
        for name in ("weights_", "means_", "covariances_"):
            setattr(alone, name, getattr(known, name))
        alone.fit(X)
        assert_close(found.model_.parameters, alone.model_.parameters, rtol=1e-9)
    # A fitted estimator may be distributed, too.
    again = DistributedEM(found, n_shards=3, **mode).fit(X).estimator_
    assert again.score(X) >= found.score(X) - 1e-3
    assert_allclose(again.means_[1], [0.0, 4.0], atol=1e-14)


def test_a_warm_start_needs_the_same_model(rng):
    X = rng.poisson(3.0, (90, 2)).astype(float)
    learner = DistributedEM(GaussianMixture(3, random_state=0), warm_start=True).fit(X)
    weights = learner.estimator_.weights_
    stopped = copy.deepcopy(learner).set_params(estimator__params="p").fit(X).estimator_
    assert_identical(stopped.weights_, weights)
    assert (stopped.means_ != learner.estimator_.means_).any()
    for name, value in (("n_components", 5), ("covariance_type", "diag")):
        changed = copy.deepcopy(learner).set_params(**{f"estimator__{name}": value})
        with pytest.raises(ValueError, match=rf"fitted model has {name}=.*call fit again"):
            changed.fit(X)
    with pytest.raises(ValueError, match="has fitted a GaussianMixture.*now a PoissonMixture"):
        learner.set_params(estimator=PoissonMixture(3)).fit(X)


def test_empty_shards_are_left_out(rng):
    X = ESTIMATORS[0].data(rng, 60)[0]
    shards, models = [X[:0], X[:20], X[:0], X[20:50], X[50:]], []
    estimator = GaussianMixture(2, random_state=0)
    for parts in (shards, [part for part in shards if len(part)]):
        executor = JoblibExecutor({"X": parts}, None)
        executor.open()
        start = executor.begin(partial(set_start, clone(estimator)), executor.numbers[0])
        executor.prepare(start)
        models.append(start.model_)
        assert executor.data[0].X.shape == (20, 4)
    assert_identical(*models)
    with pytest.raises(ValueError, match="all shards are empty"):
        JoblibExecutor({"X": [X[:0]]}, None).open()


def test_the_first_shard_that_is_enough_provides_the_start(rng):
    few, lacking, *rest = np.split(rng.normal(size=(300, 2)), [2, 30, 90])
    lacking[:, 1] = np.nan
    mixture = GaussianMixture(3, max_iter=0, random_state=0)
    found = DistributedEM(mixture).fit([few, lacking, *rest]).estimator_
    start = set_start(clone(mixture), rest[0]).model_
    assert_identical(found.model_, start)
    with pytest.raises(ValueError, match="shard 0: GaussianMixture: at least n_components=3 rows"):
        DistributedEM(mixture).fit([few, lacking])
    with pytest.raises(ValueError, match="shard 1: .*infinity"):
        DistributedEM(mixture).fit([few, np.full((9, 2), np.inf), *rest])


@all_wrappers
def test_of_wrappers_the_model_within_is_merged_and_learns_from_shards(wrapper, rng):
    message = f"{type(wrapper).__name__}: take its {WRAPPERS[wrapper]}"
    with pytest.raises(TypeError, match=message):
        DistributedEM(wrapper).fit(rng.normal(size=(9, 2)))
    with pytest.raises(TypeError, match=message):
        combine_estimators([wrapper, wrapper])


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_arrays_is_shards_to_estimators_of_rows(kind, rng):
    X, y, weight = rng.normal(size=(60, 2)), rng.integers(-1, 2, 60), rng.random(60)
    learner = DistributedEM(GaussianMixture(2, semi_supervised=True, random_state=0), n_shards=3)
    expected = learner.fit(X, y, weight).estimator_
    shards = [kind(np.split(values, 3)) for values in (X, y, weight)]
    assert_identical(learner.fit(*shards).estimator_.model_, expected.model_)
    for others in ((y, shards[2]), (shards[1], weight), (shards[1][:2], shards[2])):
        with pytest.raises(ValueError, match="must come in shards as X does"):
            learner.fit(shards[0], *others)


def test_a_shorter_list_makes_fewer_shards(rng):
    X = [rng.standard_normal((9, 2)) for _ in range(3)]
    assert [len(shard) for shard in shards_of(X, 8, GaussianHMM())] == [1, 1, 1]
    assert len(shards_of(X[0], 8, GaussianHMM())) == 1
    assert [len(shard) for shard in shards_of(X[0], 4, PoissonMixture())] == [2, 2, 2, 3]


def test_pairs_of_strings_come_in_all_their_forms(rng):
    """Text, lists of symbols, and an array."""
    pairs = [("ab", "a"), ("ba", "ba"), ("b", "bb"), ("a", "a"), ("bab", "aba")]
    symbols = [(list(source), list(target)) for source, target in pairs]
    learner = DistributedEM(EditDistance(max_iter=2, tol=0.0), n_shards=2)
    models = [
        learner.fit(X).estimator_.model_ for X in (pairs, symbols, np.array(pairs, dtype=object))
    ]
    for model in models[1:]:
        assert_identical(model, models[0])
    assert learner.estimator_.n_samples_seen_ == 5
    assert learner.score(pairs) == learner.estimator_.score(pairs)


@pytest.mark.parametrize("n_parts", [1, 2, 5, 8, 13])
def test_parts_may_be_merged_in_any_order_and_company(n_parts, rng):
    parts = [Result(w, Sums(rng.random(3), rng.random((3, 2))), -w) for w in rng.random(n_parts)]
    branches = [{(0, place): part} for place, part in enumerate(parts)]
    expected = whole(branches, n_parts)
    assert expected.total_weight == pytest.approx(sum(part.total_weight for part in parts))
    weighted = sum(part.total_weight * part.content.total for part in parts)
    assert_allclose(expected.content.total, weighted / expected.total_weight)
    for _ in range(5):
        packs = np.array_split(rng.permutation(n_parts), rng.integers(1, n_parts + 1))
        packed = [merge([branches[place] for place in pack], n_parts) for pack in packs]
        assert_identical(whole(packed, n_parts), expected)


def test_schedulers_are_told_the_sizes_of_data_and_models(rng):
    X = rng.standard_normal((500, 4))
    mixture = GaussianMixture(2, random_state=0).fit(X)
    assert sys.getsizeof(mixture.model_) >= mixture.covariances_.nbytes
    assert sys.getsizeof(Rows(X)) >= X.nbytes
    hmm = GaussianHMM(2)
    assert sys.getsizeof(hmm._input(fresh=True).read(X)) >= X.nbytes


@pytest.mark.parametrize("other", [None, [None], "PoissonMixture", PoissonMixture])
def test_an_estimator_that_is_none_is_refused_by_fit_alone(other):
    X = np.arange(12.0).reshape(6, 2)
    learner = DistributedEM(PoissonMixture(2, random_state=0), n_shards=2).fit(X)
    score = learner.score(X)
    learner.set_params(estimator=other)
    assert learner.score(X) == score
    with pytest.raises((TypeError, ValueError), match="DistributedEM"):
        learner.fit(X)


# Valid, and the largest of int8, so that one more is none.
NUMBERS = {
    "sync_every": 127,
    "n_passes": 127,
    "n_shards": 127,
    "n_jobs": 127,
    "worker_timeout": 127,
}
BOOLEANS = ["shuffle", "warm_start", "progress"]
CHOICES = ["mode", "combine"]
NONSENSE = [0, -1, math.nan, -math.inf, np.int8(-3), np.float32(np.nan), np.False_, "2", [2], 2j]
# Parameters for which these values make sense.
SENSIBLE = {"-1": ["n_jobs"], "np.int8(-3)": ["n_jobs"], "np.False_": BOOLEANS}
HUGE = 10**400


@pytest.fixture
def X(rng):
    return rng.poisson(rng.choice([1.0, 20.0], size=(400, 1)))


def learner(**arguments):
    mixture = PoissonMixture(2, random_state=0, max_iter=2, batch_size=2)
    defaults = {"estimator": mixture, "n_shards": 2, "mode": "synchronous"}
    return DistributedEM(**{**defaults, **arguments})


def test_each_parameter_is_examined_here():
    known = {"estimator", *NUMBERS, *BOOLEANS, *CHOICES}
    assert set(inspect.signature(DistributedEM).parameters) == known


@pytest.mark.parametrize("name", NUMBERS)
def test_a_numpy_integer_is_the_integer(name, X):
    X = X[:300] if name == "n_shards" else X[:40]
    given = np.int8(NUMBERS[name])
    with joblib.parallel_config("threading"):
        expected = learner(**{name: NUMBERS[name]}).fit(X)
        found = learner(**{name: given}).fit(X)
    assert_identical(found.estimator_.model_, expected.estimator_.model_)
    assert len(found.history_) == len(expected.history_)
    assert found.get_params()[name] is given
    assert type(clone(found).get_params()[name]) is np.int8


@pytest.mark.parametrize("n_shards", [np.uint8(255), 255])
def test_no_number_of_shards_wraps_around(n_shards, X):
    fitted = learner(n_shards=n_shards).fit(np.tile(X, (2, 1)))
    assert sum(each.n_seen for each in fitted.history_) == 2 * len(X)


@pytest.mark.parametrize("name", [*NUMBERS, *BOOLEANS, *CHOICES])
@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_nonsense_is_refused_by_name(name, value, X):
    if name in SENSIBLE.get(repr(value), ()):
        return
    fitted = learner().fit(X[:40])
    known = vars(fitted).copy()
    with pytest.raises(InvalidParameterError, match=f"{name}.* of DistributedEM"):
        fitted.set_params(**{name: value}).fit(X)
    assert {**vars(fitted), name: None} == {**known, name: None}


@pytest.mark.parametrize("name", ["sync_every", "n_shards", "worker_timeout"])
def test_huge_numbers_mean_what_they_say(name, X):
    most = {"sync_every": len(X), "n_shards": len(X), "worker_timeout": math.inf}
    single = PoissonMixture(1, random_state=0, batch_size=2)
    expected, found = (
        learner(estimator=single, **{name: value}).fit(X) for value in (most[name], HUGE)
    )
    assert_identical(found.estimator_.model_, expected.estimator_.model_)


def test_passes_without_end_end_where_a_callback_says_so(X):
    endless = learner(n_passes=HUGE)
    endless.estimator.set_params(callbacks=[lambda step: True])
    assert len(endless.fit(X).history_) == 1


def test_no_more_jobs_are_started_than_there_are_shards(X, monkeypatch):
    """Processes by the million would take the machine down."""
    asked = []

    def parallel(n_jobs):
        asked.append(n_jobs)
        return joblib.Parallel(n_jobs=1)

    monkeypatch.setattr(_executors, "Parallel", parallel)
    learner(n_jobs=2**31 - 1, n_shards=3).fit(X)
    assert set(asked) == {3}


AGAIN = """
import sys
import numpy as np
rows = np.load(sys.argv[2])
print("begins", flush=True)
follow(Path(sys.argv[1]), lambda position, n: rows[position : position + n], n_rows=10)
"""


def position_in(folder):
    return max((int(file.stem) for file in folder.glob("*.npz")), default=0)


def test_a_partition_that_is_read_again_after_kills_gives_the_same_bits(rng, tmp_path):
    X = rng.poisson(rng.choice([2.0, 20.0], size=(200, 1)))
    start = PoissonMixture(2, random_state=0).partial_fit(X)
    folder = tmp_path / "learner"
    folder.mkdir()
    save(start, folder / "0.npz")
    np.save(tmp_path / "rows.npy", X)
    code = code_of("partitions.rst") + AGAIN
    command = [sys.executable, "-c", code, folder, tmp_path / "rows.npy"]
    n_killed = 0
    while (position := position_in(folder)) < len(X):
        until = position + 10 * rng.integers(0, 10)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "begins\n"
            while process.poll() is None and position_in(folder) < until:
                time.sleep(0.001)
            # Anywhere in a step.
            time.sleep(rng.uniform(0.0, 0.01))
            process.kill()
        n_killed += process.returncode == -signal.SIGKILL
    assert n_killed > 0
    for rows in np.split(X, 20):
        start.partial_fit(rows)
    assert_identical(load(folder / "200.npz").model_, start.model_)

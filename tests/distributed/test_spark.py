"""Learning on PySpark in local mode, whose Python workers are processes of their own."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from copy import deepcopy
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.guide import blocks_of
from cases.shards import all_modes, assert_same_fit
from numpy.testing import assert_allclose

from sklearn_onlineem import (
    CategoricalHMM,
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    LatentDirichletAllocation,
    RegressionHMM,
    RegressionMixture,
    combine_estimators,
)
from sklearn_onlineem.distributed import DistributedEM, DistributionError
from sklearn_onlineem.persistence import load, save

HAS_JAVA = shutil.which("java") or os.environ.get("JAVA_HOME")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(find_spec("pyspark") is None, reason="needs the extra spark"),
    pytest.mark.skipif(not HAS_JAVA, reason="needs Java"),
    # Of PySpark itself, about pandas 3 and sockets.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
]


def session_of(monkeypatch, how):
    from pyspark.sql import SparkSession

    # Spark would take the first python3 of the path.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    builder = how(SparkSession.builder)
    for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress", "spark.sql.adaptive.enabled"):
        builder = builder.config(key, "false")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


@pytest.fixture(scope="module")
def spark():
    with pytest.MonkeyPatch.context() as monkeypatch:
        # A task that has lost its worker is repeated three times.
        session = session_of(monkeypatch, lambda builder: builder.master("local[2,4]"))
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def X():
    return ESTIMATORS[0].data(np.random.default_rng(0), 600)[0]


@pytest.fixture(scope="module")
def frame(spark, X):
    return framed(spark, pd.DataFrame(X, columns=list("abcd")))


def framed(spark, table, n=3):
    """Return a data frame of Spark in partitions of consecutive rows, which are not shuffled."""
    table = table.astype(object).where(table.notna(), None)
    records = spark.sparkContext.parallelize(table.to_numpy().tolist(), n)
    return spark.createDataFrame(records, list(map(str, table.columns)))


def mixture(**arguments):
    arguments = {"max_iter": 3, "tol": 0.0, "batch_size": 50, **arguments}
    return GaussianMixture(3, random_state=0, **arguments)


def assert_nothing_is_kept(spark):
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


# ------------------------------------------------------------------------------------ the same bits


@all_modes
def test_spark_gives_the_same_bits_as_this_process(mode, spark, frame, X):
    mode = {**mode, **({"sync_every": 4} if mode["mode"] == "synchronous" else {}), "n_shards": 3}
    expected = DistributedEM(mixture(), **mode).fit(X)
    for data, arguments in ((frame, {}), (X, {"client": spark})):
        found = DistributedEM(mixture(), **mode).fit(data, **arguments)
        assert_same_fit(found, expected)
        assert found.history_[-1][1:5] == expected.history_[-1][1:5]
        assert_nothing_is_kept(spark)
    found.estimator_.partial_fit(X)


def test_what_shards_draw_depends_on_their_numbers(spark, rng):
    X = rng.poisson(3.0, (90, 6))
    frame = framed(spark, pd.DataFrame(X))
    for estimator in (
        LatentDirichletAllocation(3, random_state=0, max_iter=2, batch_size=20),
        mixture(solver="stochastic"),
    ):
        expected = DistributedEM(estimator, n_shards=3).fit(X)
        assert_same_fit(DistributedEM(estimator).fit(frame), expected)


def test_columns_are_labels_weights_targets_and_features(spark, X, rng):
    names = np.array([None, "left", "right", "up"], dtype=object)[rng.integers(0, 4, len(X))]
    weight = np.where(np.arange(len(X)) < 200, 0.0, rng.random(len(X)))
    table = pd.DataFrame(X, columns=list("abcd")).assign(side=names, weight=weight)
    frame = framed(spark, table)
    learner = DistributedEM(mixture(semi_supervised=True)).fit(
        frame, "side", sample_weight="weight"
    )
    expected = DistributedEM(mixture(semi_supervised=True), n_shards=3).fit(X, names, weight)
    assert_same_fit(learner, expected)
    assert learner.classes_.tolist() == ["left", "right", "up"]
    assert learner.estimator_.feature_names_in_.tolist() == list("abcd")
    regression = RegressionMixture(2, random_state=0, max_iter=2)
    expected = DistributedEM(regression, n_shards=3).fit(X[:, :2], X[:, 2:])
    frame = framed(spark, table[list("abcd")])
    assert_same_fit(DistributedEM(regression).fit(frame, ["c", "d"]), expected)


def test_rows_are_sequences_texts_and_pairs(spark, X, rng):
    lengths = rng.integers(3, 9, 30)
    sequences = [rng.standard_normal((length, 2)) for length in lengths]
    columns = [sequence[:, :1] for sequence in sequences]
    texts = ["".join(rng.choice(list("abc"), length)) for length in lengths]
    pairs = list(zip(texts, texts[1:] + texts[:1], strict=True))
    quick = {"random_state": 0, "max_iter": 2, "tol": 0.0}
    hmm, symbols = GaussianHMM(2, **quick), CategoricalHMM(2, **quick)
    for estimator, data, table in (
        (hmm, sequences, {"x": [sequence.tolist() for sequence in sequences]}),
        (hmm, columns, {"x": [column.ravel().tolist() for column in columns]}),
        (symbols, texts, {"x": texts}),
        (symbols, texts, {"x": list(map(list, texts))}),
        (EditDistance(**quick), pairs, dict(zip("ab", zip(*pairs, strict=True), strict=True))),
        (mixture(), X, {"features": X.tolist()}),
    ):
        expected = DistributedEM(estimator, n_shards=3).fit(data)
        found = DistributedEM(estimator).fit(framed(spark, pd.DataFrame(table)))
        assert_same_fit(found, expected)
    inputs = [rng.standard_normal((length, 1)) for length in lengths]
    table = {name: [part.ravel().tolist() for part in parts]
             for name, parts in (("x", columns), ("u", inputs))}  # fmt: skip
    regression = RegressionHMM(2, **quick)
    expected = DistributedEM(regression, n_shards=3).fit(columns, inputs=inputs)
    found = DistributedEM(regression).fit(framed(spark, pd.DataFrame(table)), inputs="u")
    assert_same_fit(found, expected)


def test_partitions_without_rows_are_left_out(frame, X):
    found = DistributedEM(mixture()).fit(frame.where("b < 6"))
    left = X[X[:, 1] < 6]
    assert 200 < len(left) < 600
    parts = [part[part[:, 1] < 6] for part in np.array_split(X, 3)]
    assert_same_fit(found, DistributedEM(mixture()).fit(parts))
    found = DistributedEM(mixture()).fit(frame.union(frame.where("a > 1000")))
    assert_same_fit(found, DistributedEM(mixture(), n_shards=3).fit(X))


def test_data_are_read_once(frame, X, tmp_path):
    folder = str(tmp_path)

    def read(parts):
        import os
        import uuid

        open(os.path.join(folder, uuid.uuid4().hex), "x").close()
        yield from parts

    found = DistributedEM(mixture()).fit(frame.mapInPandas(read, frame.schema))
    assert_same_fit(found, DistributedEM(mixture(), n_shards=3).fit(X))
    assert len(list(tmp_path.iterdir())) == 3


def test_spark_connect_gives_the_same_bits(X, tmp_path):
    """In a process of its own, as one process is either classic or connected."""
    code = (
        "import numpy as np, pandas as pd, pickle, sys\n"
        "from pyspark.sql import SparkSession\n"
        "from sklearn_onlineem.distributed import DistributedEM\n"
        "X, estimator = pickle.load(open(sys.argv[1], 'rb'))\n"
        "spark = SparkSession.builder.remote('local[2]').getOrCreate()\n"
        "frame = spark.createDataFrame(pd.DataFrame(X)).coalesce(1)\n"
        "fits = [DistributedEM(estimator, n_shards=3).fit(X, client=spark)]\n"
        "fits.append(DistributedEM(estimator).fit(frame))\n"
        "pickle.dump(fits, open(sys.argv[1], 'wb'))\n"
        "spark.stop()\n"
    )
    file = tmp_path / "data.pickle"
    file.write_bytes(pickle.dumps((X, mixture())))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    subprocess.run([sys.executable, "-c", code, file], env=environment, check=True)
    for found, n_shards in zip(pickle.loads(file.read_bytes()), (3, 1), strict=True):
        assert_same_fit(found, DistributedEM(mixture(), n_shards=n_shards).fit(X))


# ------------------------------------------------------------------------------------------ faults


def test_a_killed_worker_changes_no_bit(spark, frame, X):
    def process(parts):
        import os

        for part in parts:
            yield pd.DataFrame({"pid": [os.getpid()] * min(1, len(part))})

    killed = []

    def kill():
        # Whoever has taken part in the last round, before the next one, and those amid it.
        for row in frame.mapInPandas(process, "pid long").collect():
            if row.pid not in killed:
                os.kill(row.pid, signal.SIGKILL)
                killed.append(row.pid)

    rounds = []

    def after(step):
        rounds.append(step)
        if len(rounds) == 2:
            kill()
            threading.Thread(target=kill).start()

    learner = DistributedEM(mixture(max_iter=5, callbacks=[after])).fit(frame)
    assert killed
    assert_same_fit(learner, DistributedEM(mixture(max_iter=5), n_shards=3).fit(X))


def test_a_poisoned_shard_is_an_error_that_names_it(spark, frame, X):
    poisoned = X.copy()
    poisoned[250] = np.inf
    expected = r"DistributedEM: shard 1: GaussianMixture: .*infinity"
    for data in (poisoned, framed(spark, pd.DataFrame(poisoned))):
        with pytest.raises(ValueError, match=expected):
            DistributedEM(mixture(), n_shards=3).fit(data, client=spark)
    uneven = pd.DataFrame({"x": [[1.0, 2.0]] * 5 + [[1.0]]})
    with pytest.raises(ValueError, match=r"DistributedEM: shard 2: .*same shape"):
        DistributedEM(mixture()).fit(framed(spark, uneven))
    assert_nothing_is_kept(spark)


def test_wrong_columns_are_named(frame, X):
    labelled = DistributedEM(mixture(semi_supervised=True))
    for wrong in ("e", ["a", "e"], X[:, 0]):
        with pytest.raises(ValueError, match="with a Spark data frame as X, y must be the name of"):
            labelled.fit(frame, wrong)
    with pytest.raises(ValueError, match=r"sample_weight must be the name .* got 'a'"):
        labelled.fit(frame, "a", sample_weight="a")
    with pytest.raises(ValueError, match="GaussianHMM takes sequences, and rows of a Spark data"):
        DistributedEM(GaussianHMM(2)).fit(frame)
    with pytest.raises(ValueError, match="all shards are empty"):
        DistributedEM(mixture()).fit(frame.where("a > 1000"))
    with pytest.raises(TypeError, match="X is a pyspark DataFrame.*DistributedEM"):
        mixture().fit(frame)


def test_what_spark_cannot_compute_is_an_error_with_its_cause(spark, frame):
    def broken(parts):
        raise RuntimeError("a disc")

    for data, cause in (
        (frame.mapInPandas(broken, frame.schema), "RuntimeError: a disc"),
        (frame.selectExpr("assert_true(a < 5, 'large')", "b"), "large"),
    ):
        with pytest.raises(DistributionError, match=f"Spark has not computed .*{cause}"):
            DistributedEM(mixture()).fit(data)
    assert_nothing_is_kept(spark)


def test_workers_of_another_version_are_a_named_error(frame, monkeypatch):
    monkeypatch.setattr("sklearn_onlineem.distributed._spark.__version__", "0.0.9")
    with pytest.raises(DistributionError, match=r"need sklearn_onlineem .*0\.0\.9 here"):
        DistributedEM(mixture()).fit(frame)


def test_an_error_that_cannot_be_sent_is_told(spark, X):
    class Odd(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first} and {second}")

    def schedule(t):
        raise Odd("this", "that")

    learner = DistributedEM(mixture(schedule=schedule), mode="asynchronous", n_shards=3)
    with pytest.raises(RuntimeError, match="Odd: this and that"):
        learner.fit(X, client=spark)


# ------------------------------------------------------------------------- the page on partitions


def recipe(number, **names):
    """Run a piece of code of the page with such names; return what it defines."""
    defined = {"deepcopy": deepcopy, "pd": pd, "pickle": pickle, "load": load, "save": save}
    defined |= {"combine_estimators": combine_estimators, **names}
    exec(blocks_of("partitions.rst")[number], defined)
    return defined


def test_each_partition_has_a_learner(spark, X):
    table = pd.DataFrame(X, columns=list("abcd"))
    start, parts = mixture().partial_fit(table[:120]), np.array_split(np.arange(120, 600), 3)
    learners = [deepcopy(start).partial_fit(table.iloc[part]) for part in parts]
    expected = combine_estimators(learners, base=start)
    assert expected.n_samples_seen_ == 600
    frame = framed(spark, table[120:])
    frame = frame.union(frame.where("a > 1000"))
    assert_identical(recipe(0, start=start, frame=frame)["merged"].model_, expected.model_)


def test_a_micro_batch_that_is_repeated_is_learnt_once(spark, X, tmp_path):
    table = pd.DataFrame(X, columns=list("abcd"))
    start = mixture().partial_fit(table[:300])
    save(start, tmp_path / "-1.npz")
    for number in range(3):
        part = table[300 + 100 * number : 400 + 100 * number]
        framed(spark, part, 1).write.parquet(str(tmp_path / "rows" / str(number)))
    stream = spark.readStream.schema("a double, b double, c double, d double")
    stream = stream.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows/*"))
    names = {"folder": tmp_path, "stream": stream, "checkpoint": str(tmp_path / "checkpoint")}
    defined = recipe(1, **names)
    (query,) = spark.streams.active
    query.processAllAvailable()
    query.stop()
    for number in range(3):
        start.partial_fit(table[300 + 100 * number : 400 + 100 * number])
    found = load(tmp_path / "2.npz")
    assert found.n_samples_seen_ == 600
    assert_allclose(found.means_, start.means_, rtol=1e-9)
    before = (tmp_path / "2.npz").read_bytes()
    defined["learn_batch"](None, 2)
    assert (tmp_path / "2.npz").read_bytes() == before

"""An executor of tasks on PySpark: classic, or by Spark Connect, as it uses `mapInArrow` only."""

import pickle
from contextlib import ExitStack, contextmanager, suppress
from pkgutil import resolve_name

import numpy as np
from sklearn.utils import get_tags

from sklearn_onlineem._version import __version__
from sklearn_onlineem.distributed._executors import NO_LIBRARY, VERSION, DistributionError, nonempty
from sklearn_onlineem.distributed._shards import cut
from sklearn_onlineem.distributed._tasks import (
    begin,
    error_context,
    extent,
    n_entries,
    prepare,
    whole,
)
from sklearn_onlineem.estimators.validation import is_of_spark

_SCHEMA = "number int, content binary"
_FAILED = "DistributedEM: Spark has not computed the shards: {}"


class SparkExecutor:
    """Runs tasks by Spark, whose scheduler places them, and repeats lost ones.

    Shards are rows of a data frame that Spark keeps: the number of each, and its pickled content. A
    task is mapped over them and returns such rows. What it has raised is content, too: Spark would
    repeat it, and lose its type.
    """

    def __init__(self, shards, names):
        self.names, self.session = names, ExitStack()
        self.shards = self._kept(shards)
        self.numbers, self.firsts = [], []

    def open(self):
        """Find the shards that are not empty."""
        names, version = self.names, __version__

        def count(number, values):
            if (found := resolve_name(VERSION)) != version:
                raise ImportError(f"sklearn_onlineem {found} is there, and {version} here")
            return n_entries(number, names, *values)

        counts = self._results(self.shards, count)
        places, self.firsts = nonempty([*counts.values()])
        self.numbers = [[*counts][place] for place in places]

    def begin(self, start, number):
        """Return the result of `start`, a function of a shard, for the one of this number."""
        names, shard = self.names, _chosen(self.shards, [number])
        return self._results(shard, lambda i, x: begin(start, i, names, *x))[number]

    def prepare(self, template):
        """Convert the shards, which Spark keeps then; return their sizes and weights."""
        names, firsts = self.names, dict(zip(self.numbers, self.firsts, strict=True))

        def convert(number, values):
            return prepare(template, number, firsts[number], names, *values)

        source = self.shards
        self.shards = self._kept(_mapped(_chosen(source, self.numbers), convert))
        extents = self._results(self.shards, lambda number, data: extent(data))
        with _spark_errors():
            source.unpersist()
        return [*extents.values()]

    def reduce(self, task, chosen, *arguments):
        """Map a task over the chosen shards, and merge."""
        shards = self.shards
        if len(chosen) < len(self.numbers):
            shards = _chosen(shards, [self.numbers[i] for i in chosen])
        parts = self._results(shards, lambda number, data: task(data, number, *arguments))
        return whole([{(0, place): part for place, part in enumerate(parts.values())}], len(parts))

    def _kept(self, frame):
        """Return the frame, which Spark keeps until the session ends."""

        def release():
            # A Spark that has stopped keeps nothing.
            with suppress(DistributionError), _spark_errors():
                frame.unpersist()

        self.session.callback(release)
        with _spark_errors():
            return frame.persist()

    def _results(self, shards, function):
        """Return results of a function of number and content: a dict by numbers, in their order."""
        with _spark_errors():
            rows = sorted((row.number, row.content) for row in _mapped(shards, function).collect())
        results = {number: pickle.loads(content) for number, content in rows}
        for result in results.values():
            if isinstance(result, ImportError) and "sklearn_onlineem" in str(result):
                raise DistributionError(NO_LIBRARY.format(result)) from result
            if isinstance(result, Exception):
                raise result
        return results


@contextmanager
def _spark_errors():
    """Return a context in which an error of Spark is a DistributionError with its cause."""
    try:
        yield
    except Exception as error:
        is_java = type(error).__module__.startswith("py4j")
        if not (is_of_spark(error) or is_java or isinstance(error, ConnectionError)):
            raise
        # A traceback of Python ends with what happened, and one of Java begins with it.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        is_python = any(line.startswith("Traceback") for line in lines)
        cause = lines[-1] if is_python else " ".join(lines[:2])
        text = NO_LIBRARY if "sklearn_onlineem'" in cause else _FAILED
        raise DistributionError(text.format(cause)) from error


def spark_shards(session, columns, n_shards, estimator):
    """Return shards of a Spark data frame, or of local data that are cut and sent."""
    with _spark_errors():
        if is_of_spark(columns["X"]):
            wanted = _wanted(columns, estimator)
            are_rows = not (_takes_sequences(estimator) or "symbols" in estimator._takes)
            return columns["X"].mapInArrow(lambda parts: _packed(parts, wanted, are_rows), _SCHEMA)
        shards = zip(*cut(columns, n_shards, estimator).values(), strict=True)
        rows = [(number, _dumped(values)) for number, values in enumerate(shards)]
        return session.createDataFrame(rows, _SCHEMA).repartitionByRange(len(rows), "number")


def _takes_sequences(estimator):
    return get_tags(estimator).input_tags.three_d_array


def _wanted(columns, estimator):
    """Return the columns of a Spark data frame that each argument has: a name, or a list."""
    types, wanted = dict(columns["X"].dtypes), {"X": None}
    for name, given in columns.items():
        for part in () if name == "X" else given if isinstance(given, list) else [given]:
            if not isinstance(part, str) or types.pop(part, None) is None:
                raise ValueError(
                    f"DistributedEM: with a Spark data frame as X, {name} must be the name of one"
                    f" of its columns, or a list of names, got {part!r:.80}."
                )
        wanted[name] = given
    wanted["X"], kinds = list(types), [kind.partition("<")[0] for kind in types.values()]
    texts = ("string",) if "symbols" in estimator._takes else ()
    if len(kinds) == 1 and kinds[0] in ("array", *texts):
        (wanted["X"],) = types
    elif _takes_sequences(estimator):
        raise ValueError(
            f"DistributedEM: {type(estimator).__name__} takes sequences, and rows of a Spark data"
            " frame have no order. Pass a data frame with a sequence in each row: in one column of"
            " arrays, beside the columns for other arguments."
        )
    return wanted


def _packed(batches, wanted, are_rows):
    """Yield the shard of a partition, with its number; nothing if it has no rows."""
    import pyarrow as pa
    from pyspark import TaskContext

    def values(number, batches):
        table = pa.Table.from_batches(batches)
        with error_context(number):
            return tuple(_values(table, name, wanted[name], are_rows) for name in wanted)

    if batches := [batch for batch in batches if batch.num_rows]:
        yield _row(TaskContext.get().partitionId(), batches, values)


def _values(table, name, columns, are_rows):
    """Return columns as a table; a single one as an array, or as sequences if it has arrays."""
    from pyarrow.types import is_nested

    if isinstance(columns, list):
        return table.select(columns)
    column = table[columns]
    if not is_nested(column.type):
        return column.to_numpy()
    entries = [np.asarray(entry) for entry in column.to_pylist()]
    if are_rows:
        return np.stack(entries)
    # Sequences of numbers have one column.
    return [x[:, None] if name == "X" and x.ndim == 1 else x for x in entries]


def _chosen(shards, numbers):
    return shards.where(shards["number"].isin(numbers))


def _mapped(shards, function):
    """Return rows with what a function of number and content returns, or raises."""

    def each(batches):
        for batch in batches:
            for number, content in zip(*(batch[name] for name in batch.schema.names), strict=True):
                yield _row(number.as_py(), pickle.loads(content.as_buffer()), function)

    return shards.mapInArrow(each, _SCHEMA)


def _row(number, content, function):
    import pyarrow as pa

    if not isinstance(content, Exception):
        try:
            content = function(number, content)
        except Exception as error:
            content = _portable(error)
    columns = [pa.array([number], pa.int32()), pa.array([_dumped(content)], pa.binary())]
    return pa.record_batch(columns, ["number", "content"])


def _portable(error):
    try:
        return pickle.loads(_dumped(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _dumped(content):
    from pyspark import cloudpickle

    return cloudpickle.dumps(content)

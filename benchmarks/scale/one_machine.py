"""One online pass over a file that is larger than one would load: memory, and time a row.

    python -m benchmarks.scale.one_machine --rows 100000000 --folder /large/disk

Rows of 16 numbers are written to a .npy file, which is mapped, and to Parquet, which pyarrow reads
in batches; the one is removed before the other is written. `partial_fit` takes batches of 5,000
rows in their order, `fit(solver="online")` shuffled ones of 1,000. Each is done on a tenth of the
rows and on all: time a row and memory should be the same. "grew" is anonymous memory at its peak,
without pages of the file; "GB/s" what was read, of double precision. Reading alone is beside it.
"""

import argparse
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._table import Table
from benchmarks.scale.memory import Growth, drawn, written
from sklearn_onlineem import GaussianMixture

N_FEATURES, N_COMPONENTS = 16, 10
BATCH, ROW_GROUP = 5_000, 50_000


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    table = Table("one pass", "rows", "us a row", "GB/s", "grew, MB", width=52)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        _check_space(folder, arguments.rows)
        for title, name, passes in (
            ("memory-mapped", "rows.npy", mapped),
            ("Parquet", "rows.parquet", columnar),
        ):
            measure(table, title, passes(Path(folder, name), arguments.rows), arguments.rows)
            Path(folder, name).unlink()


def mapped(path, n_rows):
    """Write a file, and yield what is done with its first rows."""
    X = written(path, n_rows, N_FEATURES)
    yield "reading alone", lambda n: read(slices(X[:n]))
    yield "partial_fit, 1 thread", lambda n: learn(slices(X[:n]), 1)
    yield "partial_fit, 2 threads", lambda n: learn(slices(X[:n]), 2)
    yield "fit(solver='online')", lambda n: fit(X[:n])


def columnar(path, n_rows):
    """Write a file of columns, and yield what is done with its first rows."""
    try:
        parquet(path, n_rows)
    except ImportError:
        sys.exit("pyarrow is not installed: pip install '.[parquet]'")
    yield "reading alone", lambda n: read(batches(path, n))
    yield "partial_fit, 1 thread", lambda n: learn(batches(path, n), 1)


def measure(table, title, passes, n_all):
    """Time passes over a tenth of the rows, and over all."""
    for name, run in passes:
        for n_rows in (n_all // 10, n_all):
            before = time.perf_counter()
            with Growth() as growth:
                run(n_rows)
            taken = time.perf_counter() - before
            rate = 8e-9 * n_rows * N_FEATURES / taken
            table.row(f"{title}: {name}", n_rows, 1e6 * taken / n_rows, rate, growth.megabytes)


def slices(X):
    return (X[first : first + BATCH] for first in range(0, len(X), BATCH))


def read(chunks):
    """Touch all numbers, once."""
    return sum(chunk.sum() for chunk in chunks)


def learn(chunks, n_jobs):
    mixture = GaussianMixture(N_COMPONENTS, random_state=0, n_jobs=n_jobs)
    for chunk in chunks:
        mixture.partial_fit(chunk)


def fit(X):
    GaussianMixture(N_COMPONENTS, random_state=0, solver="online", max_iter=1).fit(X)


def parquet(path, n_rows):
    """Write rows of a mixture to a Parquet file, in groups."""
    import pyarrow
    import pyarrow.parquet

    names = [f"x{j}" for j in range(N_FEATURES)]
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names])
    with pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=False) as file:
        for chunk in drawn(n_rows, N_FEATURES, ROW_GROUP):
            columns = [np.ascontiguousarray(column) for column in chunk.T]
            file.write_table(pyarrow.table(columns, schema=schema))


def batches(path, n_rows):
    """Yield arrays of the first rows of a Parquet file, read a group of rows at a time."""
    import pyarrow.parquet

    groups = range(-(-n_rows // ROW_GROUP))
    # Else pyarrow reads many groups ahead.
    with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(BATCH, row_groups=groups, use_threads=False):
            yield np.column_stack([column.to_numpy() for column in batch.columns])


def _check_space(folder, n_rows):
    needed = 1.1 * 8 * n_rows * N_FEATURES
    free = shutil.disk_usage(folder).free
    if free < needed:
        sys.exit(
            f"{n_rows} rows take {needed / 1e9:.0f} GB, and {folder} has {free / 1e9:.0f} GB free."
            " Take fewer (--rows), or another disk (--folder)."
        )


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", default=None, help="where files are put for the time")
    return parser.parse_args()


if __name__ == "__main__":
    main()

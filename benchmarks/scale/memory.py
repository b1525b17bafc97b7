"""Memory that a pass over a large memory-mapped file takes, online and in batch.

A mixture, and a hidden Markov model of which all rows are one sequence.

Anonymous memory is what the process itself has asked for; the pages of the file, which the kernel
may drop at any time, are not in it. A thread watches for the peak, within steps too.
"""

import argparse
import tempfile
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._table import Table
from sklearn_onlineem import GaussianHMM, GaussianMixture

N_FEATURES, N_COMPONENTS = 10, 10
ONLINE_LIMIT, SEQUENCE_LIMIT = 50.0, 60.0


class Growth:
    """Context that measures by how many megabytes the process grows at most."""

    def __enter__(self):
        self._start = self._peak = anonymous_megabytes()
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._follow)
        self._watch.start()
        return self

    def _follow(self):
        while not self._done.wait(0.002):
            self._peak = max(self._peak, anonymous_megabytes())

    def __exit__(self, *exception):
        self._done.set()
        self._watch.join()
        self.megabytes = self._peak - self._start


def anonymous_megabytes():
    """Resident memory of the process that no file backs (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024.0


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    table = Table("one pass", "rows", "seconds", "grew by, MB", "limit, MB")
    # A start from 65,536 rows and blocks of rows x components fit; rows x components does not.
    batch_limit = 0.2 * arguments.rows * N_COMPONENTS * 8 / 2**20
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        X = written(Path(folder, "rows.npy"), arguments.rows)
        for name, fit, limit in (
            (f"partial_fit, batches of {arguments.batch_size}", stream, ONLINE_LIMIT),
            ("fit, batch EM", batch_pass, batch_limit),
        ):
            _measure(table, name, X, limit, partial(fit, X, arguments.batch_size))
        sequence = X[: arguments.sequence_rows]
        states = GaussianHMM(N_COMPONENTS, random_state=0, covariance_type="diag")
        states.set_params(solver="batch", max_iter=1)
        for name in ("fit", "score", "predict"):
            # Paths have 8 bytes a row.
            limit = SEQUENCE_LIMIT + 8 * len(sequence) / 2**20 * (name == "predict")
            call = partial(getattr(states, name), sequence)
            _measure(table, f"{name} of one sequence", sequence, limit, call)


def _measure(table, name, X, limit, call):
    before = time.perf_counter()
    with Growth() as growth:
        call()
    table.row(name, len(X), time.perf_counter() - before, growth.megabytes, limit)


def drawn(n_rows, n_features=N_FEATURES, n_at_once=100_000):
    """Yield rows of a mixture in chunks."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=3.0, size=(N_COMPONENTS, n_features))
    for first in range(0, n_rows, n_at_once):
        chunk = centres[rng.integers(N_COMPONENTS, size=min(n_at_once, n_rows - first))]
        yield chunk + rng.normal(size=chunk.shape)


def written(path, n_rows, n_features=N_FEATURES):
    """Write rows of a mixture to a .npy file, and map it."""
    shape, first = (n_rows, n_features), 0
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)
    for chunk in drawn(n_rows, n_features):
        X[first : first + len(chunk)] = chunk
        first += len(chunk)
    X.flush()
    return np.load(path, mmap_mode="r")


def stream(X, batch_size):
    mixture = GaussianMixture(N_COMPONENTS, random_state=0)
    for first in range(0, len(X), batch_size):
        mixture.partial_fit(X[first : first + batch_size])


def batch_pass(X, batch_size):
    GaussianMixture(N_COMPONENTS, random_state=0, solver="batch", max_iter=1).fit(X)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--sequence-rows", type=int, default=4_000_000)
    parser.add_argument("--batch-size", type=int, default=1_000)
    parser.add_argument("--folder", default=None, help="where the file is put for the time")
    return parser.parse_args()


if __name__ == "__main__":
    main()

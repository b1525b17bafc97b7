"""What one core of this machine can do, by loops of our own: the floor under the times of a pass.

The loops of `floors.c` are compiled for this very processor when they are first asked for. Rates
are the best of several short runs:

multiply-adds   of doubles a second, in registers
exponentials    of doubles a second, in the first cache
bytes           read and written a second by a copy of 256 MB

The floor of some work is the time of its multiply-adds and exponentials at these rates, or that of
its bytes if this is longer. What is counted is the least that the formulas need, with symmetric
matrices by halves; so no code gets to the floor, and below it something is counted wrongly.

    python -m benchmarks.floors
"""

import ctypes
import os
import shlex
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._timing import seconds

FLAGS = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
N_RUNS = 7


class Operations(NamedTuple):
    """What some work has to do at least, in double precision."""

    multiply_adds: float
    exponentials: float = 0.0
    n_bytes: float = 0.0


class Rates(NamedTuple):
    """What one core does a second."""

    multiply_adds: float
    exponentials: float
    n_bytes: float

    def floor(self, operations):
        """Seconds that operations take at least."""
        busy = (
            operations.multiply_adds / self.multiply_adds
            + operations.exponentials / self.exponentials
        )
        return max(busy, operations.n_bytes / self.n_bytes)

    def __str__(self):
        found = f"{self.multiply_adds / 1e9:.1f} billion multiply-adds and"
        found += f" {self.exponentials / 1e9:.2f} billion exponentials a second, and"
        return f"{found} {self.n_bytes / 1e9:.1f} GB a second read and written"


@cache
def measured_rates():
    """The rates of this core, or None where there is no compiler for the loops."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "floors.so")
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
        source = Path(__file__).with_suffix(".c")
        try:
            subprocess.run(
                [*compiler, *FLAGS, str(source), "-o", str(path)], check=True, capture_output=True
            )
            loops = ctypes.CDLL(str(path))
        except (OSError, subprocess.CalledProcessError):
            return None
        return Rates(_multiply_adds(loops), _exponentials(loops), _bytes(loops))


def _multiply_adds(loops):
    loops.multiply_add.restype = ctypes.c_double
    result, done = ctypes.c_double(0.0), []
    rounds = ctypes.c_int64(2_000_000)

    def run():
        result.value = 0.0
        done.append(loops.multiply_add(rounds, ctypes.byref(result)))

    best = _best(run)
    assert abs(result.value) > 0.0
    return done[0] / best


def _exponentials(loops):
    x = np.random.default_rng(0).uniform(-30.0, 0.0, 1024)
    y, n_rounds = np.empty_like(x), 5000
    best = _best(
        lambda: loops.exponentials(
            ctypes.c_int64(n_rounds), ctypes.c_int64(len(x)), _pointer(x), _pointer(y)
        )
    )
    assert np.allclose(y, np.exp(x), rtol=1e-13, atol=0.0)
    return n_rounds * len(x) / best


def _bytes(loops):
    x, y = np.ones(2**25), np.zeros(2**25)
    best = _best(lambda: loops.copy(ctypes.c_int64(len(x)), _pointer(x), _pointer(y)))
    return (x.nbytes + y.nbytes) / best


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def _best(run):
    run()
    return min(seconds(run) for _ in range(N_RUNS))


if __name__ == "__main__":
    print(measured_rates() or "No compiler of C that takes GCC's flags was found.")

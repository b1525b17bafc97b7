"""How many threads there are, before and after a fork."""

import os
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_limits

from sklearn_onlineem._kernels._openmp import effective_n_threads

FORK = """
import os
import numpy as np
from sklearn_onlineem._kernels._natural import LINEAR, log_density
from sklearn_onlineem._kernels._openmp import effective_n_threads

def run(n_threads):
    n, none = 20_000, np.empty(0)
    out = np.empty((n, 1))
    log_density(np.ones((n, 1)), np.zeros(1), LINEAR, np.ones((1, 1)), np.ones(1), none, out,
                n_threads)
    return bool((out == 2).all())

assert run(2)
child = os.fork()
if child == 0:
    os._exit(0 if effective_n_threads(2) == 1 and run(effective_n_threads()) else 1)
assert os.waitpid(child, 0)[1] == 0
assert effective_n_threads(2) == 2
"""


def test_numbers_count_from_one_or_from_all():
    every = effective_n_threads()
    assert every >= 1
    assert effective_n_threads(-1) == every
    assert effective_n_threads(-2) == max(1, every - 1)
    assert effective_n_threads(-1000) == 1
    assert effective_n_threads(3) == 3
    with pytest.raises(ValueError, match="n_jobs"):
        effective_n_threads(0)


def test_all_is_no_more_than_the_limit():
    with threadpool_limits(1, user_api="openmp"):
        assert effective_n_threads() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_uses_one_thread_and_does_not_hang():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)

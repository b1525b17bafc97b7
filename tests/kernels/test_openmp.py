"""How many threads there are, before and after a fork; calls that threads share."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from sklearn_onlineem._kernels._openmp import effective_n_threads, walk

TESTS = Path(__file__).parents[1]
FORK = """
import os
import numpy as np
from sklearn_onlineem._kernels._natural import LINEAR, mixture_pass
from sklearn_onlineem._kernels._openmp import effective_n_threads

def run(n_threads):
    n = 20_000
    out = np.empty((n, 1))
    rows, task = np.ones((n, 1)), (*[None] * 6, out)
    mixture_pass(rows, None, np.zeros(1), LINEAR, np.ones((1, 1)), np.ones(1), task, None, None,
                 n_threads)
    return bool((out == 2).all())

assert run(2)
child = os.fork()
if child == 0:
    os._exit(0 if effective_n_threads(2) == 1 and run(effective_n_threads(2)) else 1)
assert os.waitpid(child, 0)[1] == 0
assert effective_n_threads(2) == 2
"""


# Time that other threads spend after a loop has ended, by environment.
WAITING = """
import json
import os
import time
import numpy as np
from cases.other_threads import seconds, settle
from sklearn_onlineem._kernels._natural import LINEAR, mixture_pass

n = 100_000
out = np.empty((n, 1))
# Threads of NumPy's BLAS are awake for a while after they have been started.
settle()
rows, task = np.ones((n, 1)), (*[None] * 6, out)
mixture_pass(rows, None, np.zeros(1), LINEAR, np.ones((1, 1)), np.ones(1), task, None, None, 2)
before = seconds()
time.sleep(0.1)
print(json.dumps([seconds() - before, os.environ.get("OMP_WAIT_POLICY")]))
"""


def test_numbers_count_from_one_or_from_all():
    every = effective_n_threads(-1)
    assert every >= 1
    assert effective_n_threads(-2) == max(1, every - 1)
    assert effective_n_threads(-1000) == 1
    assert effective_n_threads(3) == 3
    assert effective_n_threads(2**40) == 2**31 - 1
    with pytest.raises(ValueError, match="n_jobs"):
        effective_n_threads(0)


def test_all_is_no_more_than_the_limit():
    with threadpool_limits(1, user_api="openmp"), parallel_config(n_jobs=2):
        assert effective_n_threads() == effective_n_threads(-1) == 1


def test_none_is_one_outside_of_contexts_of_joblib():
    """As everywhere in scikit-learn; what runs in a context has one each."""
    every = effective_n_threads(-1)
    assert effective_n_threads() == effective_n_threads(None) == 1
    with parallel_config(n_jobs=-1):
        assert effective_n_threads() == every
    with parallel_config(n_jobs=1000):
        assert effective_n_threads() == every
    with parallel_config(backend="threading", n_jobs=2):
        assert effective_n_threads() == min(2, every)
        assert Parallel()(delayed(effective_n_threads)() for _ in range(3)) == [1, 1, 1]


@pytest.mark.skipif(
    not os.path.exists("/proc/self/schedstat"), reason="no accounts of threads on this system"
)
@pytest.mark.parametrize("decision", [None, ("OMP_WAIT_POLICY", "ACTIVE")], ids=str)
def test_threads_wait_asleep_unless_the_user_decides(decision):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment.update([decision] if decision else [], PYTHONPATH=str(TESTS))
    run = [sys.executable, "-c", WAITING]
    found = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
    seconds, policy = json.loads(found.stdout)
    assert policy == (decision and decision[1])
    assert (seconds > 1e-3) == (decision is not None and os.cpu_count() > 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_uses_one_thread_and_does_not_hang():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_shared_calls_return_what_those_of_map_do(n_threads, n):
    columns = range(n), [f"call {i}" for i in range(n)]
    assert walk(lambda *call: call, n_threads, *columns) == list(zip(*columns, strict=True))
    with pytest.raises(ValueError, match="shorter"):
        walk(max, n_threads, range(n + 1), range(n))


@pytest.mark.skipif(effective_n_threads(-1) < 2, reason="one thread only")
def test_shared_calls_are_made_at_the_same_time():
    """Two wait for each other, which one thread would do for ever."""
    together = threading.Barrier(2, timeout=30)
    ids = walk(lambda _: together.wait() >= 0 and threading.get_ident(), 2, range(2))
    assert len(set(ids)) == 2


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_in_a_shared_call_is_raised_and_those_after_it_are_not_begun(n_threads):
    begun = []

    def call(i):
        begun.append(i)
        if i == 3:
            raise KeyError("number 3")

    with pytest.raises(KeyError, match="number 3"):
        walk(call, n_threads, range(100_000))
    assert len(begun) < 100_000
    assert walk(abs, n_threads, [-1, -2]) == [1, 2]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_shared_calls_handle_errors_of_numbers_as_the_caller_does(n_threads):
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        walk(lambda x: np.ones(1) / x, n_threads, [0.0] * 20)

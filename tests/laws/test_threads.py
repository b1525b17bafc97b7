"""Laws of threads: an estimator that may have one computes on one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ONE_IN, SEED

TESTS = Path(__file__).parents[1]
PATH = os.pathsep.join([str(TESTS), str(TESTS.parent)])


@pytest.mark.skipif(
    not os.path.exists("/proc/self/schedstat"), reason="no accounts of threads on this system"
)
def test_with_one_thread_no_other_is_busy():
    """Neither ours nor those of BLAS, which go on waiting actively for a while.

    A process does so for those estimators that are in the sample of cases.
    """
    run = subprocess.run(
        [sys.executable, "-m", "cases.other_threads", str(SEED), str(ONE_IN)],
        env={**os.environ, "PYTHONPATH": PATH, "OPENBLAS_NUM_THREADS": "2"},
        check=True,
        capture_output=True,
        text=True,
    )
    seconds = json.loads(run.stdout)
    assert seconds.pop("BLAS alone") > 1e-3 or os.cpu_count() == 1  # it would have been seen
    assert {name: spent for name, spent in seconds.items() if spent > 1e-3} == {}

"""Laws of threads: results do not depend on their number, and with one no other is busy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.merged_cases import EXACT, REPRESENTATIVES, TOPICS
from cases.states import essentials_of
from conftest import ONE_IN, SEED

from sklearn_onlineem import LaplaceMixture
from sklearn_onlineem.em import Gibbs, Stochastic
from sklearn_onlineem.estimators import threads

TESTS = Path(__file__).parents[1]
# Medians have no statistics that add up.
CONJUGATE = [c for c in REPRESENTATIVES if c in EXACT and c.make is not LaplaceMixture]
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


@pytest.mark.parametrize(
    ("case", "solver"),
    [
        *((case, "auto") for case in EXACT),
        *((case, "online") for case in TOPICS),
        *((case, Stochastic(average_from=1)) for case in REPRESENTATIVES),
        *((case, "bayesian") for case in CONJUGATE),
        *((case, "componentwise") for case in REPRESENTATIVES if case in ESTIMATORS),
        *((case, Gibbs(average_from=2, n_chains=3)) for case in GIBBS),
    ],
    ids=repr,
)
def test_results_do_not_depend_on_n_jobs(case, solver, rng, monkeypatch):
    # Small data have one thread otherwise.
    monkeypatch.setattr(threads, "_LEAST_WORK", 0)
    X, _ = case.data(rng, 100 if hasattr(case, "row_methods") else 1200)
    one, two = (case(solver=solver, max_iter=2, n_jobs=n).fit(X) for n in (1, 2))
    assert_identical(essentials_of(one), essentials_of(two))
    assert_identical(essentials_of(one.partial_fit(X)), essentials_of(two.partial_fit(X)))
    for method in getattr(case, "row_methods", ("transform", "score_samples")):
        assert_identical(getattr(one, method)(X), getattr(two, method)(X))

"""Take mends back in a copy of the repository, one at a time: each has to fail a test.

    .venv/bin/python .ci/mutations.py

A row: a file of the package, what the mend wrote, what stood there before it, and the tests that
should tell, as arguments of pytest. Where a line has gone, another mend takes the row's place.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MENDS = [
    ("_values.py", "if value.size:", "if True:", "test_values.py"),
    ("data/rows.py", "any(map(sparse.issparse, matrices))", "sparse.issparse(matrices[0])",
     "laws/test_sparse_input.py -k every_format"),
    ("displays/mixture.py", '"nearest"', '"antialiased"', "displays/test_responsibility.py"),
    ("displays/transitions.py", 'getattr(estimator, "durationprob_", None)', "None",
     "displays/test_transitions.py"),
    ("em/loop.py", "int(max_iter) + 1", "max_iter + 1", "distributed/test_estimator.py"),
    ("em/quasi_newton.py", "here.model.size_of(here.data), ", "",
     "em/solvers/test_batch.py -k weighted_rows"),
    ("em/quasi_newton.py", "if slope <= _ROUNDING * abs(here.objective)", "if slope <= 0.0",
     "em/solvers/test_batch.py -k rounding"),
    ("em/schedules.py", "_SMALLEST_RATE = 1e-250", "_SMALLEST_RATE = 1e-100",
     "laws/test_weights.py -k are_taken"),
    ("em/solvers/split_merge.py", "skips_outliers = False", "skips_outliers = True",
     "em/solvers/test_split_merge.py -k learn_all"),
    ("estimators/_columns.py", "None if np.iscomplexobj(values) else ", "",
     "laws/test_robustness.py -k strings_and_complex"),
    ("estimators/anomaly.py", "min(_ROWS_BELOW / share, _LARGEST_WINDOW)", "_ROWS_BELOW / share",
     "estimators/test_anomaly.py"),
    ("estimators/base.py", "tried[0][1].stopped |= progress.stopped", "pass",
     "laws/test_callbacks.py -k either"),
    ("estimators/parameters.py", "(?!n_init$)", "(?!n_init$|startprob_init$)",
     "laws/test_messages.py -k startprob_init"),
    ("estimators/hidden_markov/_base.py", "if not len(rows):  # Nothing", "if False:  # Nothing",
     "estimators/test_known_models.py"),
    ("estimators/mixtures/markov_chain.py", "if lengths is not None or groups is not None:",
     "if False:", "estimators/mixtures/test_markov_chain.py -k two_chains"),
    ("families/compound_dirichlet.py", 'rows.remember("counts of counts", lambda: found)', "found",
     "families/test_compound_dirichlet.py -k same_bits"),
    ("families/covariance_shapes.py", "(weight[0] > 0.0) * len(weight)", "len(weight)",
     "families/test_gaussian_posteriors.py"),
    ("families/gamma.py", " | ((size < 1e-3) & (size > 0.5 * previous))", "",
     "families/test_own_families.py -k few_iterations"),
    ("models/kalman/linear_dynamical.py", "LinAlgError:  # by", "ZeroDivisionError:  # by",
     "laws/test_level_shifts.py -k beside_states"),
    ("streams/search.py", "        check_is_fitted(self)\n", "", "streams/test_search.py"),
]  # fmt: skip


def told(folder, file, after, before, tests):
    """Return the test that fails, or None."""
    path = folder / "sklearn_onlineem" / file
    text = path.read_text()
    assert text.count(after) == 1, f"{file} has {text.count(after)} times {after}"
    path.write_text(text.replace(after, before))
    named = (f"tests/{a}" if a.endswith(".py") else a for a in tests.split())
    command = [sys.executable, "-m", "pytest", "-qx", "-n", "0", *named]
    environment = {**os.environ, "SKLEARN_ONLINEEM_TEST_ONE_IN": "1"}
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    path.write_text(text)
    return next((line for line in found.stdout.splitlines() if line.startswith("FAILED")), None)


with tempfile.TemporaryDirectory() as temporary:
    copy = shutil.copytree(
        ROOT, Path(temporary, "copy"), ignore=shutil.ignore_patterns(".git", ".venv*", "build")
    )
    survivors = 0
    for mend in MENDS:
        failed = told(copy, *mend)
        survivors += failed is None
        print(*mend[:2], "->", failed or "no test fails", flush=True)
sys.exit(survivors > 0)

"""The page on partitioned streams: what it lets follow a partition is killed at any moment."""

import doctest
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from cases.comparing import assert_identical

from sklearn_onlineem import PoissonMixture
from sklearn_onlineem.persistence import load, save

PAGE = Path(__file__).parents[2] / "doc/guide/partitions.rst"
AGAIN = """
import sys
import numpy as np
rows = np.load(sys.argv[2])
print("begins", flush=True)
follow(Path(sys.argv[1]), lambda position, n: rows[position : position + n], n_rows=10)
"""


def functions_of(page):
    """Return the examples of a page that import and define functions."""
    examples = doctest.DocTestParser().get_examples(page.read_text())
    return "".join(e.source for e in examples if e.source.startswith(("import", "from", "def")))


def position_in(folder):
    return max((int(file.stem) for file in folder.glob("*.npz")), default=0)


def test_a_partition_that_is_read_again_after_kills_gives_the_same_bits(rng, tmp_path):
    X = rng.poisson(rng.choice([2.0, 20.0], size=(200, 1)))
    start = PoissonMixture(2, random_state=0).partial_fit(X)
    folder = tmp_path / "learner"
    folder.mkdir()
    save(start, folder / "0.npz")
    np.save(tmp_path / "rows.npy", X)
    command = [sys.executable, "-c", functions_of(PAGE) + AGAIN, folder, tmp_path / "rows.npy"]
    n_killed = 0
    while (position := position_in(folder)) < len(X):
        until = position + 10 * rng.integers(0, 10)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "begins\n"
            while process.poll() is None and position_in(folder) < until:
                time.sleep(0.001)
            # Anywhere in a step.
            time.sleep(rng.uniform(0.0, 0.01))
            process.kill()
        n_killed += process.returncode == -signal.SIGKILL
    assert n_killed > 0
    for rows in np.split(X, 20):
        start.partial_fit(rows)
    assert_identical(load(folder / "200.npz").model_, start.model_)

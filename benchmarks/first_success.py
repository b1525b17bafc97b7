"""How long it takes a new user to do twelve usual tasks, by the code of the pages.

    python -m benchmarks.first_success             here
    python -m benchmarks.first_success --fresh     in a new environment, with the package installed

Each task is a page up to the end of the block that does it, run as a doctest in a process of its
own: imports, data and what stands before it are in its time, and a result that differs fails.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from time import perf_counter

from benchmarks import records

ROOT = Path(__file__).parents[1]
# A page, and what the code looks like.
TASKS = {
    "a CSV file in chunks of pandas": ("doc/getting_started.rst", r"read_csv\("),
    "a grid search over rates": ("README.md", r"GridSearchCV\("),
    "a pipeline of scaling, PCA and a mixture": ("doc/guide/mixtures.rst", r"make_pipeline\("),
    "an HMM of a list of sequences, decoded": ("doc/guide/hidden_markov.rst", r"decode\(sequences"),
    "code for hmmlearn, with lengths": ("doc/guide/from_hmmlearn.rst", r"lengths"),
    "code for pykalman": ("doc/guide/from_pykalman.rst", r"KalmanFilter\("),
    "a forecast of a series with gaps": ("doc/guide/kalman.rst", r"\.forecast\("),
    "two models merged": ("doc/guide/merging.rst", r"combine_estimators\("),
    "shards on Dask": ("doc/distributed.rst", r"Client\("),
    "topics from a vectoriser": ("doc/guide/topics.rst", r"CountVectorizer\("),
    "anomalies in a stream": ("doc/guide/anomalies.rst", r"AnomalyDetector\([\s\S]*partial_fit\("),
    "a stream that is saved and continues": ("doc/persistence.rst", r"pickle|skops|joblib"),
}
# Lines of a session, with what they print.
BLOCK = re.compile(r"(?:^[ ]*>>> .*\n(?:^[ ]*\S.*\n)*\n?)+", re.MULTILINE)
TYPED = re.compile(r"^ *(?:>>>|\.\.\.) ", re.MULTILINE)


def code_of(page, pattern):
    """What a page says up to the end of the block in which a pattern is found."""
    text = (ROOT / page).read_text()
    ends = (block.end() for block in BLOCK.finditer(text) if re.search(pattern, block[0]))
    return text[: next(ends)].replace("```", "")


def seconds_of(python, code):
    """Return the time that a session takes; it fails if a result differs."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(code)
        file.flush()
        options = ["-o", "ELLIPSIS", "-o", "NORMALIZE_WHITESPACE"]
        begin = perf_counter()
        subprocess.run([python, "-P", "-m", "doctest", *options, file.name], cwd=ROOT, check=True)
        return perf_counter() - begin


def fresh(folder):
    """Make an environment as a new user does; return its Python, and the time that it took."""
    begin = perf_counter()
    venv.create(folder, with_pip=True)
    python = str(Path(folder, "bin/python"))
    needed = [".[plot,dask]", "pandas", "hmmlearn", "pykalman"]
    install = [python, "-m", "pip", "install", "--quiet", *needed]
    subprocess.run(install, cwd=ROOT, check=True)
    return python, perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fresh", action="store_true", help="install into a new environment")
    parser.add_argument("--write", action="store_true", help=records.HELP)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        python, installing = fresh(folder) if arguments.fresh else (sys.executable, None)
        table = [["task", "page", "lines", "seconds"]]
        for task, (page, pattern) in TASKS.items():
            code = code_of(page, pattern)
            table.append([task, f"`{page}`", len(TYPED.findall(code)), seconds_of(python, code)])
            print("{:45s}{:35s}{:5d}{:8.1f}".format(*table[-1]), flush=True)
    if arguments.write:
        records.write("first_success", {"table": table, "installing": installing})


if __name__ == "__main__":
    main()

"""What share of online learning of topics is serial, and so what two threads can bring.

One thread learns, and the processor time of kernels that share their work among threads is taken.
The rest, s of the whole, is serial: by Amdahl's law two threads are at most 2 / (1 + s) times as
fast as one. So this can be told on a machine of which no second processor is free. What is serial
within these kernels is not counted, and is little.

    python -m benchmarks.speed.topic_threads --rounds 7
"""

import argparse
from statistics import median

from benchmarks._table import Table
from benchmarks._timing import CPU, seconds
from benchmarks.real_data.topics import CORPORA
from sklearn_onlineem import LatentDirichletAllocation
from sklearn_onlineem._kernels import _topics
from sklearn_onlineem.models.topics import inference as topic_inference
from sklearn_onlineem.models.topics import latent_dirichlet

REQUIRED = 1.7
PARALLEL = (
    (_topics, "e_step"),
    (topic_inference, "pad_rows"),
    (latent_dirichlet, "scale_columns"),
    (latent_dirichlet, "column_divergences"),
)


class Stopwatch:
    """Adds up the time of the calls of functions, which it stands in for."""

    def __init__(self):
        self.seconds = 0.0

    def of(self, function):
        def timed(*args):
            start = CPU()
            result = function(*args)
            self.seconds += CPU() - start
            return result

        return timed


def main():
    arguments = _arguments()
    stopwatch = Stopwatch()
    for module, name in PARALLEL:
        setattr(module, name, stopwatch.of(getattr(module, name)))
    table = Table("corpus, E-step", "serial", "two threads", "required", "")
    for corpus in arguments.corpora:
        X = CORPORA[corpus]()
        for e_step in ("gibbs", "map"):
            share = median(serial_share(X, e_step, stopwatch) for _ in range(arguments.rounds))
            bound = 2 / (1 + share)
            met = "met" if bound >= REQUIRED else "NOT MET"
            table.row(f"{corpus}, {e_step}", share, bound, REQUIRED, met)


def serial_share(X, e_step, stopwatch):
    learner = LatentDirichletAllocation(50, e_step=e_step, max_iter=2, n_jobs=1, random_state=0)
    stopwatch.seconds = 0.0
    whole = seconds(lambda: learner.fit(X), CPU)
    return 1.0 - stopwatch.seconds / whole


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", default=["kos", "union"], choices=CORPORA)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()

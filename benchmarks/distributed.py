"""Scale of `DistributedEM` on a cluster of processes on this machine.

    python -m benchmarks.distributed --rows 5000000

speed    : batch EM of a Gaussian mixture, two workers of one thread against one. Required: 1.7.
overhead : seconds of a round beyond its E-step, with hardly any data. Required: 30 ms.
traffic  : what workers, the scheduler and the client send each other in a round, over the size of
           the statistics times the number of shards. Required: 1.5.

The last lines say what these come to for 1,000 workers and 10 billion rows.
"""

import argparse
import time
from statistics import median

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.distributed import DistributedEM

SEED = 0


def main():
    arguments = _arguments()
    table = Table("", "measured", "required", width=60)
    rates = {n: rate(n, arguments.rows, arguments.rounds) for n in (1, 2)}
    for n, rows_per_second in rates.items():
        table.row(
            f"million rows/s of batch EM, {n} worker(s), K = 32, d = 16", rows_per_second / 1e6
        )
    table.row("two workers against one", rates[2] / rates[1], ">= 1.7")
    seconds, share = overhead(arguments.shards)
    table.row(f"ms of a round of {arguments.shards} shards, K = 10, d = 54", 1e3 * seconds, "<= 30")
    table.row("bytes sent / (statistics x shards)", share, "<= 1.5")
    estimate(rates[1], seconds)


def cluster(n_workers):
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=60
    )


def rate(n_workers, n_rows, n_rounds):
    """Rows per second of rounds, without the first, in which data are made."""
    estimator = GaussianMixture(32, random_state=SEED, max_iter=n_rounds, tol=0.0, init="random")
    with cluster(n_workers) as local, Client(local) as client:
        X = da.random.default_rng(SEED).normal(size=(n_rows, 16), chunks=(n_rows // 8, 16))
        X = client.persist(X)
        history = DistributedEM(estimator).fit(X, client=client).history_
    return n_rows / median(part.seconds for part in history[1:])


def overhead(n_shards, n_rounds=60):
    """Seconds of a round of shards of 20 rows, and the traffic over that of the statistics."""
    estimator = GaussianMixture(
        10, random_state=SEED, max_iter=n_rounds, tol=0.0, init="random", reg_covar=1.0
    )
    parts = np.random.default_rng(SEED).normal(size=(n_shards, 20, 54))
    with cluster(2) as local, Client(local) as client:
        # One worker would be enough for so few rows, so each is given half of the shards.
        workers = list(client.scheduler_info()["workers"])
        shards = [
            client.submit(np.copy, part, workers=workers[i % 2], allow_other_workers=True)
            for i, part in enumerate(parts)
        ]
        # Once before, so that modules are loaded.
        DistributedEM(estimator).fit(shards, client=client)
        before, start = traffic(client), time.perf_counter()
        learner = DistributedEM(estimator).fit(shards, client=client)
        elapsed = time.perf_counter() - start
        sent = traffic(client) - before
    own = local_round(estimator, parts)
    statistics = learner.estimator_.model_.own_statistics()
    size = n_shards * (statistics.emissions.mean.nbytes + statistics.emissions.scatter.nbytes)
    seconds = median(part.seconds for part in learner.history_[1:]) - own
    print(f"({elapsed:.2f} s a fit; {sent / n_rounds / 1e3:.0f} kB a round from workers)")
    # Besides, the client sends the model to the scheduler, which sends it to both workers, and what
    # comes from them on to the client.
    return seconds, (2 * sent / n_rounds + 3 * size / n_shards) / size


def local_round(estimator, parts):
    """Seconds of the E-steps and the M-step of a round, one after the other."""
    history = DistributedEM(estimator, n_shards=len(parts)).fit(np.concatenate(parts)).history_
    return median(part.seconds for part in history)


def traffic(client):
    """Bytes that workers have sent to other workers and clients."""
    totals = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
    return sum(totals.values())


def estimate(rows_per_second, overhead_seconds):
    n_rows, n_workers, depth = 1e10, 1000, 4
    k, d = 32, 16
    size = 8 * k * (1 + d + d * d)
    seconds = n_rows / n_workers / rows_per_second + depth * overhead_seconds
    print(
        f"\n1,000 workers, 10 billion rows, K = {k}, d = {d}: a worker has 10 million rows,"
        f" {n_rows / n_workers / rows_per_second:.1f} s a round, and a tree of {depth} levels takes"
        f" about {depth * overhead_seconds:.2f} s more, so {3600 / seconds:.0f} rounds an hour;"
        f" {2 * n_workers * size / 1e6:.0f} MB a round if each worker gets the model and sends its"
        " statistics once."
    )


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--shards", type=int, default=8)
    return parser.parse_args()


if __name__ == "__main__":
    main()

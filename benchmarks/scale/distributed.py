"""Scale of `DistributedEM` on processes of this machine: a cluster of Dask's, and joblib.

    python -m benchmarks.scale.distributed --rows 5000000

speed    : batch EM of a Gaussian mixture, two workers of one thread against one. Required: 1.8.
overhead : seconds of a round beyond its E-step, with hardly any data. Required: 30 ms. Most of it
           is what Dask takes for any two tasks that carry as much, which is the row below.
traffic  : what workers, the scheduler and the client send each other in a round, over the size of
           the statistics times the number of shards. Required: 1.5.

Workers keep the memory that they have freed, as doc/distributed.rst recommends. The last lines say
what these come to for 1,000 workers and 10 billion rows.
"""

import argparse
import time
from statistics import median

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.distributed import DistributedEM

SEED = 0
MALLOC = {
    f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_": n_bytes
    for name, n_bytes in (("MMAP", 1 << 25), ("TRIM", 1 << 28))
}


def main():
    arguments = _arguments()
    table = Table("", "measured", "required", width=60)
    for name, measure in (("joblib", joblib_rate), ("Dask", rate)):
        rates = {n: measure(n, arguments.rows, arguments.rounds) for n in (1, 2)}
        for n, rows_per_second in rates.items():
            table.row(
                f"{name}: million rows/s of batch EM, {n} worker(s), K = 32, d = 16",
                rows_per_second / 1e6,
            )
        table.row(f"{name}: two workers against one", rates[2] / rates[1], ">= 1.8")
    seconds, empty, share = overhead(arguments.shards)
    table.row(f"ms of a round of {arguments.shards} shards, K = 10, d = 54", 1e3 * seconds, "<= 30")
    table.row("ms of two tasks that only send as much", 1e3 * empty)
    table.row("bytes sent / (statistics x shards)", share, "<= 1.5")
    estimate(rates[1], seconds)


def cluster(n_workers):
    with dask.config.set(MALLOC):
        return LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=60
        )


def rate(n_workers, n_rows, n_rounds):
    """Rows per second of rounds, without the first, in which data are made."""
    with cluster(n_workers) as local, Client(local) as client:
        X = da.random.default_rng(SEED).normal(size=(n_rows, 16), chunks=(n_rows // 8, 16))
        X = client.persist(X)
        history = DistributedEM(mixture(n_rounds)).fit(X, client=client).history_
    return n_rows / median(part.seconds for part in history[1:])


def joblib_rate(n_jobs, n_rows, n_rounds):
    """As `rate`, by processes of joblib's."""
    X = np.random.default_rng(SEED).normal(size=(n_rows, 16))
    history = DistributedEM(mixture(n_rounds), n_jobs=n_jobs).fit(X).history_
    return n_rows / median(part.seconds for part in history[1:])


def mixture(n_rounds):
    return GaussianMixture(
        32, random_state=SEED, max_iter=n_rounds, tol=0.0, init="random", n_jobs=1
    )


def overhead(n_shards, n_rounds=60, n_fits=3):
    """Seconds of a round of shards of 20 rows, of two empty tasks, and the share of the traffic.

    Seconds are medians over rounds, and the best of several fits, as other work on a machine makes
    them longer.
    """
    estimator = GaussianMixture(
        10, random_state=SEED, max_iter=n_rounds, tol=0.0, init="random", reg_covar=1.0
    )
    parts = np.random.default_rng(SEED).normal(size=(n_shards, 20, 54))
    seconds, empty = [], []
    with cluster(2) as local, Client(local) as client:
        # Each worker is given half of the shards; where they stay, is for the learner to say.
        workers = list(client.scheduler_info()["workers"])
        shards = [
            client.submit(np.copy, part, workers=workers[i % 2], allow_other_workers=True)
            for i, part in enumerate(parts)
        ]
        # Once before, so that modules are loaded.
        learner = DistributedEM(estimator).fit(shards, client=client)
        statistics = learner.estimator_.model_.own_statistics().emissions.scatter
        before = traffic(client)
        for _ in range(n_fits):
            history = DistributedEM(estimator).fit(shards, client=client).history_
            seconds.append(median(part.seconds for part in history[1:]))
        sent = (traffic(client) - before) / (n_fits * n_rounds)
        for _ in range(n_fits):
            empty.append(median(round_trip(client, workers, statistics) for _ in range(n_rounds)))
    # Besides, the client sends the model to the scheduler, which sends it to at most both workers,
    # and what comes from them on to the client.
    share = (2 * sent + 3 * statistics.nbytes) / (n_shards * statistics.nbytes)
    return min(seconds) - local_round(estimator, parts), min(empty), share


def round_trip(client, workers, values):
    """Seconds until an array has gone to each worker and come back."""
    start = time.perf_counter()
    client.gather([client.submit(np.copy, values, workers=[w], pure=False) for w in workers])
    return time.perf_counter() - start


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
    parser.add_argument("--rounds", type=int, default=6, help="from 2: the first is not timed")
    parser.add_argument("--shards", type=int, default=8)
    return parser.parse_args()


if __name__ == "__main__":
    main()

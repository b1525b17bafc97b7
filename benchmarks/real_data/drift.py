"""When a stream's source has changed: `DriftWatch` against ADWIN and Page-Hinkley of river.

Streams are cut from rows of several sources, shuffled within each, so that it is known when the
source changes and that nothing else does: wilderness areas of Covertype, motes of the sensor
network (without the hot water that was held to some), seasons of the air quality. Segments are of
equal lengths, and no source follows itself. A `GaussianMixture(3)` with default rates learns each
batch after it was scored.

    python -m benchmarks.real_data.drift

"DriftWatch" has the steps of `partial_fit`. river's detectors, with their default settings, have
the log-likelihoods of the same model from before each batch is learnt: of each row ("rows"), or the
mean of each batch ("batches"), divided by their standard deviation in the first 1,000 rows; of
rows, also with settings that make false alarms rarer. Where river is not installed, they are left
out.

"delay" is the median of the rows from a change to the first alarm after it, at the end of a batch
for what sees batches only; "missed" the changes without any before the next one; "false" all other
alarms per 10,000 rows, and "late" those of them in second halves of segments, where the model has
had time to learn the new source: of 10,000 rows in these.

The first table says what ``DriftWatch(action="restart")`` brings: the mean log-likelihood of rows
before they are learnt, in the first quarters and in the second halves of all segments but the
first, medians over seeds, without it and with it.
"""

import argparse
import warnings

import numpy as np

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.diagnostics import DriftWatch

try:
    from river import drift as of_river
except ImportError:
    of_river = None

N_SEGMENTS, N_SEEDS, BATCH_SIZES, N_FIRST = 8, 10, (10, 50), 1000


def covertype_sources():
    X, areas = datasets.load_covertype_areas()
    return [X[areas == area] for area in range(4)], 8000


def sensor_sources():
    readings, labels = datasets.load_sensor_motes()
    return [X[~hot] for X, hot in zip(readings, labels, strict=True)], 2000


def air_quality_sources():
    X, months = datasets.load_air_quality_months()
    return [X[(months % 12) // 3 == season] for season in range(4)], 1200


STREAMS = {
    "Covertype by area": covertype_sources,
    "sensor network by mote": sensor_sources,
    "air quality by season": air_quality_sources,
}


def stream(sources, length, rng):
    """Rows of segments one after the other, standardised by all of them."""
    order = [int(rng.integers(len(sources)))]
    while len(order) < N_SEGMENTS:
        order.append(int(rng.choice([k for k in range(len(sources)) if k != order[-1]])))
    X = np.concatenate([rng.choice(sources[k], length, replace=False) for k in order])
    return (X - X.mean(axis=0)) / X.std(axis=0)


def scored(X, batch_size, watch, seed):
    """Log-likelihoods of the rows, each batch before it is learnt."""
    model = GaussianMixture(3, callbacks=[watch], random_state=seed)
    scores = []
    for start in range(0, len(X), batch_size):
        batch = X[start : start + batch_size]
        scores.append(model.score_samples(batch) if start else np.full(len(batch), np.nan))
        model.partial_fit(batch)
    return np.concatenate(scores)


def alarms_of(detector, scores, rows):
    """Rows read when a detector of river has found a change."""
    found = []
    for score, n_rows in zip(scores, rows, strict=True):
        detector.update(score)
        if detector.drift_detected:
            found.append(int(n_rows))
    return found


def rivals(scores, batch_size):
    """Alarms by the name of the detector."""
    if of_river is None:
        return {}
    seen = ~np.isnan(scores)
    batches = np.array(
        [s.mean() for s in np.split(scores, range(batch_size, len(scores), batch_size))]
    )
    ends = np.minimum(np.arange(1, len(batches) + 1) * batch_size, len(scores))
    known = ~np.isnan(batches)
    n_known = max(2, N_FIRST // batch_size)
    by_rows = scores[seen] / scores[seen][:N_FIRST].std(), np.flatnonzero(seen) + 1
    by_batches = batches[known] / batches[known][:n_known].std(), ends[known]
    detectors = {
        "ADWIN": of_river.ADWIN,
        "ADWIN(1e-9)": lambda: of_river.ADWIN(delta=1e-9),
        "Page-Hinkley": of_river.PageHinkley,
        "Page-Hinkley(500)": lambda: of_river.PageHinkley(threshold=500.0),
    }
    return {
        f"{name}, {kind}": alarms_of(make(), *values)
        for name, make in detectors.items()
        for kind, values in (("rows", by_rows), ("batches", by_batches))
        if kind == "rows" or "(" not in name
    }


def followed(scores, length):
    """Mean log-likelihoods soon after changes, and later."""
    segments = scores.reshape(N_SEGMENTS, length)[1:]
    return segments[:, : length // 4].mean(), segments[:, length // 2 :].mean()


def brought(sources, length, batch_size, n_seeds):
    """Medians of `followed` over seeds, when nothing is done about a change, and with restarts."""
    results = {"stop": [], "restart": []}
    for seed in range(n_seeds):
        X = stream(sources, length, np.random.default_rng(seed))
        for action, found in results.items():
            watch = DriftWatch(action=action)
            found.append(followed(scored(X, batch_size, watch, seed), length))
    return np.median(results["stop"], axis=0), np.median(results["restart"], axis=0)


def judged(alarms, length):
    """Delays, and numbers of missed changes, of false alarms, and of those in second halves."""
    alarms, delays, n_missed = np.asarray(alarms), [], 0
    is_false = np.ones(len(alarms), dtype=bool)
    for change in range(length, N_SEGMENTS * length, length):
        after = np.flatnonzero((alarms > change) & (alarms <= change + length))
        n_missed += not len(after)
        if len(after):
            delays.append(alarms[after[0]] - change)
            is_false[after[0]] = False
    is_late = (alarms - 1) % length >= length // 2
    return delays, n_missed, int(is_false.sum()), int((is_false & is_late).sum())


def contest(sources, length, batch_size, n_seeds):
    """Delays, misses and false alarms of each detector, over all seeds."""
    outcomes = {}
    for seed in range(n_seeds):
        X, watch = stream(sources, length, np.random.default_rng(seed)), DriftWatch(action="stop")
        scores = scored(X, batch_size, watch, seed)
        found = {"DriftWatch": [drift.n_rows for drift in watch.alarms]}
        for name, alarms in (found | rivals(scores, batch_size)).items():
            outcomes.setdefault(name, []).append(judged(alarms, length))
    return outcomes


def print_restarts(n_seeds):
    headings = "as it is", "restarts", "later", "restarts"
    table = Table("log-likelihood soon after changes", "batches of", *headings)
    for name, load in STREAMS.items():
        sources, length = load()
        for batch_size in BATCH_SIZES:
            as_it_is, restarts = brought(sources, length, batch_size, n_seeds)
            values = np.column_stack([as_it_is, restarts]).ravel()
            table.row(name, batch_size, *map(float, values))
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    n_seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    print_restarts(n_seeds)
    for name, load in STREAMS.items():
        sources, length = load()
        table = Table(f"{name}, in batches", "of", "delay", "missed", "false", "late")
        for batch_size in BATCH_SIZES:
            outcomes = contest(sources, length, batch_size, n_seeds)
            for detector, judgements in outcomes.items():
                delays, *numbers = zip(*judgements, strict=True)
                delays, (n_missed, n_false, n_late) = sum(delays, []), map(sum, numbers)
                n_rows, n_changes = n_seeds * N_SEGMENTS * length, n_seeds * (N_SEGMENTS - 1)
                table.row(
                    detector,
                    batch_size,
                    float(np.median(delays)) if delays else np.inf,
                    f"{n_missed}/{n_changes}",
                    1e4 * n_false / n_rows,
                    2e4 * n_late / n_rows,
                )
        print()


if __name__ == "__main__":
    main()

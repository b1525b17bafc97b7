"""How much do further starts of hidden Markov models gain, and what do they cost, on real series?

Series are cut into pieces of 25 rows, or of 100 if they have more than 1000: those of even numbers
are learnt, the others are held out. "one" is the mean of fits that differ in their seed, from one
start, in nats a row below the likeliest of all fits. The other columns are gains over it, in
training and held out, and CPU times in fits from one start: "2, 20" are two starts of which the
likelier goes on after twenty passes, and "default" is what `Auto` does: three starts, 20 passes.
The last rows are means and medians of all, and how many gain and lose more than .001 nats held out.

    python -m benchmarks.real_data.chain_starts
"""

import argparse
import time
import warnings
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import GaussianHMM
from sklearn_onlineem.em.solvers import auto

SERIES = {
    "US macro": datasets.load_us_macro,
    "growth of the US": lambda: np.diff(datasets.load_us_macro(), axis=0),
    "Old Faithful, 1990": datasets.load_old_faithful,
    "Old Faithful, 1985": datasets.load_geyser,
    "sunspots": datasets.load_sunspots,
    "El Nino": datasets.load_el_nino,
    "CO2": lambda: np.diff(datasets.load_co2_weeks(), axis=0),
    "air quality": lambda: datasets.load_air_quality()[:4000],
    "sensors": lambda: datasets.load_sensor_network()[:5000],
}
STATES = (2, 3, 4, 6)
# How many starts, and after how many passes the likeliest goes on.
TRIALS = {"2, 20": (2, 20), "3, 6": (3, 6), "5, 20": (5, 20)}


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    names = [*TRIALS, "default", "n_init=3"]
    columns = [f"{name} {what}" for name in names for what in ("train", "held", "fits")]
    table, rows = Table("series, states, covariances", "one", *columns, width=36), []
    for series, load in SERIES.items():
        X = np.asarray(load(), dtype=float)
        X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
        n = 100 if len(X) > 1000 else 25
        pieces = [X[begin : begin + n] for begin in range(0, len(X) - n + 1, n)]
        for K in STATES:
            for covariance_type in ("full", "diag"):
                settings = {"n_components": K, "covariance_type": covariance_type}
                row = compare(pieces[::2], pieces[1::2], settings, arguments.seeds)
                rows.append(row)
                table.row(f"{series}, {K}, {covariance_type}", *row)
    table.row("mean", *map(float, np.mean(rows, axis=0)))
    table.row("median", *map(float, np.median(rows, axis=0)))
    for name, gains in zip(names, np.transpose(rows)[2::3], strict=True):
        print(f"{name}: gains on {(gains > 1e-3).sum()}, loses on {(gains < -1e-3).sum()}")


def compare(train, test, settings, n_seeds):
    """Return how far one start ends below the best, and gains and times of the others."""
    chosen, n_rows = (auto._STARTS, auto._TRIAL), len(train[0])
    fits = {
        "one": {"n_init": 1},
        **dict.fromkeys([*TRIALS, "default"], {}),
        "n_init=3": {"n_init": 3},
    }
    scores, times = {name: [] for name in fits}, {name: [] for name in fits}
    for seed in range(n_seeds):
        for name, how in fits.items():
            auto._STARTS, auto._TRIAL = TRIALS.get(name, chosen)
            hmm = GaussianHMM(random_state=seed, **settings, **how)
            begun = time.process_time()
            hmm.fit(train)
            times[name].append(time.process_time() - begun)
            scores[name].append((hmm.score(train) / n_rows, hmm.score(test) / n_rows))
    auto._STARTS, auto._TRIAL = chosen
    best = max(score for found in scores.values() for score, _ in found)
    one = np.mean(scores.pop("one"), axis=0)
    row, unit = [float(best - one[0])], median(times["one"])
    for name, found in scores.items():
        row += [*map(float, np.mean(found, axis=0) - one), median(times[name]) / unit]
    return row


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=6)
    return parser.parse_args()


if __name__ == "__main__":
    main()

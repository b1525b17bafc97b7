"""Kalman filters on real sequences.

air      hourly air quality with gaps: error of imputed cells that were hidden on purpose
sensors  humidity and temperature of eight motes: anomalies by what the filter does not foresee
macro    US economy: forecasts one quarter ahead, learnt as the quarters come
starts   eight series: forecasts up to twelve steps ahead after batch EM from each start

    python -m benchmarks.real_data.kalman --only air
"""

import argparse
import warnings
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture, KalmanFilter


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in arguments.only or BENCHMARKS:
        print(f"\n{name}\n")
        BENCHMARKS[name](arguments.seeds)


# ------------------------------------------------------------------------------------- air quality

LONGEST_GAP, HIDDEN, WEEK = 24, 0.05, 168


def air(n_seeds):
    """Root mean squared error of hidden cells, in standard deviations of their variable."""
    X = datasets.load_air_quality_hours()
    rounds = [_air_round(X, seed) for seed in range(n_seeds)]
    table = Table("hidden runs of 1..24 hours, medians of seeds", "RMSE", "worst")
    for name in rounds[0]:
        errors = [errors[name] for errors in rounds]
        table.row(name, median(errors), max(errors))


def _air_round(X, seed):
    """Errors of each way to fill the gaps, for one choice of what is hidden."""
    gaps = _with_gaps(X, np.random.default_rng(seed))
    hidden = np.isnan(gaps) & ~np.isnan(X)
    scale = np.nanstd(X, axis=0)

    def error(filled):
        return float(np.sqrt((((filled - X) / scale)[hidden] ** 2).mean()))

    means = np.nanmean(gaps, axis=0)
    errors = {
        "mean": error(np.broadcast_to(means, X.shape)),
        "forward fill": error(_filled_forward(gaps, means)),
        "straight line": error(_interpolated(gaps)),
    }
    for k in (4, 8, 16):
        errors[f"Kalman, {k} states, one pass of weeks"] = error(_passed(gaps, k).impute(gaps))
    return errors


def _with_gaps(X, rng):
    """X without some runs of hours in each variable."""
    gaps = X.copy()
    n_runs = int(HIDDEN * len(X) / (0.5 * (1 + LONGEST_GAP)))
    for column in gaps.T:
        for begin in rng.integers(0, len(X), n_runs):
            column[begin : begin + rng.integers(1, LONGEST_GAP + 1)] = np.nan
    return gaps


def _passed(X, k):
    """One pass of `partial_fit` over the weeks, each going on where the last stopped."""
    kalman = KalmanFilter(k, random_state=0)
    for week in np.array_split(X, len(X) // WEEK):
        kalman.partial_fit(week, continues=True)
    return kalman


def _filled_forward(X, first):
    """The last value seen in each gap, and `first` before there is one."""
    last = np.where(np.isnan(X), 0, np.arange(1, len(X) + 1)[:, None])
    rows = np.maximum.accumulate(last, axis=0)
    return np.vstack([first, X])[rows, np.arange(X.shape[1])]


def _interpolated(X):
    t, filled = np.arange(len(X)), X.copy()
    for column in filled.T:
        seen = ~np.isnan(column)
        column[~seen] = np.interp(t[~seen], t[seen], column[seen])
    return filled


# ----------------------------------------------------------------------------------------- sensors


def sensors(n_seeds):
    """Filters of the first quarter of a mote's rows score the rest; so do mixtures, row by row."""
    readings, labels = datasets.load_sensor_motes()
    table = Table("mote with anomalies, score", "ROC AUC", "av. precision", "share")
    for mote, (X, y) in enumerate(zip(readings, labels, strict=True)):
        if not y.any():
            continue
        begin = len(X) // 4
        for name, scores in _anomaly_scores(X, begin):
            truth = y[begin:]
            auc, precision = roc_auc_score(truth, scores), average_precision_score(truth, scores)
            table.row(f"{mote}, {name}", float(auc), float(precision), float(truth.mean()))


def _anomaly_scores(X, begin):
    train, test = X[:begin], X[begin:]
    kalman = KalmanFilter(2, random_state=0)
    for piece in np.array_split(train, 20):
        kalman.partial_fit(piece, continues=True)
    yield "innovations of the filter", -kalman.score_rows(X)[begin:]
    # An anomaly lasts: the mean of a minute.
    minute = np.convolve(-kalman.score_rows(X), np.full(12, 1 / 12), mode="same")
    yield "the same, means of a minute", minute[begin:]
    mixture = GaussianMixture(2, random_state=0).fit(train)
    yield "rows under a mixture", -mixture.score_samples(test)
    change = np.abs(np.diff(X, axis=0, prepend=X[:1])) / np.abs(np.diff(train, axis=0)).std(axis=0)
    yield "size of the change", change.sum(axis=1)[begin:]


# ------------------------------------------------------------------------------------------- macro

N_FIRST = 100


def macro(n_seeds):
    """Errors relative to the mean of the past, quarter by quarter; the filter learns as it goes."""
    X = datasets.load_us_macro()
    past = np.array([X[:t].mean(axis=0) for t in range(N_FIRST, len(X))])
    base = _error(past, X)
    names = ("GDP", "cons.", "inv.", "gov.", "unempl.", "infl.", "bills")
    table = Table("one quarter ahead", *names, "all", width=30)
    forecasts = {
        "mean of the past": past,
        "last quarter": X[N_FIRST - 1 : -1],
        "vector autoregression": _autoregressed(X),
    }
    for k in (2, 4, 6):
        forecasts[f"Kalman, {k} states, online"] = _learnt_online(X, k)
    for name, forecast in forecasts.items():
        relative = _error(forecast, X) / base
        table.row(name, *map(float, relative), float(relative.mean()))


def _error(forecast, X):
    return np.sqrt(((forecast - X[N_FIRST:]) ** 2).mean(axis=0))


def _autoregressed(X):
    """Least squares of all quarters so far on the quarters before them."""
    rows = []
    for t in range(N_FIRST, len(X)):
        inputs = np.column_stack([np.ones(t), X[:t]])
        coefficients = np.linalg.lstsq(inputs[:-1], X[1:t], rcond=None)[0]
        rows.append(inputs[-1] @ coefficients)
    return np.array(rows)


def _learnt_online(X, k):
    """Batch EM on the first quarters, then two years at a time."""
    kalman = KalmanFilter(k, em_vars="all", eta0=0.1, schedule="constant", random_state=0)
    kalman.fit(X[:N_FIRST]).partial_fit(X[:N_FIRST], continues=True)
    rows = []
    for begin in range(N_FIRST, len(X), 8):
        end = min(begin + 8, len(X))
        rows.append(kalman.predict(X[:end])[begin:])
        kalman.partial_fit(X[begin:end], continues=True)
    return np.concatenate(rows)


# ------------------------------------------------------------------------------------------ starts

N_STEPS, MOST_ROWS, PASSES = 12, 3000, (100, 1000)
SERIES = {
    "co2, weeks": (datasets.load_co2_weeks, 8),
    "co2, months": (datasets.load_co2_months, 4),
    "El Nino": (datasets.load_el_nino, 4),
    "sunspots": (datasets.load_sunspots, 4),
    "air, CO": (lambda: datasets.load_air_quality_hours()[:, [0]], 6),
    "air, temperature": (lambda: datasets.load_air_quality_hours()[:, [10]], 6),
    "air, three": (lambda: datasets.load_air_quality_hours()[:, [0, 4, 10]], 8),
    "macro, seven": (datasets.load_us_macro, 10),
}


def starts(n_seeds):
    """Errors of all steps on the last 30 % of rows, in standard deviations; nats a row in fits."""
    for n_passes in PASSES:
        columns = ("pca", "auto", "ratio", "nats pca", "nats auto")
        table = Table(f"{n_passes} passes of batch EM, states", *columns, width=32)
        for name, (load, k) in SERIES.items():
            X = np.ascontiguousarray(load()[:MOST_ROWS])
            train = X[: int(0.7 * len(X))]
            fit = {"solver": "batch", "max_iter": n_passes, "tol": 0.0, "random_state": 0}
            fits = [KalmanFilter(k, init=init, **fit).fit(train) for init in ("pca", "auto")]
            before, after = (_rolling_error(kalman, X, len(train)) for kalman in fits)
            nats = (kalman.score(train) / len(train) for kalman in fits)
            table.row(f"{name}, {k}", before, after, after / before, *nats)


def _rolling_error(kalman, X, begin):
    """Error of forecasts of each of the next rows, from every row after `begin` on."""
    states, errors = kalman.filter(X)[0][begin - 1 : -N_STEPS], []
    for step in range(N_STEPS):
        states = states @ kalman.transition_matrices_.T
        rows = states @ kalman.observation_matrices_.T + kalman.observation_offsets_
        errors.append(rows - X[begin + step : len(X) - N_STEPS + 1 + step])
    return float(np.sqrt(np.nanmean((np.array(errors) / np.nanstd(X, axis=0)) ** 2)))


BENCHMARKS = {"air": air, "sensors": sensors, "macro": macro, "starts": starts}


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="choices of hidden cells")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

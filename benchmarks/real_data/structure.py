"""Structural models on real series, beside statsmodels and ssfortran.

    python -m benchmarks.real_data.structure --write

Levels and trends, with seasons where there are any, and a cycle. statsmodels has exact diffuse
starts, too, and so has ssfortran, in a process of its own: `SSFORTRAN` is the Python that has it.
The first state of a cycle has the variance of the series, in statsmodels' model as well; in
ssfortran's it has the one that the cycle tends to, which depends on its parameters.

Likelihoods and forecasts:

at ours        log-likelihood of statsmodels at our variances, less ours
best           its best maximum of three optimisers, less ours of 5 starts with ``tol=1e-6``
default        the same, less ours by default
ssfortran      its maximum, less ours of 5 starts
error          root mean squared error of the last 12 rows, forecast from those before, in units of
               the error of the last value; and the share of these in intervals of 90 %

Times are seconds of one fit by the clock of the process, median of 5, and how many times those of
others ours are. Those of 1,000 series of 144 months are of a fit of all, whose variances are
shared, and 1,000 times the median of 20 of them.
"""

import argparse
import os
import subprocess
import tempfile
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import datasets, records
from benchmarks._table import Table
from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.structure import Cycle, Level, Season, Trend

N_AHEAD, N_SERIES, N_TIMED = 12, 1000, 20
SERIES = {
    "CO2, months": (lambda: datasets.load_co2_months()[-240:], [Trend(), Season(12)]),
    "El Nino, months": (lambda: _without_means(datasets.load_el_nino()), [Level(), Season(12)]),
    "GDP, quarters": (lambda: np.cumsum(datasets.load_us_macro()[:, 0]), [Trend(), Season(4)]),
    "inflation, quarters": (lambda: datasets.load_us_macro()[:, 5], [Level()]),
    "sunspots, years": (lambda: datasets.load_sunspots()[:, 0], [Trend()]),
    "sunspots, a cycle": (lambda: datasets.load_sunspots()[:, 0], [Level(), Cycle()]),
    "nitrogen oxides, days": (
        lambda: _days(datasets.load_air_quality_hours()),
        [Level(), Season(7)],
    ),
}
FORTRAN = """
import sys, time
import numpy as np
import ssfortran as ss
y, period, first = np.loadtxt(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
parts = [ss.Irregular(), getattr(ss, first)(), *(getattr(ss, name)() for name in sys.argv[4:])]
parts += [ss.Seasonal(period)] if period else []
seconds = []
for series in [y] * 5 if y.ndim == 1 else y:
    begin = time.process_time()
    found = ss.StructuralModel(series, parts).fit()
    seconds.append(time.process_time() - begin)
print(found.llf, np.median(seconds))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the guide's table")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    # Threads of BLAS that wait for work of others would count as ours.
    threadpool_limits(1)
    fits, times = {}, {}
    for name, (load, structure) in SERIES.items():
        y = np.asarray(load(), dtype=float).ravel()
        fits[name], times[name] = _compared(y, structure), _timed(y, structure)
    columns = ["at ours", "best", "default", "ssfortran", "error", "inside", "theirs", "inside"]
    tables = {"fits": _table("series", columns, fits, [".0e"] * 4 + [".2f"] * 4)}
    columns = ["seconds", "statsmodels", "ssfortran", "times statsmodels", "times ssfortran"]
    tables["times"] = _table("series", columns, times, [".3f"] * 3 + [".2f", ".1f"])
    columns = ["seconds", "times ours"]
    tables["many"] = _table("1,000 series", columns, _many(), [".1f", ".1f"])
    if arguments.write:
        records.write("structure", tables)


def _table(first, columns, rows, forms):
    """Print figures, and return them as cells."""
    table, cells = Table(first, *columns, width=24), [[first, *columns]]
    for name, figures in rows.items():
        table.row(name, *figures)
        cells.append([name, *map(format, figures, forms)])
    return cells


def _compared(y, structure):
    X = y[:, None]
    exact = KalmanFilter(structure=structure, tol=1e-6, n_init=5, random_state=0).fit(X)
    score, theirs = exact.score(X), _theirs(y, structure)
    at_ours = _parameters(exact)
    best = max(
        theirs.fit(disp=0, method=how, maxiter=1000).llf for how in ("lbfgs", "nm", "powell")
    )
    default = KalmanFilter(structure=structure).fit(X).score(X)
    gaps = theirs.loglike(at_ours) - score, best - score, best - default
    gaps = *gaps, _fortran(y, structure)[0] - score
    return *gaps, *_ahead_by_ours(y, structure), *_ahead_by_theirs(y, structure)


def _parameters(kalman):
    """Return those of statsmodels: of a cycle one variance, its frequency and its rate."""
    variances, A = kalman.transition_covariance_.diagonal(), kalman.transition_matrices_
    found = [kalman.observation_covariance_[0, 0], *variances[variances > 0.0]]
    if Cycle() in kalman.structure:
        a, b = A[1, 1:]
        found[-1:] = [abs(np.arctan2(b, a)), np.hypot(a, b)]
    return found


def _timed(y, structure):
    ours = _seconds(lambda: KalmanFilter(structure=structure).fit(y[:, None]))
    theirs = _seconds(lambda: _theirs(y, structure).fit(disp=0))
    fortran = _fortran(y, structure)[1]
    return ours, theirs, fortran, ours / theirs, ours / fortran


def _theirs(y, structure):
    from statsmodels.tsa.statespace.initialization import Initialization
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    level = "lltrend" if isinstance(structure[0], Trend) else "llevel"
    season = structure[-1].period if isinstance(structure[-1], Season) else None
    if Cycle() not in structure:
        return UnobservedComponents(y, level, seasonal=season, use_exact_diffuse=True)

    class Cyclic(UnobservedComponents):
        def initialize_default(self, *_, **__):
            own = Initialization(self.k_states)
            own.set(0, "diffuse")
            own.set((1, 3), "known", constant=np.zeros(2), stationary_cov=np.var(y) * np.eye(2))
            self.ssm.initialization = own

    names = {"cycle": True, "stochastic_cycle": True, "damped_cycle": True}
    names["cycle_period_bounds"] = 2.0, len(y)
    return Cyclic(y, level, **names, use_exact_diffuse=True)


def _ahead(means, low, high, y):
    truth = y[-N_AHEAD:]
    seen = ~np.isnan(truth)
    last = y[:-N_AHEAD][~np.isnan(y[:-N_AHEAD])][-1]
    error = np.sqrt(((means - truth)[seen] ** 2).mean() / ((last - truth)[seen] ** 2).mean())
    return float(error), float(((low <= truth) & (truth <= high))[seen].mean())


def _ahead_by_ours(y, structure):
    past = y[:-N_AHEAD, None]
    kalman = KalmanFilter(structure=structure).fit(past)
    means, ends = kalman.forecast(past, N_AHEAD, quantiles=[0.05, 0.95])
    return _ahead(means.ravel(), *ends[:, :, 0], y)


def _ahead_by_theirs(y, structure):
    found = _theirs(y[:-N_AHEAD], structure).fit(disp=0).get_forecast(N_AHEAD)
    return _ahead(found.predicted_mean, *found.conf_int(alpha=0.1).T, y)


def _fortran(y, structure):
    if "SSFORTRAN" not in os.environ:
        return [np.nan, np.nan]
    period = sum(part.period for part in structure if isinstance(part, Season))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "series.txt")
        np.savetxt(path, y)
        call = [os.environ["SSFORTRAN"], "-c", FORTRAN, path, str(period)]
        call += [type(part).__name__ for part in structure if not isinstance(part, Season)]
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(call, env=alone, capture_output=True, text=True, check=True)
    return [float(figure) for figure in done.stdout.split()]


def _many():
    """Series that share variances, by one fit, beside one fit each."""
    rng, structure = np.random.default_rng(0), [Trend(), Season(12)]
    y = np.asarray(SERIES["CO2, months"][0]()).ravel()[:144]
    draws = rng.normal(size=(N_SERIES, 144)).cumsum(axis=1) + y
    some = draws[:N_TIMED]
    each = [
        [_seconds(lambda y=y: KalmanFilter(structure=structure).fit(y[:, None]), 1) for y in some],
        [_seconds(lambda y=y: _theirs(y, structure).fit(disp=0), 1) for y in some],
    ]
    names = "one fit of all", "one fit each", "statsmodels, one fit each", "ssfortran, one fit each"
    shared = KalmanFilter(structure=structure, random_state=0)
    seconds = [_seconds(lambda: shared.fit([*draws[..., None]]), 3)]
    seconds += [N_SERIES * np.median(times) for times in each]
    seconds.append(N_SERIES * _fortran(some, structure)[1])
    return {name: (found, found / seconds[0]) for name, found in zip(names, seconds, strict=True)}


def _seconds(call, n=5):
    found = []
    for _ in range(n):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return float(np.median(found))


def _without_means(rows):
    return np.asarray(rows)[-360:, 0]


def _days(rows):
    hours = np.asarray(rows, dtype=float)[:, 0]
    days = hours[: len(hours) // 24 * 24].reshape(-1, 24)
    return np.array([np.nan if np.isnan(day).all() else np.nanmean(day) for day in days])


if __name__ == "__main__":
    main()

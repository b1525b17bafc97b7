"""Intervals of forecasts on real series: how often are they right, and how wide are they?

Models are fitted to the first half of a series, and again after each eighth of the rest. From each
row on they forecast 1, 4 and 12 steps, by the rows so far alone. Five series of numbers, and a
naive rule: the last value, and quantiles of the changes over as many steps so far.

The Markov regressions of statsmodels (levels and variances that switch) have no forecasts: their
filtered probabilities, transitions and moments go into the mixtures that ours make. Its structural
models (a local level) have normal intervals.

    python -m benchmarks.real_data.forecasts --write

coverage   share of the values in intervals of 90 %
width      mean width, in standard deviations of the series
score      interval score (Gneiting & Raftery 2007, eq. 43), in the same unit; less is better
error      root mean squared error of the means
"""

import argparse
import time
import warnings
from contextlib import suppress

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks import datasets, records
from benchmarks._table import Table
from sklearn_onlineem import GaussianHMM, KalmanFilter

STEPS, LEVELS, N_REFITS = (1, 4, 12), (0.05, 0.95), 4
SERIES = {
    "GDP growth, quarters": lambda: datasets.load_us_macro()[:, 0],
    "inflation, quarters": lambda: datasets.load_us_macro()[:, 5],
    "geyser, eruptions": lambda: datasets.load_geyser()[:, 0],
    "sunspots, years": lambda: datasets.load_sunspots()[:, 0],
    "El Nino, months": lambda: _without_months(datasets.load_el_nino()[:, 0]),
}


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore")
    warnings.simplefilter("ignore", ConvergenceWarning)
    found = {}
    for name, load in SERIES.items():
        y = load()
        if arguments.quick:
            y = y[:120]
        print(f"\n{name}: {len(y)} values\n")
        columns = [f"{what} {step}" for step in STEPS for what in ("coverage", "width", "score")]
        table = Table("intervals of 90 %", *columns, "error 1", "seconds", width=26)
        for rule, forecast in FORECASTS.items():
            found[name, rule] = _walked(forecast, y)
            table.row(rule, *found[name, rule])
    if arguments.write:
        places = {"coverage": (slice(0, 9, 3), ".2f"), "scores": (slice(2, 9, 3), ".1f")}
        records.write("forecasts", {kind: _table(found, *how) for kind, how in places.items()})


def _table(found, place, form):
    """One kind of figures, of all steps in a cell, with the rules as columns."""
    rows = [[f"steps {', '.join(map(str, STEPS))}", *FORECASTS]]
    for name in SERIES:
        of_rules = (found[name, rule][place] for rule in FORECASTS)
        rows.append([name, *(", ".join(format(x, form) for x in xs) for xs in of_rules)])
    return rows


def _walked(forecast, y):
    """Figures of a walk over the second half of a series, with a few fits."""
    begin, scale = len(y) // 2, y.std()
    cuts = np.linspace(begin, len(y), N_REFITS + 1).astype(int)
    found, started = [], time.perf_counter()
    for cut, stop in zip(cuts[:-1], cuts[1:], strict=True):
        ahead = forecast(y[:cut])
        found += [ahead(y[:now]) for now in range(cut, stop)]
    seconds = time.perf_counter() - started
    figures, errors = [], None
    for step in STEPS:
        kept = np.array([rows[:, step - 1] for rows in found[: len(found) - step + 1]])
        truth, (means, low, high) = y[begin + step - 1 :], kept.T
        below, above = np.maximum(low - truth, 0.0), np.maximum(truth - high, 0.0)
        width = high - low
        inside = float(((low <= truth) & (truth <= high)).mean())
        score = width + (below + above) * 2.0 / (1.0 - (LEVELS[1] - LEVELS[0]))
        figures += [inside, float(width.mean() / scale), float(score.mean() / scale)]
        errors = float(np.sqrt(((means - truth) ** 2).mean()) / scale) if errors is None else errors
    return *figures, errors, seconds


def _ours(make):
    """A fit, then means and both ends of the steps ahead of any rows."""

    def fitted(y):
        model = make().fit(y[:, None])

        def ahead(so_far):
            mean, ends = model.forecast(so_far[:, None], max(STEPS), quantiles=LEVELS)
            return np.stack([mean[:, 0], *ends[:, :, 0]])

        return ahead

    return fitted


def _markov_regression(k):
    from statsmodels.tsa.regime_switching.markov_regression import MarkovRegression

    def fitted(y):
        for seed in range(5):  # Some starts, which it draws from NumPy's own generator, fail.
            np.random.seed(seed)  # noqa: NPY002
            with suppress(RuntimeError, np.linalg.LinAlgError):
                found = MarkovRegression(y, k, switching_variance=True).fit(
                    search_reps=10, disp=False
                )
                break
        names = [f"const[{i}]" for i in range(k)], [f"sigma2[{i}]" for i in range(k)]
        by_name = dict(zip(found.model.param_names, found.params, strict=True))
        means, variances = ([by_name[name] for name in part] for part in names)
        transmat = found.regime_transition[:, :, 0].T
        chain = GaussianHMM.from_parameters(
            startprob=np.full(k, 1.0 / k), transmat=transmat, means=np.array(means)[:, None],
            covars=np.array(variances)[:, None],
        )  # fmt: skip

        def ahead(so_far):
            mean, ends = chain.forecast(so_far[:, None], max(STEPS), quantiles=LEVELS)
            return np.stack([mean[:, 0], *ends[:, :, 0]])

        return ahead

    return fitted


def _local_level(y):
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    found = UnobservedComponents(y, "llevel").fit(disp=False)

    def ahead(so_far):
        steps = found.apply(so_far).get_forecast(max(STEPS))
        return np.stack([steps.predicted_mean, *steps.conf_int(alpha=0.1).T])

    return ahead


def _naive(y):
    def ahead(so_far):
        ends = []
        for step in range(1, max(STEPS) + 1):
            changes = so_far[step:] - so_far[:-step]
            ends.append(so_far[-1] + np.quantile(changes, LEVELS))
        return np.stack([np.full(max(STEPS), so_far[-1]), *np.transpose(ends)])

    return ahead


def _without_months(y):
    """Deviations from the means of the months in the first half."""
    months = y.reshape(-1, 12)
    return (months - months[: len(months) // 2].mean(axis=0)).ravel()


FORECASTS = {
    "last value, past changes": _naive,
    "GaussianHMM, 2 states": _ours(lambda: GaussianHMM(2, n_init=5, random_state=0)),
    "GaussianHMM, 4 states": _ours(lambda: GaussianHMM(4, n_init=5, random_state=0)),
    "MarkovRegression, 2": _markov_regression(2),
    "KalmanFilter, 1 state": _ours(lambda: KalmanFilter(1, random_state=0)),
    "UnobservedComponents": _local_level,
}


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the first 120 values alone")
    parser.add_argument("--write", action="store_true", help=records.HELP)
    return parser.parse_args()


if __name__ == "__main__":
    main()

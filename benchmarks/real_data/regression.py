"""Regression by Gaussian mixtures of features and targets, beside scikit-learn's regressors.

    python -m benchmarks.real_data.regression

Features and targets are standardised; medians over random splits, a fifth of the rows held out, of
at most 10,000 rows.

- air: carbon monoxide in a street by an analyser, from five cheap sensors and the weather.
- diamonds: logarithms of prices, from weight and five measures of size and shape.
- stocks: daily returns of the DAX, from those of three other indices.
- diabetes: progression after a year, from ten measurements of 442 patients.

Per set: R^2 and root mean squared error; mean log density of the target given the features, in nats
(where the regressor has one; the standardised target's own is about -1.42); the share of targets in
intervals of 90 %, and the mean width of these; seconds of CPU time of the fit, for all columns.

Intervals of linear regression are of normal noise; those of forests add quantiles of out-of-bag
residuals to predictions, and boosting fits two more models to quantiles. Gaussian processes see
1,000 rows, as their time is cubic. A "stream" is one pass of `partial_fit` in batches of 100 rows.
`--gaps .2` removes a fifth of the features of held-out rows, at random: mixtures integrate them
out, and others get what scikit-learn's `IterativeImputer` fills in. `--default` compares numbers of
components, and modes of the prior of variances (as shares of the variances of the columns), for the
default mixture; also by the worst of the splits.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture, MixtureRegressor

LEVEL, N_BATCH, MOST_ROWS, MOST_OF_PROCESS = 0.9, 100, 10_000, 1000
# The quantile of the normal distribution for 90 %.
Z = 1.6448536269514722


def air():
    X = datasets.load_air_quality()
    return X[:, [1, 3, 5, 7, 8, 9, 10, 11]], X[:, 0]


def diamonds():
    X, _ = datasets.load_diamonds()
    return np.delete(X, 3, axis=1), np.log(X[:, 3])


def stocks():
    X = datasets.load_stock_indices()
    return X[:, 1:], X[:, 0]


def diabetes():
    return load_diabetes(return_X_y=True)


SETS = (air, diamonds, stocks, diabetes)


class Ours:
    """Without arguments of the mixture it is the default; `share` is the mode of its prior."""

    def __init__(self, seed, stream=False, share=None, **parameters):
        self.stream, self.share = stream, share
        mixture = GaussianMixture(random_state=seed, **parameters) if parameters else None
        self.model = MixtureRegressor(mixture)

    def fit(self, X, y):
        if self.share is not None:
            d = X.shape[1] + 1.0
            prior = {"covariance": self.share * (2.0 * d + 1.0), "degrees_of_freedom": d}
            self.model.set_params(mixture__prior=prior)
        if not self.stream:
            self.model.fit(X, y)
            return
        for start in range(0, len(X), N_BATCH):
            self.model.partial_fit(X[start : start + N_BATCH], y[start : start + N_BATCH])

    def answers(self, X, y):
        prediction, interval = self.model.predict(X), self.model.predict_interval(X, LEVEL)
        return prediction, *interval, self.model.score_samples(X, y).mean()


class Normal:
    """Of regressors with a standard deviation of the noise."""

    def answers(self, X, y):
        mean, std = self.normal(X)
        density = -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
        return mean, mean - Z * std, mean + Z * std, density.mean()


class Linear(Normal):
    def __init__(self, seed):
        self.model = LinearRegression()

    def fit(self, X, y):
        residuals = y - self.model.fit(X, y).predict(X)
        self.std = np.sqrt(residuals @ residuals / (len(y) - X.shape[1] - 1))

    def normal(self, X):
        return self.model.predict(X), self.std


class Process(Normal):
    def __init__(self, seed):
        self.seed = seed

    def fit(self, X, y):
        kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
        self.model = GaussianProcessRegressor(kernel, random_state=self.seed)
        self.model.fit(X[:MOST_OF_PROCESS], y[:MOST_OF_PROCESS])

    def normal(self, X):
        return self.model.predict(X, return_std=True)


class Forest:
    def __init__(self, seed):
        self.model = RandomForestRegressor(oob_score=True, random_state=seed)

    def fit(self, X, y):
        residuals = y - self.model.fit(X, y).oob_prediction_
        self.ends = np.quantile(residuals, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL])

    def answers(self, X, y):
        mean = self.model.predict(X)
        return mean, mean + self.ends[0], mean + self.ends[1], np.nan


class Boosting:
    def __init__(self, seed):
        boosting = partial(HistGradientBoostingRegressor, random_state=seed)
        ends = (0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL)
        self.models = [boosting(), *(boosting(loss="quantile", quantile=q) for q in ends)]

    def fit(self, X, y):
        for model in self.models:
            model.fit(X, y)

    def answers(self, X, y):
        return *(model.predict(X) for model in self.models), np.nan


METHODS = {
    "MixtureRegressor()": Ours,
    "... in a stream": partial(Ours, stream=True),
    "... GaussianMixture(5)": partial(Ours, n_components=5),
    "... GaussianMixture(20)": partial(Ours, n_components=20),
    "... GaussianMixture(20) in a stream": partial(Ours, stream=True, n_components=20),
    "LinearRegression": Linear,
    "GaussianProcessRegressor, 1000 rows": Process,
    "RandomForestRegressor": Forest,
    "HistGradientBoostingRegressor": Boosting,
}
DEFAULTS = {
    f"{n} components, {'no prior' if share is None else share}": partial(
        Ours, n_components=n, share=share
    )
    for n in (1, 3, 5, 8, 12)
    for share in (None, 0.05, 0.1, 0.25, 0.5)
}


def measured(make, load, seed, gaps):
    X, y = load()
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(X))[:MOST_ROWS]
    X, X_test, y, y_test = train_test_split(X[chosen], y[chosen], test_size=0.2, random_state=seed)
    scaler, of_target = StandardScaler().fit(X), StandardScaler().fit(y[:, None])
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    y, y_test = (of_target.transform(values[:, None])[:, 0] for values in (y, y_test))
    method = make(seed)
    start = time.process_time()
    method.fit(X, y)
    seconds = time.process_time() - start
    X_test[rng.random(X_test.shape) < gaps] = np.nan
    if gaps and not isinstance(method, Ours):
        X_test = IterativeImputer(random_state=seed).fit(X).transform(X_test)
    prediction, lower, upper, density = method.answers(X_test, y_test)
    return (
        r2_score(y_test, prediction),
        np.sqrt(np.mean((y_test - prediction) ** 2)),
        density,
        np.mean((lower <= y_test) & (y_test <= upper)),
        np.mean(upper - lower),
        seconds,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--gaps", type=float, default=0.0, help="share of features that is missing")
    parser.add_argument("--default", action="store_true")
    parser.add_argument("--only", nargs="*", choices=[load.__name__ for load in SETS])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for load in SETS:
        if arguments.only and load.__name__ not in arguments.only:
            continue
        columns = "R^2", "least", "RMSE", "log p(y|x)", "least", "in 90 %", "width", "seconds"
        table = Table(load.__name__, *columns)
        for name, make in (DEFAULTS if arguments.default else METHODS).items():
            found = [measured(make, load, seed, arguments.gaps) for seed in range(arguments.seeds)]
            (score, error, density, *rest, seconds), worst = (
                np.median(found, axis=0),
                np.min(found, axis=0),
            )
            cells = score, worst[0], error, density, worst[2], *rest
            cells = ["" if np.isnan(cell) else f"{cell:.3f}" for cell in cells]
            table.row(name, *cells, f"{seconds:.2f}")
        print()


if __name__ == "__main__":
    main()

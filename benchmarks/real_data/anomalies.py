"""How well anomalies in real data are found, beside scikit-learn's detectors.

    python -m benchmarks.real_data.anomalies

Areas under the ROC curve, means over seeds: 1 if all anomalies have lower scores than all other
rows, .5 by chance. Nobody sees labels while it learns.

- pendigits: 150 zeros among all other digits (1.5 %).
- cancer: 20 malignant tumours among the benign ones (5 %).
- motes: eight sensors of humidity and temperature; hot water is held to six of them for some
  minutes (.6 to 2.3 %). Each is learnt alone, and the mean is over these six.

"fit" learns all rows and scores them. In a "stream" each batch of 50 is scored before it is learnt,
in the order of the data, or in random order where there is none; the first 500 rows do not count.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import AnomalyDetector, GaussianHMM, GaussianMixture, KalmanFilter

N_BATCH, N_FIRST = 50, 500


def pendigits(rng):
    X, digits = datasets.load_pendigits(return_classes=True)
    return [rare(X, digits.astype(int) == 0, 150, rng)]


def cancer(rng):
    X, is_benign = datasets.datasets.load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return [rare(X, is_benign == 0, 20, rng)]


def motes(rng):
    sequences = zip(*datasets.load_sensor_motes(), strict=True)
    return [(X, is_odd) for X, is_odd in sequences if is_odd.any()]


def rare(X, is_odd, n_odd, rng):
    """Rows in random order, of which so many are odd."""
    odd = rng.permutation(np.flatnonzero(is_odd))[:n_odd]
    rows = rng.permutation(np.concatenate([np.flatnonzero(~is_odd), odd]))
    return X[rows], is_odd[rows]


def fitted(make, X, seed):
    """Scores of the rows of a fit."""
    detector = make(seed).fit(X)
    if isinstance(detector, LocalOutlierFactor):
        return detector.negative_outlier_factor_
    return detector.score_samples(X)


def streamed(make, X, seed):
    """Scores of rows before they are learnt; NaN for the first ones."""
    detector, scores = AnomalyDetector(make(seed).estimator), [np.full(N_FIRST, np.nan)]
    further = {"continues": True} if hasattr(detector.estimator, "score_rows") else {}
    for start in range(0, len(X), N_BATCH):
        batch = X[start : start + N_BATCH]
        if start >= N_FIRST:
            scores.append(detector.score_samples(batch, **further))
        detector.partial_fit(batch, **further)
    return np.concatenate(scores)


def ours(kind, seed, **arguments):
    return AnomalyDetector(kind(random_state=seed, **arguments))


MIXTURE = partial(ours, GaussianMixture, n_components=5)
DIAGONAL = partial(MIXTURE, covariance_type="diag")
CHAIN = partial(ours, GaussianHMM, n_components=3, covariance_type="full")
FILTER = partial(ours, KalmanFilter, n_dim_state=2)
METHODS = {
    "IsolationForest, fit": (fitted, lambda seed: IsolationForest(random_state=seed)),
    "LocalOutlierFactor, fit": (fitted, lambda seed: LocalOutlierFactor(n_neighbors=20)),
    "EllipticEnvelope, fit": (fitted, lambda seed: EllipticEnvelope(random_state=seed)),
    "GaussianMixture(5), fit": (fitted, MIXTURE),
    "... of diagonal covariances, fit": (fitted, DIAGONAL),
    "GaussianMixture(5), stream": (streamed, MIXTURE),
    "... of diagonal covariances, stream": (streamed, DIAGONAL),
    "GaussianHMM(3), fit": (fitted, CHAIN),
    "GaussianHMM(3), stream": (streamed, CHAIN),
    "KalmanFilter(2), fit": (fitted, FILTER),
    "KalmanFilter(2), stream": (streamed, FILTER),
}
OF_SEQUENCES = ("GaussianHMM", "KalmanFilter")


def area(method, make, sets, seed):
    found = []
    for X, is_odd in sets:
        scores = method(make, X, seed)
        counts = ~np.isnan(scores) & (np.arange(len(X)) >= N_FIRST * (method is streamed))
        found.append(roc_auc_score(is_odd[counts], -scores[counts]))
    return np.mean(found)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    warnings.simplefilter("ignore", UserWarning)
    table = Table("detector", "pendigits", "cancer", "motes", "seconds", width=38)
    for name, (method, make) in METHODS.items():
        start, cells = time.process_time(), []
        for load in (pendigits, cancer, motes):
            too_few = load is cancer and method is streamed
            if too_few or (load is not motes and name.startswith(OF_SEQUENCES)):
                cells.append("")
                continue
            areas = [area(method, make, load(np.random.default_rng(s)), s) for s in seeds]
            cells.append(f"{np.mean(areas):.3f}")
        table.row(name, *cells, f"{time.process_time() - start:.1f}")


if __name__ == "__main__":
    main()

"""What the benchmarks fit to real data: standardised columns, and a number of components."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks import datasets


@dataclass(frozen=True)
class Task:
    """A Gaussian mixture of some real data.

    Parameters
    ----------
    name : str
    load : callable
        Returns X.
    n_components : int
        Components of the mixture.
    n_axes : int, default=None
        Number of principal components that stand for the columns; None keeps the columns.
    """

    name: str
    load: Callable
    n_components: int
    n_axes: int | None = None

    def split(self, seed, most_rows=None):
        """Return training rows and a fifth of all as held-out rows, of at most `most_rows`."""
        X = _features(self.load, self.n_axes)
        n_rows = min(len(X), most_rows or len(X))
        chosen = np.random.default_rng(seed).choice(len(X), n_rows, replace=False)
        train, test = train_test_split(X[chosen], test_size=0.2, random_state=seed)
        scaler = StandardScaler(with_std=self.n_axes is None).fit(train)
        return scaler.transform(train), scaler.transform(test)


@cache
def _features(load, n_axes):
    X = load()
    return X if n_axes is None else PCA(n_axes, random_state=0).fit_transform(X)


COVERTYPE = Task("covertype", datasets.load_covertype, n_components=20)
FASHION = Task("fashion-mnist, 50 axes", datasets.load_fashion_mnist, n_components=10, n_axes=50)
DIGITS = Task("digits, 50 axes", datasets.load_digits, n_components=10, n_axes=50)

# Tasks in which batch EM does not overfit, so that held-out rows tell good fits from bad ones.
TASKS = (
    COVERTYPE,
    Task("fashion-mnist, 20 axes", datasets.load_fashion_mnist, n_components=10, n_axes=20),
    Task("spoken digits", datasets.load_free_spoken_digits, n_components=16),
    Task("sensor network", datasets.load_sensor_network, n_components=8),
    Task("pendigits", datasets.load_pendigits, n_components=10),
    Task("air quality", datasets.load_air_quality, n_components=8),
    Task("digits, 10 axes", datasets.load_digits, n_components=10, n_axes=10),
    Task("old faithful", datasets.load_old_faithful, n_components=2),
)

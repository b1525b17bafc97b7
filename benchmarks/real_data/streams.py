"""What one pass over a stream learns with the defaults, and with other settings.

    python -m benchmarks.real_data.streams
    python -m benchmarks.real_data.streams --parts orders --settings default beta=1 --batches 100
    python -m benchmarks.real_data.streams --parts drift --seeds 2

The table by which defaults of streams are chosen. Its parts:

"orders": one pass of `partial_fit` over real data in three orders: at random, as given, and sorted
(class by class, the classes at random; or by the first principal axis). A fifth of the rows is held
out, at random. Scores are held-out nats per row less those of batch EM, the best of three fits of
the training rows: medians over seeds for each set, then the median and the worst of the sets, then
the CPU time. Rivals, which no size of batches concerns, stand in the first column of an order:
scikit-learn's `GaussianMixture` and batch EM of the last 2,000 rows, and scikit-learn's
`MiniBatchKMeans` with the covariance of each cluster.

"long": the same with 100,000 training rows, as given. "fit": the same rows at hand, online EM with
so many rows a batch.

"others": chains and counts, held-out nats per row (per word) less those of batch EM.

"sequences": chains and Kalman filters of streams that stay, drift or jump, and topics, less the
default: held-out nats per row after one pass, or nats per row of each piece before it is learnt.

"drift": streams that stay, and streams whose source changes: at once in the middle (abrupt), from
the first row to the last (gradual), or eight times (recurring). Each batch is scored before it is
learnt; the first 100 rows and those of the first call are not counted. Scores are nats per row less
those of the best of 15 fixed rates in hindsight: medians over seeds, then over streams, and in how
many they are within .01. Memories of the rates are in rows, whatever the size of the batches. Times
are of `partial_fit` once the start is final, in CPU microseconds a batch.

The first call of a stream has as many rows as there are components, if batches are smaller. To tell
what starts cost from what rates cost, it can have `--first` rows, and with `--settled` it is `fit`.
"""

import argparse
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn import datasets as of_scikit_learn
from sklearn import mixture
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks import datasets
from benchmarks._table import Table
from benchmarks.real_data.split_merge import axes, scaled, with_noise
from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MultinomialMixture,
)
from sklearn_onlineem.em import Online

K, N_LAST, N_SKIPPED = 10, 2_000, 100
ORDERS = ("random", "given", "sorted")

# Settings of every estimator. "beta=1" and "harmonic" are the same with the default `eta0`.
SETTINGS = {
    "default": {},
    "beta=.6": {"beta": 0.6},
    "beta=.7": {"beta": 0.7},
    "beta=.8": {"beta": 0.8},
    "beta=.85": {"beta": 0.85},
    "beta=.9": {"beta": 0.9},
    "beta=1": {"beta": 1.0},
    "harmonic": {"schedule": "harmonic"},
    "forgetting": {"schedule": "forgetting"},
    "forgetting, .98": {"schedule": "forgetting", "beta": 0.98},
    "constant, .02": {"schedule": "constant", "eta0": 0.02},
    "adaptive": {"solver": "adaptive"},
    "sample": {"solver": Online(sample=2000)},
    "not reinitialised": {"solver": Online(reinitialises=False)},
}


# ----------------------------------------------------------------------------------- real data


class Labelled(NamedTuple):
    X: np.ndarray
    classes: np.ndarray | None = None


@dataclass(frozen=True)
class Source:
    """Real data in the order in which they were taken.

    Parameters
    ----------
    load : callable
        Returns X and its classes, or None.
    covariance_type : str, default="full"
    """

    load: callable
    covariance_type: str = "full"

    def rows(self, most_rows):
        """At most so many rows, at equal distances, and their classes."""
        X, classes = self.load()
        chosen = np.linspace(0, len(X) - 1, min(most_rows, len(X))).astype(int)
        return Labelled(X[chosen], None if classes is None else classes[chosen])


def covertype():
    X, areas = datasets.load_covertype_areas()
    return Labelled(scaled(with_noise(X)), areas)


def fashion_mnist():
    X, classes = datasets.load_fashion_mnist(return_classes=True)
    return Labelled(PCA(20, random_state=0).fit(X[::7]).transform(X), classes)


def pendigits():
    X, digits = datasets.load_pendigits(return_classes=True)
    return Labelled(scaled(with_noise(X)), digits)


def spoken_digits():
    return Labelled(scaled(datasets.load_free_spoken_digits()))


def sensors():
    return Labelled(scaled(with_noise(datasets.load_sensor_network() / [0.037, 0.01])))


def air_quality():
    return Labelled(scaled(datasets.load_air_quality()))


def digits(n_axes):
    X, classes = of_scikit_learn.load_digits(return_X_y=True)
    return Labelled(axes(X, n_axes), classes)


def breast_cancer():
    X, classes = of_scikit_learn.load_breast_cancer(return_X_y=True)
    return Labelled(scaled(X), classes)


def diabetes():
    return Labelled(axes(scaled(np.delete(of_scikit_learn.load_diabetes().data, 1, axis=1)), 5))


def pixels(name="china.jpg"):
    image = of_scikit_learn.load_sample_image(name).astype(float)
    return Labelled(scaled(with_noise(image.reshape(-1, 3))))


def patches():
    """Grey patches of 4 x 4 pixels, on their first ten axes."""
    grey = of_scikit_learn.load_sample_image("flower.jpg").mean(axis=2)[:424]
    cut = grey.reshape(106, 4, 160, 4).swapaxes(1, 2).reshape(-1, 16)
    return Labelled(axes(with_noise(cut), 10))


def texts(load, n_axes):
    """The first axes of weighted counts of words, in the order of the texts."""
    words = TfidfVectorizer(min_df=5, max_df=0.3, sublinear_tf=True).fit_transform(load())
    return Labelled(scaled(TruncatedSVD(n_axes, random_state=0).fit_transform(words)))


def diamonds():
    X, cuts = datasets.load_diamonds()
    return Labelled(scaled(with_noise(X / [0.01, 0.1, 1.0, 1.0, 0.01, 0.01, 0.01])), cuts)


SOURCES = {
    "covertype": Source(covertype),
    "fashion-mnist, 20 axes": Source(fashion_mnist),
    "spoken digits": Source(spoken_digits),
    "sensors": Source(sensors),
    "pendigits": Source(pendigits),
    "air quality": Source(air_quality),
    "digits, 10 axes": Source(partial(digits, 10)),
    "digits, 30 axes": Source(partial(digits, 30), "diag"),
    "breast cancer": Source(breast_cancer, "diag"),
    "diabetes, 5 axes": Source(diabetes),
    "china, pixels": Source(pixels),
    "flower, patches": Source(patches),
    "addresses, 10 axes": Source(partial(texts, datasets.load_union_passages, 10)),
    "bible, 5 axes": Source(partial(texts, datasets.load_king_james_chapters, 5)),
    "diamonds": Source(diamonds),
}
LONG = ("covertype", "spoken digits")


def ordered(order, X, classes, rng):
    """Return the rows in an order."""
    if order == "given":
        return X
    if order == "random":
        return rng.permutation(X)
    if classes is None:
        return X[np.argsort(PCA(1, random_state=0).fit_transform(X)[:, 0], kind="stable")]
    at = rng.permutation(classes.max() + 1)
    return X[np.argsort(at[classes], kind="stable")]


@cache
def loaded(name):
    """The source with its rows in memory."""
    source = SOURCES[name]
    found = source.load()
    return Source(lambda: found, source.covariance_type)


def is_there(load, name):
    """Whether data can be loaded; says so where they are missing."""
    try:
        load()
    except (FileNotFoundError, ImportError) as error:
        print(f"{name} is left out: {error}")
        return False
    return True


# ---------------------------------------------------------------------------------- who learns


def pieces(X, batch_size, n_first=K):
    """Consecutive batches of X; the first has so many rows at least."""
    cut = max(n_first, batch_size)
    yield X[:cut]
    for start in range(cut, X.shape[0], batch_size):
        yield X[start : start + batch_size]


class First(NamedTuple):
    """The first call of a stream: its rows, at least, and its method."""

    n_rows: int = K
    method: str = "partial_fit"


def streamed(estimator, batches, method="partial_fit"):
    first, *others = batches
    getattr(estimator, method)(first)
    for batch in others:
        estimator.partial_fit(batch)
    return estimator


def refit_of_scikit_learn(X, seed, covariance_type):
    rival = mixture.GaussianMixture(K, covariance_type=covariance_type, random_state=seed)
    return rival.fit(X[-N_LAST:])


def refit(X, seed, covariance_type):
    return _batch(seed, covariance_type).fit(X[-N_LAST:])


def k_means_and_covariances(X, seed, covariance_type):
    """MiniBatchKMeans, whose clusters have the covariances of the rows that came to them."""
    d, k_means = X.shape[1], MiniBatchKMeans(K, random_state=seed, n_init=3)
    n, sums, products = np.zeros(K), np.zeros((K, d)), np.zeros((K, d, d))
    for batch in pieces(X, 100):
        labels = k_means.partial_fit(batch).predict(batch)
        for k in np.unique(labels):
            rows = batch[labels == k]
            n[k] += len(rows)
            sums[k] += rows.sum(axis=0)
            products[k] += rows.T @ rows
    n, sums, products = n[n > 0], sums[n > 0], products[n > 0]
    means = sums / n[:, None]
    covariances = products / n[:, None, None] - means[:, :, None] * means[:, None, :]
    covariances += 1e-3 * X.var(axis=0).mean() * np.eye(d)
    rival = mixture.GaussianMixture(len(n), covariance_type=covariance_type)
    rival.weights_, rival.means_ = n / n.sum(), means
    if covariance_type == "full":
        rival.precisions_cholesky_ = np.linalg.cholesky(np.linalg.inv(covariances))
    else:
        rival.precisions_cholesky_ = np.diagonal(covariances, axis1=1, axis2=2) ** -0.5
    return rival


RIVALS = {
    "scikit-learn, last rows": refit_of_scikit_learn,
    "MiniBatchKMeans": k_means_and_covariances,
    "batch EM, last rows": refit,
}


def _batch(seed, covariance_type, **arguments):
    return GaussianMixture(
        K, covariance_type=covariance_type, solver="batch", random_state=seed, **arguments
    )


# -------------------------------------------------------------------------------------- orders


class Results:
    """Scores and times: lists over seeds, for a set, a setting and a column."""

    def __init__(self, columns, settings):
        self.columns, self.settings = columns, settings
        self.values = defaultdict(list)

    def add(self, name, setting, column, score_and_time):
        self.values[name, setting, column].append(score_and_time)

    def over_seeds(self, name, setting, column):
        values = self.values.get((name, setting, column))
        return None if values is None else np.median(values, axis=0)

    def show_set(self, name, table):
        for setting in self.settings:
            cells = [self.over_seeds(name, setting, column) for column in self.columns]
            shown = ["" if cell is None else f"{cell[0]:.2f}" for cell in cells]
            table.row(f"{name}: {setting}", *shown)

    def summary(self, names):
        kinds = {
            "median": lambda cells: f"{np.median(cells[:, 0]):.2f}",
            "worst": lambda cells: f"{cells[:, 0].min():.2f}",
            "us of CPU a row": lambda cells: f"{np.median(cells[:, 1]):.1f}",
        }
        for kind, shown in kinds.items():
            print()
            table = self.table(f"{kind} of {len(names)} sets")
            for setting in self.settings:
                found = [
                    [self.over_seeds(name, setting, column) for name in names]
                    for column in self.columns
                ]
                table.row(setting, *("" if c[0] is None else shown(np.array(c)) for c in found))

    def table(self, heading):
        return Table(heading, *(f"{a} {b}" for a, b in self.columns), width=46)


@dataclass(frozen=True, eq=False)
class Split:
    """Training and held-out rows of a source, and the score of batch EM."""

    train: np.ndarray
    test: np.ndarray
    classes: np.ndarray | None
    covariance_type: str
    seed: int
    best: float

    def mixture(self, setting, **arguments):
        parameters = {"random_state": self.seed, **arguments, **SETTINGS[setting]}
        return GaussianMixture(K, covariance_type=self.covariance_type, **parameters)

    def measured(self, learn, *arguments):
        """The difference from batch EM of what is learnt, and microseconds of CPU a row."""
        before = time.process_time()
        model = learn(*arguments)
        microseconds = 1e6 * (time.process_time() - before) / len(self.train)
        return model.score(self.test) - self.best, microseconds


def splits(name, most_rows, n_seeds):
    source = loaded(name)
    X, classes = source.rows(most_rows)
    for seed in range(n_seeds):
        is_test = np.random.default_rng(seed).permutation(len(X)) < len(X) // 5
        train, test = X[~is_test], X[is_test]
        best = _batch(seed, source.covariance_type, n_init=3).fit(train).score(test)
        classes_of_train = None if classes is None else classes[~is_test]
        yield Split(train, test, classes_of_train, source.covariance_type, seed, best)


def orders(names, settings, rivals, *, which, batches, first, most_rows, n_seeds):
    """One pass over each set in some orders, and the rivals."""
    columns = [(order, b) for order in which for b in batches]
    results = Results(columns, [*settings, *rivals])
    table = results.table("held-out nats a row, less batch EM")
    for name in names:
        for split in splits(name, most_rows, n_seeds):
            for order in which:
                rng = np.random.default_rng(split.seed)
                X = ordered(order, split.train, split.classes, rng)
                for setting, b in product(settings, batches):
                    how = (
                        streamed,
                        split.mixture(setting),
                        pieces(X, b, first.n_rows),
                        first.method,
                    )
                    results.add(name, setting, (order, b), split.measured(*how))
                for rival, learn in rivals.items():
                    how = (learn, X, split.seed, split.covariance_type)
                    results.add(name, rival, (order, batches[0]), split.measured(*how))
        results.show_set(name, table)
    results.summary(names)


def fits(names, settings, *, most_rows, n_seeds):
    """`fit` by online EM, with batches of several sizes."""
    columns = [("fit,", b) for b in (100, 300, 1000, 3000)]
    results = Results(columns, settings)
    for name in names:
        for split in splits(name, most_rows, n_seeds):
            for setting, column in product(settings, columns):
                ours = split.mixture(setting, solver="online", batch_size=column[1])
                results.add(name, setting, column, split.measured(ours.fit, split.train))
    results.summary(names)


# -------------------------------------------------------------------------------------- others


def stock_indices():
    X = datasets.load_stock_indices()
    return [X[i : i + 50] for i in range(0, 1500, 50)], [X[1500:]]


def air_quality_by_hours():
    X = air_quality().X
    cut = len(X) * 4 // 5 // 50 * 50
    return [X[i : i + 50] for i in range(0, cut, 50)], [X[cut:]]


def recordings():
    """Every fifth recording, a fifth of them held out."""
    all_of_them, _, _ = datasets.load_spoken_recordings()
    mean, scale = np.mean(np.vstack(all_of_them), axis=0), np.std(np.vstack(all_of_them), axis=0)
    some = [(one - mean) / scale for one in all_of_them[::5]]
    is_test = np.random.default_rng(0).permutation(len(some)) < len(some) // 5
    pairs = list(zip(some, is_test, strict=True))
    return [one for one, held_out in pairs if not held_out], [one for one, out in pairs if out]


CHAINS = {
    "stock indices, 2 states": (stock_indices, 2, True),
    "stock indices, 3 states": (stock_indices, 3, True),
    "air quality, 6 states": (air_quality_by_hours, 6, True),
    "spoken digits, 10 states": (recordings, 10, False),
}


def chains(table, settings, n_seeds):
    """Pieces of 50 rows, or one recording at a time."""
    for name, (load, n_states, is_endless) in CHAINS.items():
        if not is_there(load, name):
            continue
        (train, test), scores = load(), defaultdict(list)
        for seed in range(n_seeds):
            chain = partial(GaussianHMM, n_states, covariance_type="full", random_state=seed)
            whole = [np.concatenate(train)] if is_endless else train
            scores["batch EM"].append(_score(chain(solver="batch", n_init=3).fit(whole), test))
            for setting in settings:
                ours = chain(**SETTINGS[setting])
                if is_endless and getattr(ours.solver, "sample", None):
                    scores[setting].append(np.nan)  # Pieces are no whole sequences.
                    continue
                for piece in train:
                    ours.partial_fit([piece], continues=is_endless)
                scores[setting].append(_score(ours, test))
        _others_row(table, name, scores, settings)


def documents(table, settings, n_seeds):
    """Batches of 100 documents."""
    if not is_there(datasets.load_kos, "KOS"):
        return
    X = datasets.load_kos()
    for order in ("random", "given"):
        scores = defaultdict(list)
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            is_test = rng.permutation(X.shape[0]) < X.shape[0] // 5
            train, test = X[~is_test], X[is_test]
            if order == "random":
                train = train[rng.permutation(train.shape[0])]
            n_words = test.sum() / test.shape[0]
            topics = partial(MultinomialMixture, K, prior="auto", random_state=seed)
            batch = topics(solver="batch", n_init=3).fit(train)
            scores["batch EM"].append(batch.score(test) / n_words)
            for setting in settings:
                ours = streamed(topics(**SETTINGS[setting]), pieces(train, 100))
                scores[setting].append(ours.score(test) / n_words)
        _others_row(table, f"KOS, a word, {order} order", scores, settings)


def _score(chain, sequences):
    return np.sum(chain.score_samples(sequences)) / sum(map(len, sequences))


def _others_row(table, name, scores, settings):
    batch = np.array(scores["batch EM"])
    cells = [float(np.median(scores[setting] - batch)) for setting in settings]
    table.row(name, *cells, float(np.median(batch)))


# ----------------------------------------------------------------------------------- sequences


def recordings_of(order, rng):
    """Recordings in an order; in their files digits come one after the other."""
    train, test = recordings()
    n = np.arange(len(train))
    late, drawn = n >= len(n) // 2, rng.random(len(n))
    place = {
        "given": n,
        "random": drawn,
        "abrupt": late + drawn,
        "gradual": n / len(n) + drawn,
        "recurring": np.floor(4.0 * drawn) + 4.0 * drawn + late,
    }[order]
    return [train[i] for i in np.argsort(place, kind="stable")], test


def simulated(model, change, rng):
    """Pieces of 50 rows of a source of three states, which stays, drifts or jumps."""
    n, t = 6_000, np.linspace(0.0, 1.0, 6_000)[:, None]
    shift = {"stays": 0.0 * t, "drifts": 3.0 * t, "jumps": 10.0 * (t > 0.5)}[change]
    if model == "chain":
        steps = rng.random(2 * n) < 0.1
        states = np.cumsum(steps * rng.integers(1, 3, 2 * n)) % 3
        X = 3.0 * np.eye(3)[states] + rng.standard_normal((2 * n, 3))
    else:
        turn, X = 0.95 * np.linalg.qr(rng.standard_normal((2, 2)))[0], np.zeros((2 * n, 2))
        for i in range(1, 2 * n):
            X[i] = turn @ X[i - 1] + rng.standard_normal(2)
        X = X @ rng.standard_normal((2, 3)) + 0.5 * rng.standard_normal((2 * n, 3))
    train, test = X[:n] + shift, X[n:] + shift[-1]
    return np.split(train, n // 50), [test]


def stock_indices_that_jump():
    train, test = stock_indices()
    shift, n = 10.0 * np.vstack(train).std(axis=0), len(train) // 2
    return [*train[:n], *(piece + shift for piece in train[n:])], [one + shift for one in test]


# How to load them, and whether pieces continue.
STREAMS_OF_SEQUENCES = {
    "stock indices": (lambda rng: stock_indices(), True),
    "stock indices that jump": (lambda rng: stock_indices_that_jump(), True),
    "air quality": (lambda rng: air_quality_by_hours(), True),
    **{f"recordings, {order}": (partial(recordings_of, order), False) for order in
       ("random", "given", "abrupt", "gradual", "recurring")},
    **{f"simulated {model} that {change}": (partial(simulated, model, change), True)
       for model in ("chain", "filter") for change in ("stays", "drifts", "jumps")},
}  # fmt: skip


def sequences(settings, n_seeds):
    """Held-out and prequential nats a row, less those of the first setting."""
    headings = [f"{setting}{what}" for setting in settings for what in ("", ", next")]
    table = Table("nats a row, held out and next", *headings, width=44)
    for name, (load, is_endless) in STREAMS_OF_SEQUENCES.items():
        if not is_there(partial(load, np.random.default_rng(0)), name):
            continue
        chain = partial(GaussianHMM, covariance_type="full")
        models = {} if "filter" in name else {f"{k} states": partial(chain, k) for k in (3, 10)}
        if is_endless and "chain" not in name:
            models |= {f"filter of {k}": partial(KalmanFilter, k) for k in (2, 4)}
        for kind, make in models.items():
            scores = []
            for seed in range(n_seeds):
                train, test = load(np.random.default_rng(seed))
                learners = (make(random_state=seed, **SETTINGS[setting]) for setting in settings)
                scores.append([_after_and_next(one, train, test, is_endless) for one in learners])
            gains = np.median(np.array(scores) - np.array(scores)[:, :1], axis=0)
            first = np.median(scores, axis=0)[0]
            table.row(f"{name}, {kind}", *first, *gains[1:].ravel())


def _after_and_next(ours, train, test, is_endless):
    """Return nats a row of held-out sequences, and of each piece before it is learnt."""
    found, n_first = [], max(1, len(train) // 10)
    for i, piece in enumerate(train):
        if i >= n_first:
            continues = {"continues": True} if is_endless else {}
            found.append(ours.score_rows([piece], **continues)[0])
        ours.partial_fit([piece], continues=is_endless)
    return _score(ours, test), np.concatenate(found).mean()


def topics(settings, n_seeds):
    """Perplexity of halves of held-out posts after one pass, batches of 100."""
    if not is_there(datasets.load_kos, "KOS"):
        return
    X, table = datasets.load_kos(), Table("perplexity of KOS", *settings, width=44)
    for order in ("random", "given"):
        found = []
        for seed in range(n_seeds):
            chosen = np.random.default_rng(seed).permutation(X.shape[0])
            test, rest = np.split(chosen, [X.shape[0] // 8])
            train = X[rest if order == "random" else np.sort(rest)]
            found.append([
                streamed(LatentDirichletAllocation(K, random_state=seed, **SETTINGS[setting]),
                         pieces(train, 100)).perplexity(X[test])
                for setting in settings
            ])  # fmt: skip
        table.row(order, *np.median(found, axis=0))


# --------------------------------------------------------------------------------------- drift

MEMORIES = (150, 500, 1_500, 5_000)


def fixed_rates(batch_size):
    """Fifteen settings between which nobody can choose beforehand."""
    rates = {f"beta={beta}": {"beta": beta} for beta in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)}
    rates["beta=0.6, m = 300"] = {"eta0": (batch_size / 300) ** 0.4, "beta": 0.6}
    for rows in MEMORIES:
        share = batch_size / rows
        rates[f"forgetting, {rows}"] = {"schedule": "forgetting", "beta": 1.0 - share}
        rates[f"constant, {rows}"] = {"schedule": "constant", "eta0": share}
    return rates


def halves(name):
    X, _ = loaded(name).rows(np.inf)
    return X[: len(X) // 2], X[len(X) // 2 :]


def by_class(name, is_first):
    X, classes = loaded(name).rows(np.inf)
    first = is_first(classes)
    return X[first], X[~first]


def two_images():
    images = [
        with_noise(of_scikit_learn.load_sample_image(name).astype(float).reshape(-1, 3))
        for name in ("china.jpg", "flower.jpg")
    ]
    return np.split(scaled(np.concatenate(images)), [len(images[0])])


def day_and_night():
    X = np.delete(datasets.load_air_quality_hours(), 2, axis=1)
    is_complete = np.isfinite(X).all(axis=1)
    hours = (18 + np.arange(len(X)))[is_complete] % 24
    X, is_day = scaled(X[is_complete]), (hours >= 7) & (hours < 21)
    return X[is_day], X[~is_day]


def abrupt(t):
    return t >= 0.5


def gradual(t):
    return t


def recurring(t):
    return np.floor(8.0 * t) % 2.0


STATIONARY = (
    *("covertype", "fashion-mnist, 20 axes", "spoken digits", "sensors", "pendigits"),
    *("air quality", "digits, 10 axes", "china, pixels"),
)
DRIFTING = {
    "covertype, an area then others": (abrupt, by_class, "covertype", lambda c: c == 0),
    "fashion, five classes then five": (
        *(abrupt, by_class, "fashion-mnist, 20 axes"),
        lambda c: c < 5,
    ),
    "pendigits, 0-4 then 5-9": (abrupt, by_class, "pendigits", lambda c: c < 5),
    "pixels, china then flower": (abrupt, two_images),
    "covertype, to the second half": (gradual, halves, "covertype"),
    "spoken digits, to the second half": (gradual, halves, "spoken digits"),
    "air quality, to the second half": (gradual, halves, "air quality"),
    "addresses, to the second half": (gradual, halves, "addresses, 10 axes"),
    "air quality, day and night": (recurring, day_and_night),
    "pendigits, even and odd": (recurring, by_class, "pendigits", lambda c: c % 2 == 0),
    "china, upper and lower half": (recurring, halves, "china, pixels"),
}


def mixed(first, second, share, most_rows, rng):
    """Rows of two sets, each without repeats; the share of the second one depends on time."""
    n = int(min(most_rows, 1.8 * min(len(first), len(second))))
    is_second = rng.random(n) < share(np.arange(n) / n)
    X = np.empty((n, first.shape[1]))
    X[is_second] = second[rng.permutation(len(second))[: is_second.sum()]]
    X[~is_second] = first[rng.permutation(len(first))[: n - is_second.sum()]]
    return X


def prequential(X, batch_size, first, seed, setting):
    """Mean log-likelihood of batches before they are learnt, and microseconds to learn a batch."""
    estimator = GaussianMixture(K, random_state=seed, **setting)
    rows, *others = pieces(X, batch_size, first.n_rows)
    getattr(estimator, first.method)(rows)
    scores, times = [], []
    for batch in others:
        scores.append(estimator.score_samples(batch))
        before, is_start = time.process_time(), estimator.n_rows_kept_ > 0
        estimator.partial_fit(batch)
        if not is_start:
            times.append(time.process_time() - before)
    score = np.concatenate(scores)[max(0, N_SKIPPED - len(rows)) :].mean()
    return score, 1e6 * np.mean(times) if times else np.nan


def drift(settings, batch_size, *, first, most_rows, n_seeds):
    """Differences from the best fixed rate, for stationary and for drifting streams."""
    fixed = fixed_rates(batch_size)
    tried = {**fixed, **{f"our {name}": SETTINGS[name] for name in settings}}
    print(f"\nBatches of {batch_size}\n")
    table = Table("nats less the best fixed rate", *settings, "best", width=40)
    losses, times = {"stationary": [], "drifting": []}, []
    for kind, name in [("stationary", n) for n in STATIONARY] + [("drifting", n) for n in DRIFTING]:
        stream = partial(stationary if kind == "stationary" else drifting, name, most_rows)
        if not is_there(partial(stream, 0), name):
            continue
        scores, microseconds = np.moveaxis(
            [
                [prequential(X, batch_size, first, seed, setting) for setting in tried.values()]
                for seed, X in enumerate(map(stream, range(n_seeds)))
            ],
            2,
            0,
        )
        times.append(np.median(microseconds[:, len(fixed) :], axis=0))
        best = scores[:, : len(fixed)].max(axis=1)
        loss = np.median(scores[:, len(fixed) :] - best[:, None], axis=0)
        losses[kind].append(loss)
        winner = list(fixed)[np.median(scores[:, : len(fixed)], axis=0).argmax()]
        table.row(name, *(f"{x:.3f}" for x in loss), f"  {winner}, {np.median(best):.3f}")
    print()
    columns = [f"{what} {kind[:4]}." for kind in losses for what in ("med.", "worst", "near")]
    table = Table("setting", *columns, "us a batch", width=24)
    for i, setting in enumerate(settings):
        cells = []
        for found in losses.values():
            at = np.array(found)[:, i]
            near = f"{np.count_nonzero(at >= -0.01)} of {len(at)}"
            cells += [f"{np.median(at):.3f}", f"{at.min():.3f}", near]
        table.row(setting, *cells, f"{np.nanmedian(times, axis=0)[i]:.0f}")


def stationary(name, most_rows, seed):
    X, _ = loaded(name).rows(most_rows)
    return np.random.default_rng(seed).permutation(X)


def drifting(name, most_rows, seed):
    share, load, *how = DRIFTING[name]
    return mixed(*load(*how), share, most_rows, np.random.default_rng(seed))


# ---------------------------------------------------------------------------------------- main


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", UserWarning)
    settings, n_seeds, most_rows = arguments.settings, arguments.seeds, arguments.most_rows
    names = [name for name in arguments.sets if is_there(partial(loaded, name), name)]
    rivals = RIVALS if arguments.rivals else {}
    first = First(arguments.first, "fit" if arguments.settled else "partial_fit")
    for part in arguments.parts:
        print(f"\n{part}\n")
        if part == "orders":
            how = {"which": arguments.orders, "batches": arguments.batches, "n_seeds": n_seeds}
            orders(names, settings, rivals, first=first, most_rows=most_rows, **how)
        elif part == "long":
            long = [name for name in LONG if name in names]
            how = {"which": ("given",), "batches": (100,), "n_seeds": n_seeds}
            orders(long, settings, rivals, first=first, most_rows=125_000, **how)
        elif part == "fit":
            fits(names, settings, most_rows=5 * most_rows, n_seeds=min(n_seeds, 3))
        elif part == "others":
            table = Table("nats less batch EM", *settings, "batch EM", width=36)
            chains(table, settings, n_seeds)
            documents(table, settings, n_seeds)
        elif part == "sequences":
            sequences(settings, n_seeds)
            topics(settings, n_seeds)
        else:
            for batch_size in arguments.drift_batches:
                how = {"first": first, "most_rows": most_rows, "n_seeds": n_seeds}
                drift(settings, batch_size, **how)


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ["orders", "long", "others", "drift"]
    few = ["default", "beta=1", "adaptive"]
    parser.add_argument("--parts", nargs="+", choices=[*parts, "fit", "sequences"], default=parts)
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=few)
    parser.add_argument("--sets", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=list(ORDERS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 10, 100, 1000])
    parser.add_argument("--drift-batches", nargs="+", type=int, default=[100, 10])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--first", type=int, default=K, help="rows of the first call at least, but in others"
    )
    parser.add_argument("--settled", action="store_true", help="the first call is fit")
    parser.add_argument("--most-rows", type=int, default=6_000)
    parser.add_argument("--no-rivals", action="store_false", dest="rivals", help="ours only")
    return parser.parse_args()


if __name__ == "__main__":
    main()

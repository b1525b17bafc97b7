"""Estimators of every class, each with small data: where cases start from.

A bench makes an estimator from parameters, and valid arguments for its methods by their names.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
from cases.estimator_cases import ESTIMATORS, counts_of, document_clusters, sequence_clusters
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from fuzz.choosing import one_of
from sklearn_onlineem import (
    AnomalyDetector,
    CompoundDirichlet,
    EditDistance,
    EditDistanceClassifier,
    GaussianHMM,
    GaussianMixture,
    LatentDirichletAllocation,
    MarkovChainMixture,
    MixtureRegressor,
    PerSequence,
    RegressionMixture,
)
from sklearn_onlineem.distributed import DistributedEM

N_ROWS = 12
QUICK = {"max_iter": 2, "tol": 0.0}
PAIRS = [("ab", "ba"), ("abc", "ac"), ("b", "b"), ("", "c"), ("aab", "ab"), ("ca", "caa")]
TOKENS = [((1, 2), (2,)), (("x", None), ("x",)), ((), (1,))]


@dataclass(frozen=True)
class Bench:
    """An estimator and data that it can learn from.

    Parameters
    ----------
    name : str
    make : callable
        Makes an unfitted estimator.
    arguments : callable rng -> dict
        Valid arguments of any of its methods, that go together; those of one call.
    first : dict
        Arguments of a first fit.
    raises : tuple of exceptions, default=()
        What comes from the user's own objects, and passes through.
    returns_finite : bool, default=True
        Whether results are finite where data are; not those of the user's own objects, which may
        overflow.
    """

    name: str
    make: Callable
    arguments: Callable
    first: dict
    raises: tuple = ()
    returns_finite: bool = True

    def __repr__(self):
        return self.name

    def fitted(self, kind="fit"):
        """Return an estimator that has learnt by a method; a copy each time."""
        return pickle.loads(_fitted(self.name, kind))

    @property
    def estimator_class(self):
        return type(self.make())


@cache
def _fitted(name, kind):
    bench = BENCHES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pickle.dumps(getattr(bench.make(), kind)(**bench.first))


# -------------------------------------------------------------------------------- valid arguments


def common_arguments(rng):
    """Arguments that have nothing to do with the data."""
    return {
        "n_samples": one_of(rng, [1, 3]), "predictive": False, "weight": 3.0, "n_sequences": 2,
        "lengths": one_of(rng, [None, 5]), "groups": None, "n_steps": 2, "n_neighbors": 2,
        "return_cov": bool(rng.integers(2)), "continues": bool(rng.integers(2)),
        "quantiles": one_of(rng, [None, [0.1, 0.5]]),
        "lags": one_of(rng, [None, 0, 1, 5]), "algorithm": one_of(rng, [None, "viterbi", "map"]),
        "kind": one_of(rng, [None, "stochastic", "viterbi"]), "input_features": None,
        "transform": one_of(rng, [None, "default", "pandas"]), "deep": True,
        "features": one_of(rng, [None, [0]]), "return_std": bool(rng.integers(2)), "level": 0.8,
        "random_state": 0, "client": None, "validation": None, "classes": None,
        "inputs": None, "future_inputs": None,
    }  # fmt: skip


def of_rows(X, labels, takes_sparse=False):
    """Arguments of estimators of rows: some of X, with what belongs to these."""

    def arguments(rng):
        n = one_of(rng, [len(X), len(X), 5, 1])
        rows = X[:n].copy()
        forms = [lambda: rows] * 4 + [lambda: rows.astype("f4"), lambda: pd.DataFrame(rows)]
        forms += [lambda: sparse.csr_array(rows)] * takes_sparse + [rows.tolist]
        return {
            **common_arguments(rng),
            "X": one_of(rng, forms)(),
            "y": one_of(rng, [None, labels[:n]]),
            "sample_weight": one_of(rng, [None, np.ones(n), np.linspace(0.0, 1.0, n + 1)[1:]]),
            "validation": one_of(rng, [None, rows]),
        }

    return arguments


def of_targets(X, targets):
    """Arguments of regressions: rows of inputs, always with their targets."""
    of_inputs = of_rows(X, targets)

    def arguments(rng):
        valid = of_inputs(rng)
        while np.shape(valid["X"])[0] == 1:  # R^2 of a row alone is no number
            valid = of_inputs(rng)
        y = targets[: np.shape(valid["X"])[0]]
        more = {"y": one_of(rng, [y, y.tolist(), pd.Series(y)]), "validation": None}
        return {**valid, **more, "return_std": bool(rng.integers(2))}

    return arguments


def of_topics(X, labels):
    """Arguments of topic models: of rows, with the vocabulary and what topics are judged by."""
    of_documents = of_rows(X, labels, takes_sparse=True)

    def arguments(rng):
        valid = of_documents(rng)
        known = labels[: np.shape(valid["X"])[0]]
        return {
            **valid,
            "normalize": bool(rng.integers(2)),
            "y": one_of(rng, [None, known, np.eye(2)[known]]),
            "feature_names": one_of(rng, [None, list("abcde")]),
            "n": 2,
            "measure": one_of(rng, ["npmi", "umass"]),
        }

    return arguments


def of_sequences(sequences, states, n_dim_state=2):
    """Arguments of estimators of sequences, in one of the forms of these."""

    def arguments(rng):
        n = one_of(rng, [len(sequences), len(sequences), 1])
        parts, labels = [s.copy() for s in sequences[:n]], states[:n]
        flat, lengths = np.concatenate(parts), [len(part) for part in parts]
        form = one_of(
            rng, ["list", "list", "lengths", "groups", "alternating", "one", "cube", "frames"]
        )
        X = {
            "list": parts,
            "frames": [pd.DataFrame(part) for part in parts],
            "cube": np.stack([flat[:4], flat[-4:]]),
        }.get(form, flat)
        y = {"list": labels, "frames": labels, "cube": None}.get(form, np.concatenate(labels))
        n = {"one": 1, "cube": 2}.get(form, n)
        return {
            **common_arguments(rng), "X": X, "y": one_of(rng, [None, y]),
            "lengths": lengths if form == "lengths" else None, "groups": groups_of(lengths, form),
            "sample_weight": one_of(rng, [None, np.ones(n), np.arange(n) + 0.5]),
            "row": flat[0], "observation": flat[0],
            "mean": np.zeros(n_dim_state), "covariance": np.eye(n_dim_state),
            "filtered_state_mean": np.zeros(n_dim_state),
            "filtered_state_covariance": np.eye(n_dim_state),
        }  # fmt: skip

    return arguments


def groups_of(lengths, form):
    """The sequence of each row: one after the other, or by turns; None in other forms."""
    one_by_one = np.repeat(np.arange(len(lengths)), lengths)
    by_turns = np.arange(len(one_by_one)) % len(lengths)
    return {"groups": one_by_one, "alternating": by_turns}.get(form)


def of_chains(sequences, labels):
    """Arguments of mixtures of chains: sequences in one of their forms, or counts."""
    n_symbols = int(max(part.max() for part in sequences)) + 1

    def arguments(rng):
        n = one_of(rng, [len(sequences), len(sequences), 1])
        parts = [part.copy() for part in sequences[:n]]
        flat, lengths = np.concatenate(parts), [len(part) for part in parts]
        counts = counts_of(parts, n_symbols)
        form = one_of(rng, ["list", "lengths", "groups", "alternating", "frames", "counts", "CSR"])
        X = {
            "list": parts,
            "frames": [pd.DataFrame(part) for part in parts],
            "counts": counts,
            "CSR": sparse.csr_array(counts),
        }.get(form, flat)
        return {
            **common_arguments(rng),
            "X": X,
            "y": one_of(rng, [None, labels[:n]]),
            "sample_weight": one_of(rng, [None, np.ones(n)]),
            "lengths": lengths if form == "lengths" else None,
            "groups": groups_of(lengths, form),
        }

    return arguments


def of_pairs(rng):
    words = [pair[0] for pair in PAIRS[:4]]
    pairs = one_of(rng, [PAIRS, PAIRS[:1], TOKENS, np.array(PAIRS[:3]), pd.DataFrame(PAIRS)])
    return {
        **common_arguments(rng), "X": pairs, "Y": one_of(rng, [None, words[:2]]), "words": words,
        "y": words[0], "x": words[1], "sample_weight": one_of(rng, [None, np.ones(len(pairs))]),
    }  # fmt: skip


def of_words(rng):
    n = one_of(rng, [len(PAIRS), 2])
    wrong, right = map(list, zip(*PAIRS[:n], strict=True))
    return {
        **common_arguments(rng),
        "X": wrong,
        "y": right,
        "sample_weight": one_of(rng, [None, np.ones(n)]),
    }


# ------------------------------------------------------------------------------------ the benches


def made(case, size, **parameters):
    """An estimator of a case, with two components or dimensions unless told otherwise."""
    parameters = {**QUICK, **parameters}
    return case(parameters.pop(size, 2), **parameters)


def row_benches():
    for case in ESTIMATORS:
        X, labels = case.data(np.random.default_rng(1), n=N_ROWS, n_clusters=2)
        make = partial(made, case, "n_components")

        yield Bench(repr(case), make, of_rows(X, labels, case.sparse), {"X": X})


def sequence_benches():
    for case in [*SEQUENCE_ESTIMATORS, *KALMAN_FILTERS]:
        sequences, states = case.data(np.random.default_rng(2), n_sequences=4)
        sequences = [sequence[:6] for sequence in sequences]
        states = [part[:6] % 2 for part in states]
        make, n_dim_state = partial(made, case, case.size), getattr(case, "n_dim_state", 2)
        arguments = of_sequences(sequences, states, n_dim_state)
        yield Bench(repr(case), make, arguments, {"X": sequences})


def maker(kind, **defaults):
    """Makes estimators of a class with these parameters, unless told otherwise."""
    return lambda **parameters: kind(**{**defaults, **parameters})


def other_benches():
    rng = np.random.default_rng(3)
    y = np.arange(N_ROWS) % 2
    documents, rows = document_clusters(rng, y), rng.standard_normal((N_ROWS, 2)) + 4.0 * y[:, None]
    quick = {**QUICK, "random_state": 0}
    pair = {**quick, "n_components": 2}
    topics = {**pair, "n_sweeps": 4, "burn_in": 2, "average": 1}
    mixture, edit = GaussianMixture(2, **quick), {**quick, "parametrization": "tied"}

    of_documents, of_topic_documents = of_rows(documents, y, True), of_topics(documents, y)
    yield Bench(
        "CompoundDirichlet", maker(CompoundDirichlet, **quick), of_documents, {"X": documents}
    )
    for name, more in {
        "": {},
        "(map)": {"e_step": "map", "semi_supervised": True},
        "(collapsed)": {"solver": "gibbs", "semi_supervised": True},
    }.items():
        make = maker(LatentDirichletAllocation, **topics, **more)
        bench = f"LatentDirichletAllocation{name}"
        yield Bench(bench, make, of_topic_documents, {"X": documents})
    clicks, make = sequence_clusters(rng, y), maker(MarkovChainMixture, **pair)
    yield Bench("MarkovChainMixture(sequences)", make, of_chains(clicks, y), {"X": clicks})
    targets = rows @ [1.0, -1.0] * (2.0 * y - 1.0) + rng.standard_normal(N_ROWS)
    of_inputs, make = of_targets(rows, targets), maker(RegressionMixture, **pair)
    yield Bench("RegressionMixture", make, of_inputs, {"X": rows, "y": targets})
    for kind in ("tied", "full"):
        make = maker(EditDistance, **{**edit, "parametrization": kind})
        yield Bench(f"EditDistance({kind})", make, of_pairs, {"X": PAIRS})
    words = dict(zip("Xy", map(list, zip(*PAIRS, strict=True)), strict=True))
    make = maker(EditDistanceClassifier, edit_distance=EditDistance(**edit))
    yield Bench("EditDistanceClassifier", make, of_words, words)
    sequences, states = [rows[:5], rows[5:]], [y[:5], y[5:]]
    of_parts, make = (
        of_sequences(sequences, states),
        maker(PerSequence, transformer=StandardScaler()),
    )
    yield Bench("PerSequence", make, of_parts, {"X": sequences}, (OverflowError,), False)
    make = maker(AnomalyDetector, estimator=mixture)
    yield Bench("AnomalyDetector", make, of_rows(rows, y), {"X": rows})
    make = maker(AnomalyDetector, estimator=GaussianHMM(2, **quick))
    yield Bench("AnomalyDetector(HMM)", make, of_parts, {"X": sequences})
    targets = {"X": rows, "y": rows[:, 0] ** 2}
    # R^2 of one row is NaN.
    make = maker(MixtureRegressor, mixture=mixture)
    yield Bench("MixtureRegressor", make, of_targets(rows, targets["y"]), targets, (), False)
    make = maker(DistributedEM, estimator=mixture, n_shards=2, n_jobs=1)
    yield Bench("DistributedEM", make, of_rows(rows, y), {"X": rows})


BENCHES = {bench.name: bench for bench in [*row_benches(), *sequence_benches(), *other_benches()]}

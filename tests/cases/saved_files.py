"""Files of `save` that are kept, with what is in them: all later versions read them.

    PYTHONPATH=tests python -m cases.saved_files

adds to `tests/saved/format_1` what is not there yet, before each release. A change that makes one
of these files, or one of their names, unreadable needs another format, see
`sklearn_onlineem.persistence`. Until the first release the folder may be removed, and made anew.
"""

import copy
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.decomposition import IncrementalPCA
from sklearn.preprocessing import StandardScaler

from cases.damaged_files import parts_of
from cases.merged_cases import MERGED, REPRESENTATIVES
from cases.wrappers import WRAPPERS
from sklearn_onlineem import (
    GMMHMM,
    AnomalyDetector,
    CategoricalHMM,
    CompoundDirichlet,
    EditDistance,
    EditDistanceClassifier,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    Mixture,
    MixtureRegressor,
    PerSequence,
    PoissonHMM,
    PoissonMixture,
    PrequentialSearch,
    RegressionHMM,
    RegressionMixture,
    StreamPipeline,
    combine_estimators,
)
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import (
    Adaptive,
    Auto,
    Batch,
    BayesianOnline,
    Componentwise,
    Constant,
    Forgetting,
    Gibbs,
    Harmonic,
    Newton,
    Online,
    PowerDecay,
    SplitMerge,
    Stochastic,
)
from sklearn_onlineem.em.schedules import PowerDecayInRows
from sklearn_onlineem.em.step import Exact, Sampled
from sklearn_onlineem.persistence import save
from sklearn_onlineem.structure import Cycle, Inputs, Level, Season, Trend

FOLDER = Path(__file__).parents[1] / "saved"
# The first of these that an estimator, or a filter, has.
ASKED = ("update", "score_samples", "transform", "predict")


def kept():
    """Yield names, fitted estimators, and data to ask them about."""
    rng = np.random.default_rng(0)
    for case in REPRESENTATIVES:
        X, _ = case.data(rng, 24)
        yield case.make.__name__, case().partial_fit(X[:20]), X[20:]
    X, words = rng.normal(size=(24, 2)).round(3), ["ab", "ba", "abc"]
    for wrapper in WRAPPERS:
        learn = getattr(wrapper, "partial_fit", wrapper.fit)
        given, y = (X, X[:, 0]) if learn is not wrapper.fit else (X, None)
        if isinstance(wrapper, EditDistanceClassifier):
            given = y = words
        yield type(wrapper).__name__, learn(given, y), given[:3]
    steps = ("scaler", StandardScaler()), ("pca", IncrementalPCA(1)), ("mixture", GaussianMixture())
    yield "scaled", StreamPipeline([*steps]).fit_stream([X[:12], X[12:]]), X[:3]
    yield "PerSequence", PerSequence(StandardScaler()).fit([X]), [X[:3]]
    frame = pd.DataFrame({"kind": pd.Categorical(list("abc") * 8), "size": X[:, 0]})
    mixture = Mixture(2, family={"kind": "categorical", "size": "gaussian"}, random_state=0)
    yield "columns", mixture.partial_fit(frame), [["c", 0.5], ["a", 0.0]]
    for solver in (Adaptive(start_rows=0), Online(start_rows=5, sample=10)):
        mixture = GaussianMixture(2, solver=solver, random_state=np.random.RandomState(0))
        yield type(solver).__name__, mixture.partial_fit(X[:12]).partial_fit(X[12:]), X[:3]
    hmm = GaussianHMM(2, durations="poisson", max_duration=3, random_state=0)
    yield "durations", hmm.partial_fit(X), X[:3]
    structure = KalmanFilter(structure=Level() + Season(3), random_state=0)
    yield "structure", structure.fit(X[:, :1]), X[:5, :1]
    cycle = KalmanFilter(structure=Level(fixed=True) + Cycle(5.0), random_state=0)
    yield "cycle", cycle.fit(X[:, :1]), X[:5, :1]
    bits = RegressionHMM(2, lags=1, response="bernoulli", prior={"matrix_precision": 2.0})
    yield "bits", bits.set_params(random_state=0).fit(1.0 * (X > 0.0)), 1.0 * (X[:5] > 0.0)
    counts = RegressionHMM(2, lags=1, response="poisson", random_state=0)
    yield "counts", counts.fit(np.abs(X).round()), np.abs(X[:5]).round()
    filtering = PoissonHMM(2), KalmanFilter(), RegressionHMM(2, lags=1)
    for estimator in filtering:
        live = estimator.fit(np.abs(X).round()).live_filter()
        live.update([1.0, 2.0])
        yield type(live).__name__, live, [2.0, 1.0]


def fitted_in_all_ways(rng):
    """Fitted estimators of all classes, with all kinds of values among their parameters."""
    X = rng.normal(size=(60, 2))
    counts = np.abs(X).round() + 1.0
    for case in MERGED:
        data, _ = case.data(rng, 40)
        stream = case(max_iter=2, tol=0.0).partial_fit(data)
        yield stream
        members = [stream, copy.deepcopy(stream).partial_fit(data)]
        yield combine_estimators(members, align=False)
    for schedule in (PowerDecay(), PowerDecayInRows(5.0), Harmonic(), Constant(), Forgetting(0.9)):
        yield GaussianMixture(2, schedule=schedule).partial_fit(X)
    solvers = [Auto(), Batch(), Online(inertia=Exact()), Online(inertia=Sampled(50)), Stochastic()]
    for solver in [*solvers, SplitMerge(), Componentwise(), Adaptive()]:
        yield GaussianMixture(2, solver=solver).partial_fit(X)
    yield RegressionMixture(2).partial_fit(X, X[:, 0])
    yield GaussianMixture(2, params={"means": np.array([True, False])}).partial_fit(X)
    yield GaussianMixture(4, weight_concentration_prior=-30.0).partial_fit(X)
    for container in (sparse.csr_array, sparse.csr_matrix):
        yield PoissonMixture(2).partial_fit(container(counts), sample_weight=counts[:, 0])
    yield GaussianMixture(2, solver=Adaptive(start_rows=0)).partial_fit(X[:40]).partial_fit(X[40:])
    carrying = GaussianMixture(2, solver=BayesianOnline()).partial_fit(X).partial_fit(X)
    yield carrying
    yield GaussianMixture(2, prior=carrying.as_prior(9.0)).partial_fit(X)
    yield CompoundDirichlet(solver=Newton(), max_iter=2).fit(counts)
    yield LatentDirichletAllocation(2, solver=Gibbs(), max_iter=2).fit(counts)
    yield PoissonMixture(2, solver=Gibbs(n_draws=1), prior={"rate": 1.0}, max_iter=2).fit(counts)
    symbols = counts[:, :1] % 3
    yield CategoricalHMM(2).partial_fit(symbols[:30]).partial_fit(symbols[30:])
    yield GaussianHMM(2, termination="absorbing_states", absorbing_states=[1]).partial_fit(X)
    yield GMMHMM(2, n_mix=2, covariance_type="tied").partial_fit(X)
    for kind in ("poisson", "negative_binomial", "categorical"):
        yield GaussianHMM(2, durations=kind, max_duration=3).partial_fit(X)
    words = ["ab", "ba", "abc"]
    for parametrization in ("tied", "full"):
        yield EditDistanceClassifier(EditDistance(parametrization)).fit(words, words)
    structure = Trend() + Season(2) + Inputs()
    yield KalmanFilter(structure=structure).partial_fit(X[:, :1], inputs=X[:, 1:])
    yield KalmanFilter(observation_offsets=X, params={"transition_offsets": True}).partial_fit(X)
    yield DistributedEM(PoissonMixture(2, max_iter=2), n_shards=2, n_jobs=1).fit(counts)
    yield PerSequence(StandardScaler()).fit([X])
    yield AnomalyDetector(GaussianMixture(2)).partial_fit(X)
    yield MixtureRegressor().partial_fit(X, X[:, 0])
    yield GaussianMixture(solver=Online(start_rows=5, sample=10)).partial_fit(X)
    family, prior = dict.fromkeys(range(X.shape[1]), "gaussian"), {"0": {"mean_precision": 1.0}}
    yield Mixture(2, family=family, prior=prior).partial_fit(X)
    pipeline = StreamPipeline([("scaler", StandardScaler()), ("mixture", GaussianMixture())])
    yield PrequentialSearch(pipeline.fit_stream([X]), {"mixture__beta": [0.6]}).partial_fit(X)


def plain(value):
    """Return a value as JSON has it."""
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    return value.toarray().tolist() if sparse.issparse(value) else np.asarray(value).tolist()


def answer(estimator, X):
    """Return what an estimator says about data from JSON."""
    name = next(name for name in ASKED if hasattr(estimator, name))
    return plain(getattr(estimator, name)(X))


def names_in(estimator):
    """Return classes and fields, or attributes, that the file of an estimator names."""
    with tempfile.TemporaryDirectory() as folder:
        save(estimator, Path(folder, "saved"))
        return {*names_of(parts_of(Path(folder, "saved").read_bytes())[0]["value"])}


def names_of(coded):
    parts = coded if isinstance(coded, list) else ()
    if isinstance(coded, dict):
        ((kind, parts),) = coded.items()
        if isinstance(parts, dict):
            # Those of scikit-learn are its own.
            if not kind.startswith("sklearn."):
                yield from (f"{kind}: {name}" for name in parts)
            parts = parts.values()
    for part in parts if not isinstance(parts, int) else ():
        yield from names_of(part)


def names_kept():
    return {*(FOLDER / "format_1" / "names.txt").read_text().splitlines()}


def main():
    """Add files and names that are not there yet."""
    folder, answers, names = FOLDER / "format_1", {}, set()
    if folder.exists():
        answers, names = json.loads((folder / "answers.json").read_text()), names_kept()
    folder.mkdir(parents=True, exist_ok=True)
    for name, estimator, X in kept():
        if name not in answers:
            save(estimator, folder / f"{name}.npz")
            answers[name] = {"X": plain(X), "answer": answer(estimator, plain(X))}
    (folder / "answers.json").write_text(json.dumps(answers, indent=0))
    names.update(*map(names_in, fitted_in_all_ways(np.random.default_rng(0))))
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in sorted(names)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()

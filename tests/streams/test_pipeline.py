"""Pipelines that learn from streams: as their steps would by hand, or not at all."""

import copy
import gc
import weakref

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, StandardScaler

from sklearn_onlineem import (
    AnomalyDetector,
    GaussianHMM,
    GaussianMixture,
    MultinomialMixture,
    PerSequence,
    StreamPipeline,
)
from sklearn_onlineem.streams import pipeline


def mixture(n_components=2, **parameters):
    return GaussianMixture(n_components, random_state=0, **parameters)


def scaled(**parameters):
    return StreamPipeline([("scaler", StandardScaler()), ("mixture", mixture())], **parameters)


@pytest.fixture
def chunks(rng):
    """Ten chunks of 60 rows, of two clusters in three columns."""
    X = rng.normal(size=(600, 3)) * [1.0, 10.0, 0.1] + 5.0 * rng.integers(2, size=(600, 1))
    return np.array_split(X, 10)


def state(estimator):
    """All that an estimator has learnt, copied."""
    return copy.deepcopy(
        {
            name: value
            for name, value in vars(estimator).items()
            if name not in estimator.get_params()
        }
    )


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_equal(a[name], b[name])


# ------------------------------------------------------------------------------------- learning


def test_steps_learn_and_then_transform(chunks):
    steps = [("a", MaxAbsScaler()), ("b", StandardScaler()), ("c", IncrementalPCA(2))]
    by_hand = [clone(step) for _, step in steps]
    stream, model = StreamPipeline([*steps, ("mixture", mixture())]), mixture()
    for X in chunks:
        assert stream.partial_fit(X) is stream
        for step in by_hand:
            X = step.partial_fit(X).transform(X)
        model.partial_fit(X)
    assert_array_equal(stream["mixture"].means_, model.means_)
    assert_array_equal(
        stream.predict_proba(chunks[0])[-1], model.predict_proba(_through(by_hand, chunks[0]))[-1]
    )
    # The steps are those that were given.
    assert all(stream[name] is step for name, step in steps)
    assert stream.n_features_in_ == 3


def _through(steps, X):
    for step in steps:
        X = step.transform(X)
    return X


def test_steps_without_partial_fit_are_fitted_to_the_first_chunk_alone(chunks):
    gaps = [np.where(chunk > 6.0, np.nan, chunk) for chunk in chunks]
    stream = StreamPipeline([("imputer", SimpleImputer()), ("pca", PCA(2)), ("mixture", mixture())])
    for X in gaps:
        stream.partial_fit(X)
    imputer = SimpleImputer().fit(gaps[0])
    assert_array_equal(stream["imputer"].statistics_, imputer.statistics_)
    assert_array_equal(
        stream["pca"].components_, PCA(2).fit(imputer.transform(gaps[0])).components_
    )
    assert stream["mixture"].n_samples_seen_ == 600


def test_fitted_and_frozen_steps_stay(chunks):
    imputer = SimpleImputer(strategy="constant").fit(chunks[3])
    scaler = StandardScaler().fit(chunks[3])
    stream = StreamPipeline(
        [("imputer", imputer), ("scaler", FrozenEstimator(scaler)), ("mixture", mixture())]
    )
    before = state(imputer), state(scaler)
    stream.fit_stream(chunks)
    assert_same_state(state(imputer), before[0])
    assert_same_state(state(scaler), before[1])
    model = mixture()
    for X in chunks:
        model.partial_fit(scaler.transform(X))
    assert_array_equal(stream["mixture"].means_, model.means_)


def test_a_step_that_is_not_fitted_before_a_fitted_one(chunks):
    model = mixture().fit(chunks[0])
    stream = StreamPipeline([("imputer", SimpleImputer()), ("mixture", model)])
    stream.fit_stream(chunks[1:3])
    assert np.isnan(stream.prequential_scores_).tolist() == [True, False]


def test_texts_and_functions(rng):
    words = np.array(["one", "two", "three", "four"])
    texts = [[" ".join(words[rng.integers(4, size=5)]) for _ in range(30)] for _ in range(8)]
    vectorizer = HashingVectorizer(n_features=16, alternate_sign=False, norm=None)
    steps = [("hash", vectorizer), ("root", FunctionTransformer(np.sqrt, accept_sparse=True))]
    stream = StreamPipeline([*steps, ("mixture", MultinomialMixture(2, random_state=0))])
    stream.fit_stream(iter(texts))
    model = MultinomialMixture(2, random_state=0)
    for chunk in texts:
        model.partial_fit(np.sqrt(vectorizer.transform(chunk)))
    assert_array_equal(
        stream.score_samples(texts[0]), model.score_samples(np.sqrt(vectorizer.transform(texts[0])))
    )


def test_passthrough(chunks):
    stream = StreamPipeline([("skip", "passthrough"), ("scaler", StandardScaler()), ("end", None)])
    stream.partial_fit(chunks[0]).fit_stream(chunks[1:])
    assert_allclose(stream["scaler"].mean_, np.concatenate(chunks).mean(axis=0))
    assert_array_equal(stream.prequential_scores_, np.full(9, np.nan))
    with pytest.raises(
        ValueError, match="StreamPipeline.partial_fit: no step 'end' takes .*'classes'"
    ):
        stream.partial_fit(chunks[0], classes=[0, 1])


def test_sequences(rng):
    def draw():
        return [rng.normal(100.0, 9.0, size=(length, 2)) for length in (30, 40)]

    chunks = [draw() for _ in range(5)]
    scaler, hmm = PerSequence(StandardScaler()), GaussianHMM(2, random_state=0)
    stream = StreamPipeline([("scaler", clone(scaler)), ("hmm", clone(hmm))]).fit_stream(chunks)
    scores = []
    for chunk in chunks:
        if scores or hasattr(scaler, "transformer_"):
            scores.extend(hmm.score_samples(scaler.transform(chunk)))
        scaled = scaler.partial_fit(chunk).transform(chunk)
        hmm.partial_fit(scaled)
    assert_array_equal(stream["hmm"].means_, hmm.means_)
    # Each sequence counts once.
    assert_allclose(stream.prequential_score_, np.mean(scores), rtol=1e-12)
    with pytest.raises(ValueError, match="StreamPipeline.fit_stream scores .* no lengths: pass"):
        stream.fit_stream([np.ones((4, 2))], lengths=[2, 2])
    # Without scores there is no need to.
    stream.partial_fit(np.ones((4, 2)), lengths=[2, 2])


def test_detectors_of_rows_in_sequences(rng):
    def draw():
        sequences = [rng.normal(size=(length, 2)) for length in (30, 40)]
        sequences[1][3] = np.nan
        return sequences

    chunks, detector = [draw() for _ in range(4)], AnomalyDetector(GaussianHMM(2, random_state=0))
    stream, scores = StreamPipeline([("detector", clone(detector))]).fit_stream(chunks), []
    for chunk in chunks:
        if hasattr(detector, "offset_"):
            scores.extend(detector.score_samples(chunk))
        detector.partial_fit(chunk)
    assert stream["detector"].offset_ == detector.offset_
    assert_allclose(stream.prequential_score_, np.nanmean(np.concatenate(scores)), rtol=1e-12)
    with pytest.raises(ValueError, match="features"):
        stream.partial_fit([np.ones((3, 5))])
    assert stream["detector"].offset_ == detector.offset_


def test_an_estimator_without_partial_fit_cannot_end_it():
    for last in (PCA(), SimpleImputer()):
        stream = StreamPipeline([("last", last)])
        assert not hasattr(stream, "partial_fit") and not hasattr(stream, "fit_stream")
    assert not hasattr(StreamPipeline([]), "partial_fit")


# ----------------------------------------------------------------------------------- arguments


def test_weights_and_other_arguments_go_to_the_last_step(chunks, rng):
    weights = [rng.uniform(0.5, 2.0, len(X)) for X in chunks]
    stream, scaler, model = scaled(), StandardScaler(), mixture()
    for X, w in zip(chunks, weights, strict=True):
        stream.partial_fit(X, None, w)
        model.partial_fit(scaler.partial_fit(X).transform(X), sample_weight=w)
    assert_array_equal(stream["mixture"].means_, model.means_)
    assert_array_equal(stream["scaler"].mean_, scaler.mean_)
    by_name = scaled().fit_stream((X, None, w) for X, w in zip(chunks, weights, strict=True))
    assert_array_equal(by_name["mixture"].means_, model.means_)
    stream = scaled().partial_fit(chunks[0], scaler__sample_weight=weights[0])
    expected = StandardScaler().partial_fit(chunks[0], sample_weight=weights[0])
    assert_array_equal(stream["scaler"].mean_, expected.mean_)


def test_labels(chunks, rng):
    pairs = [(X, X[:, 0] > 2.5) for X in chunks]
    stream = StreamPipeline(
        [("scaler", StandardScaler()), ("model", SGDClassifier(random_state=0))]
    )
    stream.fit_stream(pairs, classes=[False, True])
    scaler, model = StandardScaler(), SGDClassifier(random_state=0)
    scores = [np.nan]
    for X, y in pairs:
        if hasattr(model, "coef_"):
            scores.append(model.score(scaler.transform(X), y))
        model.partial_fit(scaler.partial_fit(X).transform(X), y, classes=[False, True])
    assert_array_equal(stream.prequential_scores_, scores)
    assert_array_equal(stream["model"].coef_, model.coef_)
    stream = StreamPipeline([("mixture", mixture(semi_supervised=True))])
    with pytest.raises(ValueError, match="known components"):
        stream.partial_fit(chunks[0], y=np.full(60, 7))


@pytest.mark.parametrize(
    "name, message", [("absent__x", "no step 'absent'"), ("x", "partial_fit.*'?x'?")]
)
def test_unknown_arguments_are_refused(chunks, name, message):
    stream = scaled()
    with pytest.raises((TypeError, ValueError), match=message):
        stream.partial_fit(chunks[0], **{name: 1})
    assert not hasattr(stream["scaler"], "mean_")


def test_metadata_routing(chunks, rng):
    w = rng.uniform(0.5, 2.0, 60)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_partial_fit_request(sample_weight=True)
        last = mixture().set_partial_fit_request(sample_weight=False)
        stream = StreamPipeline([("scaler", scaler), ("mixture", last)])
        stream.partial_fit(chunks[0], sample_weight=w)
        expected = StandardScaler().partial_fit(chunks[0], sample_weight=w)
        assert_array_equal(scaler.mean_, expected.mean_)
        assert last.n_samples_seen_ == 60
        with pytest.raises(ValueError, match="sample_weight"):
            scaled().partial_fit(chunks[0], sample_weight=w)


# ------------------------------------------------------------------------------ all or nothing


class Failing(TransformerMixin, BaseEstimator):
    """Learns, and raises in the third `transform`."""

    def __init__(self, error):
        self.error = error

    def partial_fit(self, X, y=None):
        self.n_calls_ = getattr(self, "n_calls_", 0) + 1
        return self

    def transform(self, X):
        if self.n_calls_ == 3:
            raise self.error
        return X


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=repr)
def test_what_fails_leaves_every_step_as_it_was(chunks, error):
    inner = StreamPipeline([("scaler", StandardScaler()), ("pca", IncrementalPCA(2))])
    steps = [("max", MaxAbsScaler()), ("inner", inner), ("failing", Failing(error))]
    stream = StreamPipeline([*steps, ("mixture", mixture())])
    stream.partial_fit(chunks[0]).partial_fit(chunks[1])
    parts = [stream["max"], inner["scaler"], inner["pca"], stream["failing"], stream["mixture"]]
    before = [state(part) for part in parts[:-1]], stream["mixture"].means_.copy()
    with pytest.raises(type(error)):
        stream.partial_fit(chunks[2])
    inner = stream["inner"]
    parts = [stream["max"], inner["scaler"], inner["pca"], stream["failing"]]
    for part, saved in zip(parts, before[0], strict=True):
        assert_same_state(state(part), saved)
    assert_array_equal(stream["mixture"].means_, before[1])


def test_rows_that_only_the_last_step_refuses(chunks):
    stream = scaled().fit_stream(chunks[:5])
    # A scaler learns around gaps, a mixture of counts refuses them.
    stream = StreamPipeline(
        [("scaler", MinMaxScaler(clip=True)), ("mixture", MultinomialMixture(2, random_state=0))]
    ).fit_stream(chunks[:5])
    bad = np.where(chunks[5] > 6.0, np.nan, chunks[5])
    before = state(stream["scaler"]), stream.score_samples(chunks[0])
    with pytest.raises(ValueError, match="MultinomialMixture: X contains NaN"):
        stream.partial_fit(bad)
    assert_same_state(state(stream["scaler"]), before[0])
    assert_array_equal(stream.score_samples(chunks[0]), before[1])
    first = StreamPipeline([("imputer", SimpleImputer(add_indicator=True)), *scaled().steps])
    first.set_params(mixture=MultinomialMixture())
    with pytest.raises(ValueError, match="Negative"):
        first.partial_fit(bad)
    for name in ("imputer", "scaler", "mixture"):
        with pytest.raises(NotFittedError):
            sklearn.utils.validation.check_is_fitted(first[name])


def test_a_last_step_of_others_is_restored(chunks):
    class Fails(MiniBatchKMeans):
        def partial_fit(self, X, y=None, sample_weight=None):
            super().partial_fit(X, y, sample_weight)
            if self.n_steps_ == 3:
                raise ValueError("too many")
            return self

    stream = StreamPipeline([("scaler", StandardScaler()), ("last", Fails(2, random_state=0))])
    with pytest.raises(ValueError, match="too many") as raised:
        stream.fit_stream(chunks)
    assert raised.value.__notes__ == [
        "StreamPipeline.fit_stream failed in chunk 3; those before are learnt."
    ]
    assert stream["last"].n_steps_ == 2 and len(stream.prequential_scores_) == 2
    assert stream["scaler"].n_samples_seen_ == 120


# -------------------------------------------------------------------------------------- streams


def frames(chunks):
    return [pd.DataFrame(chunk, columns=["a", "b", "c"]) for chunk in chunks]


def table(chunks):
    return pa.Table.from_batches(map(pa.RecordBatch.from_pandas, frames(chunks)))


def written(chunks, folder):
    pd.concat(frames(chunks)).to_csv(folder / "rows.csv", index=False, float_format="%.17g")
    return pd.read_csv(folder / "rows.csv", chunksize=60)


SOURCES = {
    "list": lambda chunks, folder: chunks,
    "generator": lambda chunks, folder: (chunk for chunk in chunks),
    "1-tuples": lambda chunks, folder: ((chunk,) for chunk in chunks),
    "frames": lambda chunks, folder: frames(chunks),
    "read_csv": written,
    "record batches": lambda chunks, folder: iter(table(chunks).to_batches()),
    "reader": lambda chunks, folder: table(chunks).to_reader(),
    "table": lambda chunks, folder: table(chunks),
    "dataset": lambda chunks, folder: pyarrow.dataset.dataset(table(chunks)),
    "dask array": lambda chunks, folder: dask.array.from_array(
        np.concatenate(chunks), chunks=(60, 2)
    ),
    "dask frame": lambda chunks, folder: dask.dataframe.from_pandas(
        pd.concat(frames(chunks), ignore_index=True), npartitions=10, sort=False
    ),
}
NAMED = {"frames", "read_csv", "record batches", "reader", "table", "dataset", "dask frame"}


@pytest.mark.parametrize("source", SOURCES)
def test_any_source_of_chunks(chunks, source, tmp_path):
    expected = scaled().fit_stream(chunks)
    stream = scaled().fit_stream(SOURCES[source](chunks, tmp_path))
    assert_allclose(stream["mixture"].means_, expected["mixture"].means_, rtol=1e-12)
    assert_allclose(stream.prequential_scores_, expected.prequential_scores_, rtol=1e-12)
    assert len(stream.prequential_scores_) == 10
    assert hasattr(stream, "feature_names_in_") == (source in NAMED)


def test_a_chunk_of_too_many_parts_is_named(chunks):
    with pytest.raises(ValueError, match="5 parts") as raised:
        scaled().fit_stream([chunks[0], (1, 2, 3, 4, 5)])
    assert "in chunk 2" in raised.value.__notes__[0]


def test_each_chunk_is_scored_before_it_is_learnt(chunks):
    pieces = [chunks[0], chunks[1][:7], chunks[2][:0], chunks[3][:1], chunks[4]]
    stream, by_hand, rows = scaled().fit_stream(pieces), scaled(), []
    scores = []
    for X in (piece for piece in pieces if len(piece)):
        if len(scores):
            rows.extend(by_hand.score_samples(X))
        scores.append(by_hand.score(X) if scores else np.nan)
        by_hand.partial_fit(X)
    assert_allclose(stream.prequential_scores_, scores, rtol=1e-12)
    assert_allclose(stream.prequential_score_, np.mean(rows), rtol=1e-12)
    # It goes on, and its record begins anew; nothing is lost of the first chunk then.
    expected = stream.score(chunks[5])
    assert stream.fit_stream([chunks[5]]).prequential_scores_ == pytest.approx([expected])
    assert stream.fit_stream([]).prequential_scores_.shape == (0,)
    assert np.isnan(stream.prequential_score_)


def test_scores_count_by_weights(chunks, rng):
    w = rng.uniform(0.0, 3.0, 60)
    stream = scaled().fit_stream([chunks[0]])
    expected = np.average(stream.score_samples(chunks[1]), weights=w)
    stream.fit_stream([(chunks[1], None, w), (chunks[2], None, np.full(60, 1e-9))])
    assert_allclose(stream.prequential_scores_[0], expected, rtol=1e-12)
    assert_allclose(stream.prequential_score_, expected, rtol=1e-7)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        stream.fit_stream([(chunks[1], None, w[:-1])])


def test_memory_is_bounded(chunks, monkeypatch):
    alive = []

    def source():
        for _ in range(2):
            for chunk in chunks:
                copied = chunk.copy()
                alive.append(weakref.ref(copied))
                yield copied
                del copied
                gc.collect()
                assert sum(ref() is not None for ref in alive) <= 2

    monkeypatch.setattr(pipeline, "_MOST_SCORES", 15)
    stream = scaled().fit_stream(source())
    gc.collect()
    assert len(alive) == 20 and not any(ref() is not None for ref in alive)
    assert len(stream.prequential_scores_) == 15 and stream["mixture"].n_rows_kept_ == 0


def test_progress(chunks, capsys):
    stream = scaled(verbose=True).fit_stream(chunks)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "StreamPipeline: chunk 1, 60 rows, score nan",
        f"StreamPipeline: chunk 10, 600 rows, score {stream.prequential_scores_[-1]:.6f}",
    ]


# ------------------------------------------------------------------------------- as scikit-learn


def test_it_is_a_pipeline(chunks):
    stream = scaled().fit_stream(chunks)
    assert "StreamPipeline" in stream._repr_html_() and "StandardScaler" in repr(stream)
    copied = clone(stream)
    assert not hasattr(copied, "prequential_score_") and copied.get_params()["scaler__with_mean"]
    copied.set_params(mixture__n_components=3, scaler__with_mean=False).fit_stream(chunks)
    assert copied["mixture"].means_.shape == (3, 3) and copied["scaler"].mean_ is not None
    assert isinstance(stream[:1], StreamPipeline)
    X = np.concatenate(chunks)
    fitted = clone(stream).fit(X)
    assert_array_equal(
        fitted.predict(X),
        mixture().fit(StandardScaler().fit_transform(X)).predict(StandardScaler().fit_transform(X)),
    )

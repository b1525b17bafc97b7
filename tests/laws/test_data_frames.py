"""Names of columns, whatever the form of the input, and data frames that come out."""

import warnings
from functools import partial
from itertools import cycle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from cases.comparing import assert_identical
from cases.sequence_cases import all_models, flat
from cases.states import state_of
from numpy.testing import assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import GaussianHMM, GaussianMixture, KalmanFilter, PerSequence, PoissonMixture
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Batch

LIBRARIES = {"pandas": pd, "polars": pl}
both_libraries = pytest.mark.parametrize("library", LIBRARIES)
# Tables of pyarrow go in, and do not come out.
all_libraries = pytest.mark.parametrize("library", [*LIBRARIES, "pyarrow"])


def named(rows, names, library="pandas"):
    columns = dict(zip(names, np.transpose(rows), strict=True))
    return pa.table(columns) if library == "pyarrow" else LIBRARIES[library].DataFrame(columns)


def names_of(rows):
    return [f"x{j}" for j in range(rows.shape[1])]


def wrong_names(names):
    """Names that differ from those of the fit, and what scikit-learn says of them."""
    yield names[::-1], "same order"
    yield [*names[:-1], "other"], "unseen at fit time:\n- other"
    yield [*names, "more"], "unseen at fit time:\n- more"
    yield names[:-1], "now missing"


def forms_of(parts, frames):
    """The same sequences in every form in which names come along, with arguments."""
    rows, lengths = flat(parts)
    groups = np.repeat(np.arange(len(parts)), lengths)
    join = {pd.DataFrame: pd.concat, pl.DataFrame: pl.concat, pa.Table: pa.concat_tables}
    whole = join[type(frames[0])](frames)
    yield frames, {}
    yield tuple(frames), {}
    yield whole, {"lengths": lengths}
    yield whole, {"groups": groups}
    yield frames[:1], {}
    yield frames[0], {}


@all_models
@all_libraries
def test_names_are_checked_in_every_form(case, library, rng):
    X, _ = case.data(rng, 5)
    X = [part for part in X if len(part) > 3]
    names = names_of(X[0])
    frames = [named(part, names, library) for part in X]
    fitted = case(max_iter=2).fit(frames)
    assert list(fitted.feature_names_in_) == names
    assert_identical(state_of(fitted), state_of(case(max_iter=2).fit(X)))
    before = state_of(fitted)
    for data, where in forms_of(X, frames):
        assert list(case(max_iter=2).fit(data, **where).feature_names_in_) == names
        for method in case.inference:
            getattr(fitted, method)(data, **where)
    methods = cycle(case.inference)
    for wrong, message in wrong_names(names):
        if len(names) == 1 and wrong in (names, []):
            continue
        padded = [np.hstack([part, part])[:, : len(wrong)] for part in X]
        others = [named(part, wrong, library) for part in padded]
        for data, where in forms_of(X, others):
            for method in (next(methods), "partial_fit"):
                with pytest.raises(ValueError, match=rf"(?s)feature names.*{message}"):
                    getattr(fitted, method)(data, **where)
    assert_identical(state_of(fitted), before)


@all_models
@all_libraries
def test_sequences_of_one_list_agree_in_their_names(case, library, rng):
    X, _ = case.data(rng, 5)
    name, names = type(case()).__name__, [f"x{j}" for j in range(2)]
    X = [np.hstack([part, part])[:, :2] for part in X]
    frames = [named(part, names, library) for part in X]
    fitted = GaussianHMM(2, random_state=0, max_iter=2).fit(frames)
    for i, wrong in ((1, names[::-1]), (2, ["x0", "y"]), (4, ["a", "b"])):
        mixed = [*frames[:i], named(X[i], wrong, library), *frames[i + 1 :]]
        for method in (case().fit, case().partial_fit):
            with pytest.raises(ValueError, match=f"{name}: Sequence {i} of X has the columns"):
                method(mixed)
        with pytest.raises(ValueError, match=f"Sequence {i} of X has the columns"):
            fitted.score(mixed)


# Columns of NumPy's types are taken without scikit-learn's checks.
COLUMNS = {
    "floats": ["f8", "f8"],
    "single": ["f4", "f4"],
    "several": ["f4", "f8"],
    "whole": ["i8", "u1"],
    "some_whole": ["f8", "i4"],
    "nullable": ["Float64", "f8"],
    "sparse": 2 * [pd.SparseDtype("f8", 0.0)],
    "sparse_first": [pd.SparseDtype("f8", 0.0), "f8"],
}


# ... of polars the types of NumPy have the same names, and there are nulls everywhere.
OF_POLARS = {
    name: types for name, types in COLUMNS.items() if not name.startswith(("nullable", "sparse"))
}
OF_BOTH = [(pd, types) for types in COLUMNS.values()] + [(pl, t) for t in OF_POLARS.values()]
OF_BOTH_IDS = [f"pandas-{name}" for name in COLUMNS] + [f"polars-{name}" for name in OF_POLARS]


@pytest.mark.parametrize(("library", "types"), OF_BOTH, ids=OF_BOTH_IDS)
def test_frames_of_a_stream_are_taken_as_by_fit(library, types, rng):
    rows = rng.poisson(rng.choice([1.0, 20.0], size=(600, 1)), size=(600, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = [rows[:, j] if library is pd else rows[:, j].astype(types[j]) for j in range(2)]
        if library is pd:
            columns = [pd.Series(column, dtype=types[j]) for j, column in enumerate(columns)]
        whole = library.DataFrame({f"x{j}": column for j, column in enumerate(columns)})
        parts = [whole[begin : begin + 20] for begin in range(0, 600, 20)]
        if library is pl:
            few = pl.when(pl.col("x0") < 5).then(pl.col("x0")).otherwise(None)
            parts.insert(20, parts[0].with_columns(few))
        streams = PoissonMixture(2, random_state=0), PoissonMixture(2, random_state=0)
        for part in parts:
            streams[0].partial_fit(part)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sklearn_onlineem.estimators._rows.ready", lambda *_: None)
                streams[1].partial_fit(part)
    assert_identical(streams[0].model_, streams[1].model_)
    with pytest.raises(ValueError, match="PoissonMixture"):
        streams[0].partial_fit(library.DataFrame({"x0": -1.0 * rows[:20, 0], "x1": rows[:20, 1]}))


@all_libraries
@pytest.mark.parametrize("kind", [GaussianHMM, KalmanFilter])
def test_arrays_and_frames_are_not_mixed(kind, library, rng):
    X = [rng.standard_normal((6, 2)) for _ in range(3)]
    frames = [named(part, ["a", "b"], library) for part in X]
    other = named(X[0], ["a", "b"], "polars" if library == "pandas" else "pandas")
    for mixed in ([*frames, X[0]], [X[0], *frames], [frames[0], X[0].tolist()], [*frames, other]):
        with pytest.raises(TypeError, match=rf"{kind.__name__}: Sequence \d of X is of"):
            kind(2).fit(mixed)


def test_columns_without_names_are_compared_too(rng):
    """scikit-learn knows names that are strings only; in one list others must agree as well."""
    X = [rng.standard_normal((6, 2)) for _ in range(3)]
    frames = [pd.DataFrame(part) for part in X]
    expected = GaussianHMM(2, random_state=0).fit(X)
    assert_identical(state_of(GaussianHMM(2, random_state=0).fit(frames)), state_of(expected))
    with pytest.raises(ValueError, match="Sequence 2 of X has the columns"):
        GaussianHMM(2).fit([*frames[:2], frames[2][[1, 0]]])


@pytest.mark.parametrize("kind", [GaussianHMM, KalmanFilter])
def test_names_on_one_side_only_are_warned_of(kind, rng):
    new = partial(kind, 2, max_iter=5, random_state=0)
    X = [rng.standard_normal((6, 2)) for _ in range(3)]
    frames = [named(part, ["a", "b"]) for part in X]
    with pytest.warns(UserWarning, match="X has feature names, but"):
        new().fit(X).score(frames)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but"):
        new().fit(frames).score(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        new().fit(frames).score(frames)
        new().fit(X).score(X)


def test_shards_of_frames_keep_their_names(rng):
    X = [rng.standard_normal((6, 2)) for _ in range(4)]
    frames = [named(part, ["a", "b"]) for part in X]
    hmm = GaussianHMM(2, random_state=0, max_iter=2)
    learner = DistributedEM(hmm, n_shards=2).fit(frames)
    assert list(learner.estimator_.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="same order"):
        learner.score([frame[["b", "a"]] for frame in frames])
    with pytest.raises(ValueError, match="Sequence|feature names"):
        DistributedEM(hmm, n_shards=2).fit([*frames[:2], *(f[["b", "a"]] for f in frames[2:])])


# ---------------------------------------------------------------------------------- set_output


def timed(parts, library):
    """Data frames with an index, where these have one."""
    starts = np.cumsum([0, *map(len, parts)])
    for start, part in zip(starts, parts, strict=False):
        frame = named(part, names_of(part), library)
        if library == "pandas":
            frame.index = pd.date_range("2026-01-01", periods=len(part)) + pd.Timedelta(days=start)
        yield frame


@all_models
@both_libraries
def test_data_frames_come_out_if_asked_for(case, library, rng):
    X, _ = case.data(rng, 5)
    rows, lengths = flat(X)
    frames = list(timed(X, library))
    plain, fitted = case(max_iter=2).fit(X), case(max_iter=2).fit(frames)
    fitted.set_output(transform=library)
    kind, expected = LIBRARIES[library].DataFrame, plain.transform(X)
    names = list(fitted.get_feature_names_out())
    again = case(max_iter=2).set_output(transform=library).fit_transform(frames)
    for found in (fitted.transform(frames), fitted.transform(tuple(frames)), again):
        assert isinstance(found, list) and len(found) == len(X)
        for out, part, frame in zip(found, expected, frames, strict=True):
            assert isinstance(out, kind) and list(out.columns) == names
            assert_array_equal(out.to_numpy(), part)
            if library == "pandas":
                assert out.index.equals(frame.index)
    whole = (pd if library == "pandas" else pl).concat(frames)
    order = rng.permutation(len(rows))
    shuffled = whole.iloc[order] if library == "pandas" else whole[order.tolist()]
    groups = np.repeat(np.arange(len(X)), lengths)
    for data, where in (
        (whole, {"lengths": lengths}),
        (whole, {"groups": groups}),
        (shuffled, {"groups": groups[order]}),
        (frames[0], {}),
    ):
        out = fitted.transform(data, **where)
        assert isinstance(out, kind) and list(out.columns) == names and len(out) == len(data)
        if library == "pandas":
            assert out.index.equals(data.index)


@all_models
@both_libraries
def test_arrays_become_data_frames_too(case, library, rng):
    X, _ = case.data(rng, 5)
    cube = np.array([case.rows(rng, rng.integers(3, size=12)) for _ in range(4)])
    fitted = case(max_iter=2).fit(X)
    expected = fitted.transform(X), fitted.transform(cube)
    fitted.set_output(transform=library)
    for data, parts in zip((X, cube), expected, strict=True):
        for out, part in zip(fitted.transform(data), parts, strict=True):
            assert isinstance(out, LIBRARIES[library].DataFrame)
            assert_array_equal(out.to_numpy(), part)
    out = fitted.transform(X[-1])
    assert isinstance(out, LIBRARIES[library].DataFrame) and len(out) == len(X[-1])
    fitted.set_output(transform="default")
    assert all(isinstance(out, np.ndarray) for out in fitted.transform(X))


def test_the_container_of_the_configuration(rng):
    X = [rng.standard_normal((6, 2)) for _ in range(3)]
    for fitted in (GaussianHMM(2, random_state=0).fit(X), PerSequence(StandardScaler()).fit(X)):
        with sklearn.config_context(transform_output="pandas"):
            assert all(isinstance(out, pd.DataFrame) for out in fitted.transform(X))
        assert all(isinstance(out, np.ndarray) for out in fitted.transform(X))


def test_mixtures_keep_the_index(rng):
    X = rng.standard_normal((30, 2))
    (frame,) = timed([X], "pandas")
    out = GaussianMixture(2, random_state=0).set_output(transform="pandas").fit_transform(frame)
    assert out.index.equals(frame.index)


@both_libraries
def test_transformers_of_rows_see_names(library, rng):
    X = [rng.standard_normal((6, 2)) + [100.0, 0.0] for _ in range(3)]
    frames = list(timed(X, library))
    columns = make_column_transformer((StandardScaler(), ["x1"]))
    found = PerSequence(columns).fit(frames).transform(frames)
    expected = StandardScaler().fit(np.concatenate(X)[:, 1:])
    for out, part in zip(found, X, strict=True):
        np.testing.assert_allclose(out, expected.transform(part[:, 1:]), rtol=1e-12, atol=1e-14)
    scaler = PerSequence(StandardScaler()).fit(frames)
    with pytest.raises(ValueError, match="same order"):
        scaler.transform([named(part, ["x1", "x0"], library) for part in X])


@both_libraries
def test_pipelines_hand_on_data_frames(library, rng):
    X = [rng.standard_normal((6, 2)) for _ in range(3)]
    frames = list(timed(X, library))
    # Steps of EM, as others make last digits grow.
    states = KalmanFilter(2, solver=Batch(acceleration=None), random_state=0)
    pipeline = make_pipeline(PerSequence(StandardScaler()), states)
    expected = pipeline.fit(X).transform(X)
    found = sklearn.clone(pipeline).set_output(transform=library).fit(frames)
    assert list(found[-1].feature_names_in_) == ["x0", "x1"]
    for out, part, frame in zip(found.transform(frames), expected, frames, strict=True):
        np.testing.assert_allclose(out.to_numpy(), part, rtol=1e-9, atol=1e-12)
        if library == "pandas":
            assert out.index.equals(frame.index)

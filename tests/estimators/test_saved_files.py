"""Files without code: kept ones, damaged and hostile ones, and how they are written."""

import inspect
import json
import os
import warnings
import zipfile
from datetime import date, datetime
from functools import partial

import numpy as np
import pandas as pd
import pytest
from cases.comparing import assert_close
from cases.damaged_files import damaged, file_of, parts_of
from cases.saved_files import FOLDER, answer, names_kept
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

from sklearn_onlineem import AnomalyDetector, GaussianMixture, Mixture, StreamPipeline
from sklearn_onlineem.em import Adaptive
from sklearn_onlineem.families import Poisson
from sklearn_onlineem.persistence import _classes, _is_value, load, save

pytestmark = pytest.mark.whole
ANSWERS = {path.parent: json.loads(path.read_text()) for path in FOLDER.glob("*/answers.json")}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "saved.npz"


def by_file(estimator, path):
    save(estimator, path)
    return load(path)


# -------------------------------------------------------------------------------- that they last


@pytest.mark.parametrize(
    ("folder", "name"),
    [(folder, name) for folder, answers in ANSWERS.items() for name in answers],
    ids=lambda value: getattr(value, "name", value),
)
def test_kept_files_answer_as_they_did(folder, name, path):
    X, expected = ANSWERS[folder][name].values()
    with warnings.catch_warnings():
        # Of another scikit-learn, and of columns without names.
        warnings.simplefilter("ignore")
        loaded = load(folder / f"{name}.npz")
        for estimator in (loaded, by_file(loaded, path)):
            found = answer(estimator, X)
            if name == "EditDistanceClassifier":
                assert found == expected
            else:
                assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_all_names_of_the_format_are_still_understood():
    """If this fails, a class or a field has another name: see `sklearn_onlineem.persistence`."""
    names = {}
    for line in names_kept():
        kind, _, name = line.partition(": ")
        names.setdefault(kind, set()).add(name)
    assert names.keys() <= _classes().keys()
    for kind, known in names.items():
        if _is_value(_classes()[kind]):
            own = inspect.signature(_classes()[kind]).parameters
            assert known <= own.keys(), kind
            needed = {name for name, one in own.items() if one.default is inspect.Parameter.empty}
            assert needed <= known, kind
        elif issubclass(_classes()[kind], BaseEstimator):
            learnt = {name for name in known if name.startswith("_") or name.endswith("_")}
            own = {"n_rows_kept", *_classes()[kind]._get_param_names()}
            assert known - learnt <= own, kind


def test_parameters_that_an_earlier_version_had_not_get_their_defaults(path):
    scaler, mixture = StandardScaler(), GaussianMixture(2, reg_covar=1.0)
    pipeline = StreamPipeline([("scaler", scaler), ("mixture", mixture)], transform_input=["y"])
    save(AnomalyDetector(pipeline, contamination=0.5), path)
    document, _ = parts_of(path.read_bytes())
    text = json.dumps(document)
    for new in ('"with_std": true, ', '"reg_covar": 1.0, ', ', "contamination": 0.5'):
        assert text.count(new) == 1
        text = text.replace(new, "")
    path.write_bytes(file_of(text))
    loaded = load(path)
    names = ["contamination", "estimator__scaler__with_std", "estimator__mixture__reg_covar"]
    assert [loaded.get_params()[name] for name in names] == [0.01, True, "relative"]


@pytest.mark.parametrize("number", [2, 10**30])
def test_a_newer_format_is_refused_by_name(number, path):
    path.write_bytes(file_of({"format": number, "version": "9.1", "value": []}, others=[("x", "")]))
    with pytest.raises(ValueError, match=rf"saved.npz .* sklearn_onlineem 9.1 .*format {number}"):
        load(path)


# -------------------------------------------------------------------------------- what they hold

VALUES = [
    -0.0, np.nan, np.inf, -np.inf, 5e-324, 0.1, 2**100, True, "ü\ud800", b"\0x", (1, [2.0, ()]),
    {(1, 2): {3}, 1.5: frozenset("a")}, range(3), slice(1, None), np.float32(0.1),
    np.int8(-1), np.bool(True), np.str_(""), np.datetime64("NaT"), np.datetime64("2020-01", "h"),
    np.dtype("f4"), np.float64, np.random.RandomState(3),
    sparse.csr_array(np.eye(3)), sparse.csr_matrix((2, 0)),
    np.array(1.5), np.empty((0, 3)), np.asfortranarray(np.ones((2, 3))), np.arange(6)[::-2],
    date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5, 6), pd.Timestamp("2020", tz="Europe/Berlin"),
    pd.Timestamp("2020-01-01T00:00:00.000000001"), pd.Interval(0.0, 1.5, closed="both"),
    np.arange(3, dtype=">i2"), np.array(["a", "bc"]), np.array(["NaT", "2020"], "M8[ns]"),
    np.array([[1, "a", None], [np.nan, (1,), True]], dtype=object), np.array([1j], "c8"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__} {value!r:.20}")
def test_values_of_parameters_stay_what_they_are(value, path):
    """Before a fit, which validates them, they may be anything."""
    (found,) = by_file(GaussianMixture(means_init=[value]), path).means_init
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype
        assert found.flags.f_contiguous == value.copy("K").flags.f_contiguous
        assert repr(found) == repr(value)
    elif isinstance(value, np.random.RandomState):
        assert found.random_sample() == value.random_sample()
    elif sparse.issparse(value):
        np.testing.assert_array_equal(found.toarray(), value.toarray())
    else:
        assert repr(found) == repr(value)


def test_arrays_are_stored_once_and_read_by_numpy(path):
    array = np.ones((1000, 10))
    loaded = by_file(GaussianMixture(means_init=array, weights_init=array[:], tol=[array]), path)
    assert loaded.means_init is loaded.weights_init is loaded.tol[0]
    assert array.nbytes < path.stat().st_size < 1.1 * array.nbytes
    with np.load(path, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["0"], array)
        assert len(arrays) == 2


def test_texts_dates_and_categories_come_back(path, rng):
    days = pd.Categorical(pd.date_range("2020-01-01", periods=3).repeat(20))
    frame = pd.DataFrame({"text": list("abc") * 20, "day": days, "size": rng.normal(size=60)})
    kinds = {"text": "categorical", "day": "categorical", "size": "gaussian"}
    mixture = Mixture(2, family=kinds, random_state=0).partial_fit(frame)
    loaded = by_file(mixture, path)
    assert [*loaded.feature_names_in_] == [*frame]
    np.testing.assert_array_equal(loaded.predict_proba(frame), mixture.predict_proba(frame))
    assert repr(loaded.sample(3)) == repr(mixture.sample(3))
    with pytest.raises(ValueError, match="unknown category .d."):
        loaded.predict(frame.replace("a", "d"))


def test_transformers_of_scikit_learn_are_saved_within_pipelines(path, rng):
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    numbers = [("imputer", SimpleImputer()), ("scaler", RobustScaler()), ("pca", PCA(1))]
    pipeline = StreamPipeline([*numbers, ("mixture", GaussianMixture(2, random_state=0))])
    texts = [("codes", OneHotEncoder(sparse_output=False)), ("mixture", GaussianMixture(2))]
    for one, X in ((pipeline, frame), (StreamPipeline(texts), frame.round().astype(str))):
        one.partial_fit(X)
        loaded = by_file(one, path)
        np.testing.assert_array_equal(loaded.predict_proba(X), one.predict_proba(X))


class Own(Poisson):
    pass


def recursive():
    value = []
    value.append(value)
    return value


REFUSED = {
    "GaussianMixture.callbacks[0] cannot be saved: it is the function sum": {"callbacks": [sum]},
    "GaussianMixture.schedule cannot be saved: it is the function .*<lambda>": {
        "schedule": lambda t: 1.0
    },
    "GaussianMixture.means_init cannot be saved: it is an object of .*Generator": {
        "means_init": np.random.default_rng(0)
    },
    "MaskedArray": {"means_init": np.ma.ones(3)},
    "DataFrame": {"means_init": pd.DataFrame({"a": [1]})},
    "numpy.ndarray": {"means_init": np.zeros(1, "i4,i4")},
    "it contains itself": {"means_init": recursive()},
    "the class float": {"means_init": float},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_files_without_code_cannot_hold_is_refused_by_name(message, path):
    save(GaussianMixture(), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        save(GaussianMixture(**REFUSED[message]), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Mixture(family=Own()), r"Mixture.family .*Own"),
        (StreamPipeline([("forest", RandomForestRegressor())]), r"steps\[0\]\[1\].*RandomForest"),
        (StreamPipeline([("mixture", GaussianMixture())], memory="x"), "memory of StreamPipeline"),
        ([GaussianMixture()], "save takes an estimator of this library, got .*list"),
        (PCA, "save takes an estimator"),
    ],
    ids=repr,
)
def test_classes_of_others_are_refused_by_name(estimator, message, path):
    with pytest.raises(ValueError, match=message):
        save(estimator, path)


# --------------------------------------------------------------------------- how they are written


def test_a_file_is_replaced_as_a_whole_or_not_at_all(path, monkeypatch):
    save(GaussianMixture(2), path)
    link = path.with_name("link")
    link.symlink_to(path)
    save(GaussianMixture(3), link)
    assert link.is_symlink()
    assert load(path).n_components == 3
    again = path.with_name("again")
    save(GaussianMixture(3), again)
    assert again.read_bytes() == path.read_bytes()

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        save(GaussianMixture(4), path)
    assert load(path).n_components == 3
    assert sorted(os.listdir(path.parent)) == ["again", "link", "saved.npz"]


def test_errors_of_the_disk_are_those_of_python(path):
    with pytest.raises(FileNotFoundError):
        load(path)
    for call in (load, partial(save, GaussianMixture())):
        with pytest.raises(TypeError, match="PathLike"):
            call(3)
    with pytest.raises(OSError, match="saved.npz"):
        save(GaussianMixture(), path / "below")
    with pytest.raises(OSError, match=str(path.parent.name)):
        load(path.parent)


# ---------------------------------------------------------------------------------- hostile files


def file_with(value, arrays=(), **others):
    return file_of({"format": 1, "version": "0.1.0", "value": value}, arrays, **others)


def array_of(shape, content=b"", descr="<f8"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def random_state(position, key=None):
    key = np.zeros(624, "u4") if key is None else key
    return file_with({"RandomState": ["MT19937", {"array": 0}, position, 0, 0.0]}, [key])


GAUSSIAN = "estimators.GaussianMixture"
# What is wrong, and files of which that is.
HOSTILE = {
    "not a zip file": [b"", b"GIF89a", file_with([])[:-1]],
    "compressed": [file_with([], [np.zeros(10**6)], compression=zipfile.ZIP_DEFLATED)],
    "parts that no state has": [
        file_with([], others=[(name, b"")]) for name in ("../evil.npy", "1.npy", "0.npy/0.npy")
    ],
    "no item named": [file_of("{}").replace(b"state.json", b"Etate.json")],
    "not the shape": [
        file_with([], [array_of(*header)])
        for header in [(f"({10**12},)",), ("(2,)", b"8" * 8), ("()",)]
    ],
    "no arrays are of the type": [
        file_with([], [np.array([1, "a"], dtype=object)]),
        file_with([], [np.zeros(2, "i4,i4")]),
        file_with([], [array_of("(1,)", b"8" * 8, "|V8")]),
        *(file_with({tag: [name]}) for tag in ("dtype", "type") for name in ("O8", "f8,f8", "V9")),
        file_with({"scalar": ["<U0", ""]}),
    ],
    "": [
        file_with([], [array_of("(-1, -1)", b"8" * 8)]),
        file_with([], [array_of(f"({2**70}, 0)")]),
        file_with([], [b"", b"junk"]),
        file_of("[1, 2]"), file_of("{}"), file_of("{"), file_of('{"format": 1}'), file_of("1e999"),
        file_of("[" * 10**6), file_of('{"a":' * 10**5),
        *map(file_with, [{"array": 0}, {"array": "x"}, {"tuple": 1}, {"tuple": {}}, {}]),
        *map(file_with, [{"dict": [[1]]}, {"dict": [[[], 1]]}, {"objects": [[10**12], []]}]),
        file_with({"bytes": ["g"]}), file_with({"date": ["tomorrow"]}),
        file_with({"scalar": [f"<U{10**9}", ""]}),
        file_with({"csr_array": [[2, 2], [1.0], [5], [0, 1, 1]]}),
        file_with({"csr_array": [[2, 2], [1.0], [0], [0, 9, 1]]}),
        file_with({"csr_array": [[10**12, 10**12], [], [], [0]]}),
        file_with({"em.Constant": {"eta0": -1.0}}),
        file_with({"em.Constant": {"eta0": 1.0, "more": 1}}), file_with({"em.Constant": []}),
        file_with({"data.Strings": {"symbols": {"array": 0}, "offsets": {"array": 1}}},
                  [np.zeros(2, np.intc), np.array([0, 10**9])]),
    ],
    "not JSON": [file_of('{"format": 1, "version": "", "value": NaN}')],
    "no format": [file_of({"format": x, "version": "", "value": 1}) for x in (None, True, "1", 0)],
    "too many levels": [file_with(json.loads("[" * 200 + "]" * 200))],
    "this version has no class": [
        file_with({name: {"command": "true"}})
        for name in ("os.system", "builtins.eval", "em.run", "models.Model", "em.state.State")
    ],
    "has no attribute": [
        file_with({GAUSSIAN: {name: 1}}) for name in ("partial_fit", "__class__", "__dict__")
    ],
    "of the fitted state|of its state|fitted state is": [
        file_with({GAUSSIAN: {"_fitted": 1}}),
        file_with({GAUSSIAN: {"_fitted": {"estimators.Fitted": dict.fromkeys(
            ["state", "history", "attributes", "structure"])}}}),
    ],
    "memory of": [
        file_with({"streams.StreamPipeline": {"steps": [], "memory": "folder"}}),
        file_with({"sklearn.pipeline.Pipeline": {"steps": [], "memory": "folder"}}),
    ],
    "it holds no estimator": [*map(file_with, [[1], {"type": ["<f8"]}, {"tuple": []}])],
    "a RandomState has no such state": [
        *map(random_state, (625, -1, 10**9)), random_state(0, np.zeros(1, "u4")),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("message", "content"),
    [(message, content) for message, contents in HOSTILE.items() for content in contents],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_files_are_refused(message, content, path):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"saved.npz cannot be loaded: .*({message})"):
        load(path)
    assert os.listdir(path.parent) == [path.name]


def test_damaged_files_are_refused_or_have_a_state(path, rng):
    mixture = GaussianMixture(2, solver=Adaptive(), random_state=0)
    save(mixture.partial_fit(rng.normal(size=(60, 2))), path)
    content, n_refused = path.read_bytes(), 0
    for size in range(0, len(content), 499):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="cannot be loaded"):
            load(path)
    for _ in range(100):
        path.write_bytes(damaged(rng, content))
        try:
            load(path)
        except ValueError:
            n_refused += 1
    assert 20 < n_refused < 80

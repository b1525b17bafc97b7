"""Files of `save` that were damaged, or written by somebody hostile who knows the format."""

import io
import json
import zipfile
from contextlib import suppress

import numpy as np

# What stands in the place of values and arrays.
VALUES = [
    None, True, -1, 0, 3, 10**30, 1e300, "", "gaussian", [], [1, [2]], {}, {"tuple": []},
    {"array": 0}, {"array": 10**6}, {"float": ["nan"]}, {"float": ["inf"]}, {"dict": [[1, 2]]},
    {"a": 1, "b": 2}, {"os.system": {"command": "true"}}, {"range": [0, 10**18, 1]},
    {"objects": [[10**9], []]},
    {"scalar": ["<f8", "00"]}, {"scalar": ["<U999999999", ""]}, {"dtype": ["O"]}, {"type": ["<i8"]},
    {"em.Constant": {"eta0": 1.0}}, {"statistics.Sums": {"weight": {"array": 0}, "total": 1.0}},
]  # fmt: skip
CHANGES = [
    lambda a: a[:-1], lambda a: np.concatenate([a, a]), lambda a: a[None], lambda a: a.reshape(-1),
    lambda a: a.astype("f4"), lambda a: a.astype("i8"), lambda a: a.astype("i4"),
    lambda a: a.astype("c16"), lambda a: a.astype("U8"), lambda a: a.astype(">f8"),
    lambda a: np.zeros_like(a), lambda a: -a, lambda a: a + 1, lambda a: a * 0 + 10**9,
    lambda a: a * np.nan, lambda a: a[:0],
]  # fmt: skip


def parts_of(content):
    """Return the JSON of a file, and its arrays."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name != "state.json"]
        arrays = [np.load(io.BytesIO(archive.read(name)), allow_pickle=False) for name in names]
        return json.loads(archive.read("state.json")), arrays


def file_of(document, arrays=(), others=(), compression=zipfile.ZIP_STORED):
    """Return a file of JSON, of arrays or their bytes, and of pairs of names and other bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        text = document if isinstance(document, str) else json.dumps(document)
        archive.writestr("state.json", text)
        for number, array in enumerate(arrays):
            part = io.BytesIO()
            if isinstance(array, np.ndarray):
                np.save(part, array, allow_pickle=True)
            archive.writestr(f"{number}.npy", part.getvalue() or array)
        for name, content in others:
            archive.writestr(name, content)
    return file.getvalue()


def places_in(value):
    """Yield all containers in JSON, with each of their keys."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])


def damaged(rng, content):
    """Return a file with other bytes, or with a value, an array or a name that is another."""
    kind = rng.integers(8)
    if kind == 0:
        return content[: rng.integers(len(content))]
    if kind == 1:
        changed = np.frombuffer(content, np.uint8).copy()
        at = rng.integers(len(changed), size=rng.integers(1, 9))
        changed[at] = rng.integers(256, size=len(at))
        return changed.tobytes()
    document, arrays = parts_of(content)
    for _ in range(rng.integers(1, 3)):
        if arrays and kind > 4:
            number = rng.integers(len(arrays))
            # Some arrays are texts, or have no dimension.
            with suppress(TypeError, ValueError, IndexError):
                arrays[number] = np.asarray(CHANGES[rng.integers(len(CHANGES))](arrays[number]))
            continue
        places = [*places_in(document)]
        inner, key = places[rng.integers(len(places))]
        others = [*VALUES, *({"array": n} for n in range(len(arrays)))]
        if isinstance(inner, dict) and rng.random() < 0.2:
            name = str(rng.choice(["x", "partial_fit", "__class__", "models.MixtureModel"]))
            inner[name] = inner.pop(key)
        else:
            inner[key] = others[rng.integers(len(others))]
    return file_of(document, arrays)

"""What the docstrings of public methods say."""

import inspect
import re

import pytest

import sklearn_onlineem

CLASSES = [
    value
    for value in (getattr(sklearn_onlineem, name) for name in sklearn_onlineem.__all__)
    if inspect.isclass(value) and hasattr(value, "fit")
]
OF_DATA = """score score_samples predict predict_proba transform inverse_transform fit_predict
fit_transform bic aic sample decode filter smooth forecast impute score_rows distance pairwise
align kneighbors""".split()
METHODS = [
    pytest.param(getattr(kind, name), id=f"{kind.__name__}.{name}")
    for kind in CLASSES
    for name in OF_DATA
    if getattr(getattr(kind, name, None), "__module__", "").startswith("sklearn_onlineem")
]


@pytest.mark.parametrize("method", METHODS)
def test_methods_say_what_they_take_return_and_raise(method):
    text = inspect.getdoc(method)
    for heading in ("Parameters", "Returns", "Raises"):
        assert f"\n\n{heading}\n{'-' * len(heading)}\n" in text, heading
    parameters = text.partition("Parameters\n")[2].partition("Returns\n")[0]
    for name in list(inspect.signature(method).parameters)[1:]:
        assert re.search(rf"^(?! ).*\b{name}\b", parameters, re.M), name


def test_there_are_methods():
    assert len(METHODS) > 100

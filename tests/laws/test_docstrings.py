"""What the docstrings of public methods say."""

import inspect
import re
from operator import attrgetter

import pytest
from cases.public_names import public

import sklearn_onlineem

pytestmark = pytest.mark.whole

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


def test_headings_have_their_own_line():
    broken = [path for path, value in public() if re.search(r"\S -{4,}", value.__doc__ or "")]
    assert not broken and re.search(r"\S -{4,}", "Notes ----- Batches")


def documented_parameters(kind):
    """Names, kinds and texts of the parameters in a class's docstring."""
    section = inspect.getdoc(kind).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    for entry in filter(None, re.split(r"^(?=\S)", section, flags=re.M)):
        head, _, text = entry.partition("\n")
        names, _, type_ = head.partition(" : ")
        for name in names.split(", "):
            yield name, type_, text.strip()


ESTIMATORS = [kind for kind in CLASSES if hasattr(kind, "_structural_parameters")]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_documented_with_its_default(kind):
    documented = {name: (type_, text) for name, type_, text in documented_parameters(kind)}
    signature = inspect.signature(kind)
    assert set(documented) == set(signature.parameters)
    for name, parameter in signature.parameters.items():
        type_, text = documented[name]
        assert text, name
        default = parameter.default
        shown = (
            f'"{default}"' if isinstance(default, str) else str(default).replace("0.001", "1e-3")
        )
        shown = {"0.01": "1e-2", "1e-06": "1e-6"}.get(shown, shown)
        assert type_.endswith(f"default={shown}"), (name, type_, shown)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_signatures_are_explicit(kind):
    """As scikit-learn and editors want them: own parameters first, all but one by name only."""
    parameters = list(inspect.signature(kind).parameters.values())
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= 1 and [p.name for p in parameters][: len(positional)] == positional
    assert sorted(p.name for p in parameters) == sorted(kind().get_params(deep=False))
    own = [name for name in kind.__annotations__ if name not in positional]
    shown = [p.name for p in parameters if p.name not in positional]
    assert shown[: len(own)] == own


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_estimator_names_its_relatives(kind):
    section = inspect.getdoc(kind).partition("See Also\n--------\n")[2].partition("\n\n")[0]
    names = re.findall(r"^([\w.]+) : .", section, re.M)
    assert names
    assert all(attrgetter(name)(sklearn_onlineem) is not kind for name in names)

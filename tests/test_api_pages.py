"""The pages of the API name what there is, and all of it."""

from importlib import import_module
from pathlib import Path

import pytest

import sklearn_onlineem
from sklearn_onlineem import data, diagnostics, displays, distributed, em, families, models

PAGE = Path(__file__).parents[1] / "doc" / "api.rst"
MODULES = [sklearn_onlineem, em, data, families, models, diagnostics, displays, distributed]
# Tables of names, which the pages of what they name describe.
TABLES = {"BETA_SCHEDULES", "SCHEDULES", "SOLVERS", "STOPPING_RULES", "__version__"}


def listed_names():
    """Names with their modules, as ``.. currentmodule::`` and ``.. autosummary::`` list them."""
    module, in_summary = None, False
    for line in PAGE.read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
        if line and not line.startswith(" "):
            in_summary = line.startswith(".. autosummary::")
        elif in_summary and line and not line.lstrip().startswith(":"):
            yield f"{module}.{line.strip()}"


NAMES = list(listed_names())


@pytest.mark.parametrize("name", NAMES)
def test_each_listed_name_can_be_imported(name):
    module, _, name = name.rpartition(".")
    assert hasattr(import_module(module), name)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_each_public_name_is_listed(module):
    public = {f"{module.__name__}.{name}" for name in set(module.__all__) - TABLES}
    assert public <= set(NAMES)


def test_no_name_is_listed_twice():
    assert len(set(NAMES)) == len(NAMES)

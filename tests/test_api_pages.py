"""The page of the API names what there is, and all that the package and its rooms export."""

from importlib import import_module

import pytest
from cases.public_names import PACKAGE, imported, listed_names

ROOMS = "data diagnostics displays distributed em families models statistics".split()
MODULES = [PACKAGE, *(f"{PACKAGE}.{room}" for room in ROOMS)]


def test_each_listed_name_can_be_imported_from_where_it_is_public():
    for path in listed_names():
        imported(path)
        assert not any(part.startswith("_") for part in path.split(".")), path


@pytest.mark.parametrize("module", MODULES)
def test_each_public_name_is_listed(module):
    public = {f"{module}.{name}" for name in import_module(module).__all__}
    assert public - {f"{PACKAGE}.__version__"} <= set(listed_names())


def test_no_name_is_listed_twice():
    assert len(set(listed_names())) == len(listed_names())

"""Packages whose names are imported when they are first asked for."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sklearn_onlineem
from sklearn_onlineem._lazy import lazy_names

LAZY = ["sklearn_onlineem", "sklearn_onlineem.estimators", "sklearn_onlineem.families"]


def names_for_type_checkers(package):
    """Where statements under ``TYPE_CHECKING`` import each name from."""
    tree = ast.parse(Path(package.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    homes = [(alias.name, line.module) for line in block.body for alias in line.names]
    found = {name: home for name, home in homes if name != "*"}
    for _, home in [pair for pair in homes if pair[0] == "*"]:
        found |= names_for_type_checkers(import_module(home))
    return found


@pytest.mark.parametrize("name", LAZY)
def test_lazy_names_are_those_that_type_checkers_see(name):
    package = import_module(name)
    expected = names_for_type_checkers(package)
    assert set(package.__all__) - {"__version__"} == set(expected)
    for exported, home in expected.items():
        assert getattr(package, exported) is getattr(import_module(home), exported)
        assert exported in dir(package)


@pytest.mark.parametrize("name", LAZY)
def test_an_unknown_name_is_an_attribute_error_that_names_the_package(name):
    with pytest.raises(AttributeError, match=f"'{name}' has no attribute 'GausianMixture'"):
        import_module(name).GausianMixture  # noqa: B018


def test_subpackages_are_attributes_without_an_import_of_their_own():
    code = "import sklearn_onlineem; print(sklearn_onlineem.families.Poisson.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Poisson"]
    assert {"diagnostics", "displays", "families"} <= set(dir(sklearn_onlineem))


def test_one_estimator_does_not_import_the_others():
    code = (
        "import sys; from sklearn_onlineem import GaussianMixture;"
        "print(*(m for m in sys.modules if m.startswith('sklearn_onlineem')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "sklearn_onlineem.estimators.mixtures.gaussian" in loaded
    for room in ("streams", "distributed", "diagnostics", "displays", "estimators.kalman",
                 "families.poisson", "families.student_t", "models.hidden_markov"):  # fmt: skip
        assert f"sklearn_onlineem.{room}" not in loaded


def test_a_module_that_fails_says_why(tmp_path, monkeypatch):
    (tmp_path / "a_broken_one.py").write_text("import math\nmath.no_such_function\n")
    (tmp_path / "a_package.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    package = import_module("a_package")
    package.__path__ = [str(tmp_path)]
    _, package.__getattr__, _ = lazy_names("a_package", {"a_broken_one": ["Name"]})
    with pytest.raises(ImportError, match="a_broken_one.*no_such_function"):
        exec("from a_package import Name")

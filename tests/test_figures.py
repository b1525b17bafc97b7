"""Pages quote the records of benchmarks, and what the tables of speed make of their rows."""

import re
from importlib import import_module

import pytest

from benchmarks import records
from benchmarks._rows import Row, compared
from benchmarks.floors import Operations, Rates
from benchmarks.speed.__main__ import figures
from benchmarks.typed_figures import typed

ROWS = [
    Row("a pass of EM, full Gaussians", "16", "slow", 20.4, 7.0, 3.0),
    Row("a pass of EM, full Gaussians", "16", "best", 2.04, 7.0, 2.0),
    Row("a pass of EM, full Gaussians", "64", "best", 3.5, None, 1.7),
    Row("a pass of EM, full Gaussians", "64", "third", None),
    Row("topics: a sweep, drawn", "50", "none", None),
]


def test_tables_have_the_best_rival_and_name_those_that_are_not_installed(monkeypatch):
    monkeypatch.setattr(records, "read", {"speed": {"figures": figures(ROWS)}}.__getitem__)
    readme, every = (records.shown(name).splitlines() for name in ("speed.readme", "speed.table"))
    assert "full Gaussians | best, third (not installed) | 2 to 3.5 | 1.7 to 3 | 7 |" in readme[3]
    assert "| topics: a sweep | none (not installed) |  |  |  | `benchmarks" in readme[-2]
    assert every[3] == "| a pass of EM, full Gaussians | 16 | slow | 20 | 3 | 7 |"
    assert records.shown("speed.full_gaussians.best:.1f") == "2.0 to 3.5"


@pytest.mark.parametrize("page", records.PAGES, ids=lambda page: page.parent.name + page.stem)
def test_figures_of_pages_are_those_of_the_records(page):
    text = page.read_text()
    assert text.count("<!-- measured ") == len(records.MARKED.findall(text))
    assert not re.findall(r"^ *<!-- measured \S+ -->.", text, re.MULTILINE)  # would be a block
    assert records.filled(records.MARKED.sub(r"\1stale\3", text)) == text


def test_pages_name_figures_that_there_are():
    pages = "".join(page.read_text() for page in records.ROOT.glob("doc/**/*.rst"))
    assert all(map(records.shown, re.findall(r"(?<=:measured:`)[^`]+", pages)))
    with pytest.raises(KeyError):
        records.shown("speed.nothing")


def test_typed_figures_are_found_in_prose_alone():
    text = "3.4 times\n>>> x  # 2 s\n0.25\n\nin 5 ms, .03\n:defined:`5 times`, ``0.31``, 1e-6 times"
    assert list(typed(text)) == [(1, "3.4 times"), (5, "5 ms"), (5, ".03")]


def test_a_comparison_refuses_unequal_work():
    for others in ({"theirs": lambda: 1.1}, {"theirs": None, "baseline": lambda: 1.1}):
        with pytest.raises(AssertionError):
            compared(lambda: 1.0, n_rounds=1, rel_tol=1e-6, **others)
    assert compared(lambda: 1.0, None, 1) == (None, None, None)
    assert compared(lambda: 1.0, None, 1, rel_tol=0.0, baseline=lambda: 1.0)[2] > 0.0


def test_the_floor_is_that_of_arithmetic_or_of_memory():
    rates = Rates(multiply_adds=10.0, exponentials=4.0, n_bytes=8.0)
    assert rates.floor(Operations(10.0, 4.0, 1.0)) == pytest.approx(2.0)
    assert rates.floor(Operations(10.0, 4.0, 24.0)) == pytest.approx(3.0)


@pytest.mark.rivals
@pytest.mark.parametrize("name", ["mixtures", "kalman"])
def test_rivals_do_equal_work(name):
    rows = import_module(f"benchmarks.speed.{name}").rows(n_rounds=1, share=0.001)
    assert all(row.faster > 0.0 for row in rows if row.rival)

"""The tables that `python -m benchmarks.speed --write` puts into the README and the benchmarks."""

import numpy as np
import pytest

from benchmarks._rows import Row, compared
from benchmarks.floors import Operations, Rates
from benchmarks.speed.__main__ import BEGIN, END, ROOT, details, summary, write

FOUND = [
    ("one", Row("a pass", "4 states", "slow", 20.4, 3.0, 7.0)),
    ("one", Row("a pass", "4 states", "best", 2.04, 2.0)),
    ("one", Row("a pass", "32 states", "slow", 30.0, 1.5)),
    ("one", Row("a pass", "32 states", "best", 3.5, 1.7)),
    ("one", Row("a pass", "32 states", "third", None, 1.6)),
    ("two", Row("topics", "50", "none", None)),
    ("two", Row("gaps", "16", "", None, 9.0)),
]


def test_the_summary_has_the_best_rival_and_names_those_that_are_not_installed():
    assert summary(FOUND)[2:] == [
        "| a pass | best, third (not installed) | 2 to 3.5 | 7 | 1.5 to 2 |"
        " `benchmarks.speed.one` |",
        "| topics | none (not installed) |  |  |  | `benchmarks.speed.two` |",
        "| gaps |  |  |  | 9 |  |",
    ]
    assert details(FOUND)[2] == "| a pass | 4 states | slow | 20 | 7 | 3 |"
    assert details(FOUND)[-2:] == [
        "| topics | 50 | none | not installed |  |  |",
        "| gaps | 16 |  |  |  | 9 |",
    ]


@pytest.mark.parametrize("name", ["README.md", "benchmarks/README.md"])
def test_tables_replace_what_stands_between_the_markers_and_nothing_else(name, tmp_path):
    text = (ROOT / name).read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    copy = tmp_path / "page.md"
    copy.write_text(text)
    for _ in range(2):
        write(copy, details(FOUND), "Measured today.")
    written = copy.read_text()
    assert written.partition(BEGIN)[0] == text.partition(BEGIN)[0]
    assert written.partition(END)[2] == text.partition(END)[2]
    assert written.count("| topics | 50 |") == 1 and "\n\nMeasured today.\n" in written


def test_a_comparison_refuses_unequal_work():
    with pytest.raises(AssertionError):
        compared(lambda: 1.0, lambda: 1.1, 1, rel_tol=1e-6)
    with pytest.raises(AssertionError):
        compared(lambda: 1.0, None, 1, rel_tol=1e-6, baseline=lambda: 1.1)
    assert compared(lambda: 1.0, None, 1) == (None, None, None)
    assert compared(lambda: 1.0, None, 1, rel_tol=0.0, baseline=lambda: 1.0)[2] > 0.0


def test_the_floor_is_that_of_arithmetic_or_of_memory():
    rates = Rates(multiply_adds=10.0, exponentials=4.0, n_bytes=8.0)
    assert np.isclose(rates.floor(Operations(10.0, 4.0, 1.0)), 2.0)
    assert np.isclose(rates.floor(Operations(10.0, 4.0, 24.0)), 3.0)

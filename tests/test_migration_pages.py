"""Pages on coming from other libraries: their tables name what differs from those installed."""

import inspect
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pykalman
import pytest
from hmmlearn import hmm
from sklearn import decomposition, mixture

import sklearn_onlineem as ours
from sklearn_onlineem.estimators._known import Settable

GUIDE = Path(__file__).parents[1] / "doc" / "guide"
# The name that a literal begins with: ``tol``, ``tol=0.1``, ``fit(X)``, ``monitor_.history``.
LITERAL = re.compile(r"``([a-z]\w*)")
RNG = np.random.default_rng(0)
ROWS, SYMBOLS = RNG.normal(size=(30, 2)), RNG.integers(3, size=(30, 1))
COUNTS = RNG.multinomial(4, [0.2, 0.3, 0.5], size=30)


class Pair(NamedTuple):
    page: str
    theirs: object  # fitted
    ours: type


def pairs():
    yield Pair("hmmlearn", hmm.GaussianHMM(2).fit(ROWS), ours.GaussianHMM)
    yield Pair("hmmlearn", hmm.CategoricalHMM(2).fit(SYMBOLS), ours.CategoricalHMM)
    yield Pair("hmmlearn", hmm.PoissonHMM(2).fit(COUNTS), ours.PoissonHMM)
    yield Pair("hmmlearn", hmm.MultinomialHMM(2).fit(COUNTS), ours.MultinomialHMM)
    kalman = pykalman.KalmanFilter(n_dim_state=2, n_dim_obs=2).em(ROWS, n_iter=1)
    yield Pair("pykalman", kalman, ours.KalmanFilter)
    yield Pair("scikit_learn", mixture.GaussianMixture(2).fit(ROWS), ours.GaussianMixture)
    topics = decomposition.LatentDirichletAllocation(2).fit(COUNTS)
    yield Pair("scikit_learn", topics, ours.LatentDirichletAllocation)


PAIRS = list(pairs())
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.ours.__name__)
each_page = pytest.mark.parametrize("page", sorted({pair.page for pair in PAIRS}))


def table(page):
    """Rows of the table of names: what is theirs, and what is here."""
    text = (GUIDE / f"from_{page}.rst").read_text().partition("\nNames\n=====\n")[2]
    _, _, body, _ = re.split(r"^=+  =+$", text, flags=re.M)
    width = re.search(r"^=+", text, flags=re.M).end() - re.search(r"^=+", text, flags=re.M).start()
    rows = []
    for line in body.strip("\n").splitlines():
        left, right = line[:width].strip(), line[width:].strip()
        if left:
            rows.append((left, right))
        else:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {right}")
    return rows


def names_of(estimator, cls):
    """Names of the parameters, and of the public attributes and methods."""
    parameters = set(inspect.signature(cls).parameters)
    return parameters | {name for name in dir(estimator) if not name.startswith("_")}


def names_here(page):
    return set().union(*(names_of(pair.ours, pair.ours) for pair in PAIRS if pair.page == page))


def names_there(page):
    return set().union(
        inspect.signature(mixture.BayesianGaussianMixture).parameters,
        *(names_of(pair.theirs, type(pair.theirs)) for pair in PAIRS if pair.page == page),
    )


@each_pair
def test_each_name_of_theirs_is_one_of_ours_or_on_the_page(pair):
    theirs = names_of(pair.theirs, type(pair.theirs))
    on_page = {name for left, _ in table(pair.page) for name in LITERAL.findall(left)}
    assert theirs - names_of(pair.ours, pair.ours) <= on_page


@each_page
def test_each_name_on_the_page_is_there_and_here(page):
    left, right = (
        set(LITERAL.findall(" ".join(column))) for column in zip(*table(page), strict=True)
    )
    assert left - {"vhmm", "sqrt"} <= names_there(page)
    assert right <= names_here(page)


@each_page
def test_what_the_page_says_is_missing_is_missing(page):
    missing = {left.strip("`") for left, right in table(page) if right.startswith("none")}
    assert missing
    assert not missing & names_here(page)


@each_pair
def test_fitted_attributes_can_be_set_where_the_page_says_so(pair):
    fitted = {name for name in vars(pair.theirs) if name.endswith("_")}
    known = {name for name in fitted if isinstance(getattr(pair.ours, name, None), Settable)}
    assert known or pair.page == "pykalman"
    for name in known:
        value = getattr(pair.theirs, name)
        estimator = pair.ours(2)
        setattr(estimator, name, value)
        np.testing.assert_allclose(getattr(estimator, name), value)
    # But not what scikit-learn's validation writes.
    for name in (fitted & names_of(pair.ours, pair.ours)) - known - {"n_features_in_"}:
        with pytest.raises(AttributeError, match=name):
            setattr(pair.ours(), name, getattr(pair.theirs, name))

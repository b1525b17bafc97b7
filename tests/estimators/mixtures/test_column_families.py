"""Columns of several kinds: families by names, positions, ranges and tuples of these."""

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases.comparing import assert_close
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from sklearn_onlineem import HMM, GaussianMixture, Mixture, PoissonMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import (
    Categorical,
    Diagonal,
    Full,
    Gaussian,
    Gaussians,
    Poisson,
    Product,
    Spherical,
    Tied,
)
from sklearn_onlineem.families._e_step import e_step_in_blocks

SPEC = {
    ("age", "income"): "gaussian",
    ("visits", "calls"): "poisson",
    "region": "categorical",
    "wait": "exponential",
}
POSITIONS = {(0, 2): "gaussian", (1, 3): "poisson", 4: "categorical", -1: "exponential"}


def table(rng, n=600):
    """Rows of two kinds of people."""
    kind = rng.integers(0, 2, n)
    age = rng.normal(30.0 + 20.0 * kind, 5.0)
    return kind, pd.DataFrame({
        "age": age,
        "visits": rng.poisson(1.0 + 4.0 * kind),
        "income": 2.0 * age + rng.normal(0.0, 3.0, n),
        "calls": rng.poisson(3.0, n),
        "region": rng.integers(0, 3, n) * (rng.random(n) < 0.3 + 0.6 * kind),
        "wait": rng.exponential(1.0 + 3.0 * kind),
    })  # fmt: skip


def mixture(**arguments):
    return Mixture(2, **{"family": SPEC, "random_state": 0, **arguments})


def test_a_mixture_finds_kinds_of_rows_that_one_column_does_not_show(rng):
    kind, X = table(rng)
    fitted = mixture().fit(X)
    assert adjusted_rand_score(kind, fitted.predict(X)) > 0.9
    assert_array_equal(fitted.feature_names_in_, X.columns)
    of_gaussian, of_poisson, of_region, of_wait = fitted.parameters_
    assert of_gaussian.covariance.shape == (2, 2, 2)
    assert of_poisson.shape == (2, 2) and of_region.shape == (2, 3) and of_wait.shape == (2, 1)
    # Age and income rise together.
    assert (of_gaussian.covariance[:, 0, 1] > 10.0).all()
    assert_allclose(fitted.means_[:, [0, 2]], of_gaussian.mean)
    assert fitted.model_.n_parameters() == 1 + 2 * (5 + 2 + 2 + 1)


def test_names_positions_ranges_and_families_are_the_same_columns(rng):
    _, X = table(rng)
    expected = mixture().fit(X)
    ranges = {(range(0, 4, 2),): Gaussian(), (1, "calls"): Poisson(), "region": "categorical"}
    for family in (POSITIONS, {**ranges, range(5, 6): "exponential"}):
        assert_close(mixture(family=family).fit(X).parameters_, expected.parameters_)
    product = Product(
        [Gaussian(), Poisson(), Categorical(), expected.model_.family.families[3]],
        [[0, 2], [1, 3], 4, 5],
    )
    assert_close(mixture(family=product).fit(X).parameters_, expected.parameters_)
    assert_close(mixture(family=POSITIONS).fit(X.to_numpy()).parameters_, expected.parameters_)
    assert_close(mixture().fit(pl.from_pandas(X)).parameters_, expected.parameters_)
    if sys.version_info >= (3, 12):  # Slices are hashable.
        family = {(0, 2): "gaussian", (1, 3): "poisson", 4: "categorical"}
        family[slice(5, None)] = "exponential"
        assert_close(mixture(family=family).fit(X).parameters_, expected.parameters_)


def test_one_group_is_the_estimator_of_its_family(rng):
    _, X = table(rng)
    X = X[["age", "income"]].to_numpy()
    arguments = {"solver": "batch", "max_iter": 20, "tol": 0.0, "random_state": 0}
    init = rng.dirichlet(np.ones(2), len(X))
    found = Mixture(2, family={(0, 1): "gaussian"}, init=init, **arguments).fit(X)
    expected = GaussianMixture(2, init=init, **arguments).fit(X)
    assert_allclose(found.means_, expected.means_, rtol=1e-9)
    counts = rng.poisson(3.0, (300, 2))
    init = rng.dirichlet(np.ones(2), 300)
    found = Mixture(2, family={0: "poisson", 1: "poisson"}, init=init, prior=None, **arguments)
    expected = PoissonMixture(2, init=init, prior=None, **arguments).fit(counts)
    assert_allclose(found.fit(counts).means_, expected.means_, rtol=1e-9)


INVALID = {
    "no group has column 'visits'": {("age", "income"): "gaussian"},
    "column 'age' is in 'age, income' and in '0'": {**SPEC, 0: "poisson"},
    "the column 'ages', which X lacks": {**SPEC, "ages": "poisson"},
    "a Family or one of": {**SPEC, "wait": "gaussien"},
    "the key 1.5": {**SPEC, 1.5: "poisson"},
    "the key True": {**SPEC, True: "poisson"},
    "the column 6, but X has 6": {**SPEC, 6: "poisson"},
    "selects no column": {**SPEC, range(0): "poisson"},
}


@pytest.mark.parametrize("message", INVALID)
@pytest.mark.parametrize("make", [Mixture, HMM])
def test_each_column_is_in_one_group(make, message, rng):
    _, X = table(rng)
    estimator = make(2, family=INVALID[message])
    for method in (estimator.fit, estimator.partial_fit):
        with pytest.raises(ValueError, match=rf"{make.__name__}.*{message}"):
            method(X)
    assert not hasattr(estimator, "_fitted")


def test_numbers_of_columns_may_be_those_of_numpy():
    one, two = np.arange(1, 3)
    shown = repr(Mixture(2, family={0: "poisson", (one, two): "gaussian"}))
    assert shown == repr(Mixture(2, family={0: "poisson", (1, 2): "gaussian"}))


def test_names_need_a_data_frame(rng):
    _, X = table(rng)
    with pytest.raises(ValueError, match=r"Mixture.*'age'.*no names of columns"):
        mixture().fit(X.to_numpy())


def test_values_outside_of_a_support_are_refused_by_the_names_of_the_columns(rng):
    _, X = table(rng)
    fitted, bad = mixture().fit(X), X.copy()
    before = fitted.model_
    bad.loc[3, "visits"] = -1
    for method in (fitted.partial_fit, fitted.predict, fitted.fit):
        with pytest.raises(ValueError, match=r"Mixture.*visits, calls.*Negative"):
            method(bad)
    assert fitted.model_ is before


def test_streams_go_on_after_pickling_and_do_not_depend_on_cuts(rng):
    _, X = table(rng, 3000)
    whole, cut = mixture(), mixture()
    whole.partial_fit(X[:1500]).partial_fit(X[1500:])
    for start in range(0, 1500, 250):
        cut = pickle.loads(pickle.dumps(cut.partial_fit(X[start : start + 250])))
    assert cut.feature_names_in_.tolist() == list(X.columns)
    cut.partial_fit(X[1500:])
    assert abs(cut.score(X) - whole.score(X)) < 0.05
    assert abs(whole.score(X) - mixture().fit(X).score(X)) < 0.05
    # A refit of other columns does not remember these.
    few = X[["wait", "visits"]]
    again = clone(cut).set_params(family={"visits": "poisson", "wait": "gamma"}).fit(few)
    assert again.parameters_[0].shape == (2, 1)


def test_priors_by_groups(rng):
    _, X = table(rng)
    by_key = {"region": {"concentration": 50.0}, ("visits", "calls"): {"shape": 2.0, "rate": 1.0}}
    by_name = {"region": {"concentration": 50.0}, "visits, calls": {"shape": 2.0, "rate": 1.0}}
    found, same = (mixture(prior=prior).fit(X) for prior in (by_key, by_name))
    assert_close(found.parameters_, same.parameters_)
    spread = [np.ptp(fitted.parameters_[2], axis=1) for fitted in (found, mixture().fit(X))]
    assert (spread[0] < spread[1]).all()
    for prior, message in (
        ({"regions": {}}, "regions"),
        ({"region": {"concentrations": 2.0}}, "region has the key 'concentrations'"),
        ({"region": 2.0}, "region must be a dict"),
        ({"region": {"concentration": -2.0}}, "concentration must be above 0"),
    ):
        with pytest.raises(ValueError, match=f"prior of Mixture.*{message}"):
            mixture(prior=prior).fit(X)


@pytest.mark.parametrize("sizes", [(3,), (1, 4, 2), (1,)], ids=repr)
@pytest.mark.parametrize("others", [True, False])
def test_codes_lack_one_feature_for_each_column(sizes, others, rng):
    d, n = len(sizes), 300
    families = (Categorical(sizes), Gaussian(Diagonal())) if others else (Categorical(sizes),)
    columns = (tuple(range(d)), (d,)) if others else (tuple(range(d)),)
    product = Product(families, columns)
    X = np.column_stack([*(rng.integers(0, size, n) for size in sizes), rng.normal(size=n)])
    rows = Rows(X if others else X[:, :d].copy(), rng.uniform(0.5, 2.0, n))
    draws = [rng.dirichlet(np.full(size, 0.3), 3) + 1e-9 for size in sizes]
    codes = np.concatenate([p / p.sum(axis=1, keepdims=True) for p in draws], axis=1)
    gaussians = Gaussians(rng.normal(size=(3, 1)), rng.uniform(0.5, 2.0, (3, 1)))
    parameters = (codes, gaussians) if others else (codes,)
    log_weights = np.log(rng.dirichlet(np.ones(3)))
    counts, statistics, log_likelihood = product.e_step(parameters, log_weights, rows)
    log_joint = product.log_density(parameters, rows.X) + log_weights
    each = np.logaddexp.reduce(log_joint, axis=1, keepdims=True)
    shares = np.exp(log_joint - each) * rows.sample_weight[:, None] / rows.total_weight
    expected = Categorical(sizes).expected_statistics(rows.X[:, :d].copy(), shares)
    value = rows.sample_weight @ each[:, 0] / rows.total_weight
    assert_allclose(log_likelihood, value, rtol=1e-12, atol=1e-14)
    assert_allclose(counts, shares.sum(axis=0), rtol=1e-12)
    assert_allclose(statistics.factors[0].weight, expected.weight, rtol=1e-12)
    assert_allclose(statistics.factors[0].total, expected.total, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("shape", [Full(), Tied(), Diagonal(), Spherical()], ids=repr)
def test_missing_values_of_gaussians_have_no_floor_of_their_own(shape, rng):
    """The M-step adds it once, in E-steps by one matrix product as in those by blocks of rows."""
    gaussian, K = Gaussian(shape, reg_covar=0.1), 3
    product, X = Product([gaussian, Poisson()], [[0, 1], [2]]), rng.poisson(3.0, (200, 3)) * 1.0
    missing = np.repeat(rng.random((200, 1)) < 0.4, 2, axis=1)
    if isinstance(shape, (Diagonal, Spherical)):
        missing[:, 0] |= rng.random(200) < 0.3
    X[:, :2][missing] = np.nan
    start = gaussian.expected_statistics(rng.normal(3.0, 2.0, (50, 2)), rng.random((50, K)))
    parameters = gaussian.m_step(start), rng.uniform(1.0, 9.0, (K, 1))
    log_weights, rows = np.log(rng.dirichlet(np.ones(K))), Rows(X, has_gaps=True)
    found = product.e_step(parameters, log_weights, rows)
    assert_close(found, e_step_in_blocks(product, parameters, log_weights, rows), rtol=1e-9)


@pytest.mark.parametrize("kind", ["default", "pandas", "polars"])
@pytest.mark.parametrize("method", ["impute", "sample_missing"])
def test_texts_are_imputed_as_texts(method, kind, rng):
    _, X = table(rng)
    texts = np.array(["north", "south", "west"], dtype=object)[X["region"].to_numpy()]
    missing = rng.random(X.shape) < 0.3
    named = X.assign(region=texts).mask(missing)
    fitted = mixture().fit(named).set_output(transform=kind)
    found = getattr(fitted, method)(named)
    if kind == "default":
        ages, regions = found[:, 0].astype(float), found[:, 4]
    else:
        assert type(found).__module__.startswith(kind) and list(found.columns) == list(X.columns)
        ages, regions = found["age"].to_numpy(), found["region"].to_numpy()
    assert ages.dtype == np.float64 and np.isfinite(ages).all()
    assert_array_equal(ages[~missing[:, 0]], X["age"][~missing[:, 0]])
    assert_array_equal(regions[~missing[:, 4]], texts[~missing[:, 4]])
    assert set(regions) == {"north", "south", "west"}
    if method == "impute":
        probable = (fitted.predict_proba(named) @ fitted.parameters_[2]).argmax(axis=1)
        expected = fitted.categories_[0][probable]
        assert_array_equal(regions[missing[:, 4]], expected[missing[:, 4]])


@pytest.mark.parametrize("make", [Mixture, HMM])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas])
def test_other_columns_are_refused_by_their_names(make, library, rng):
    _, X = table(rng, 60)
    X["region"] = np.array(["north", "south", "west"])[X["region"]]
    fitted = make(2, family=SPEC, random_state=0, max_iter=2).fit(library(X))
    day = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=60)})
    others = X[X.columns[::-1]], X.drop(columns="age"), pd.concat([day, X], axis=1)
    message = f"{make.__name__}: The feature names should match"
    for other in map(library, others):
        for method in (fitted.predict, fitted.partial_fit):
            with pytest.raises(ValueError, match=message):
                method(other)

"""Settings of families: any number is refused by name, or leaves models and scores finite."""

from dataclasses import fields, replace

import numpy as np
import pytest
from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES

from sklearn_onlineem import Mixture
from sklearn_onlineem.families import Diagonal, Gaussian, Laplace, Spherical

NUMBERS = [0.0, 5e-324, 1e-100, 0.5, 3.0, 1e100, 1.7e308, np.inf, np.nan, -1.0, 2**63, 10**400]
# A start with a component of one row shows where a floor has to hold.
STARTS = [("k-means", value) for value in NUMBERS] + [
    ("a row alone", v) for v in (0.0, 1e-100, 1e100)
]
OTHERS = [None, "a", [1.0, 2.0], {}, np.ma.masked, 1j]
SETTINGS = [
    (case, name)
    for case in [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES]
    for name in (field.name for field in fields(case.family))
    if name.startswith(("min_", "max_")) or name in ("shape", "degrees", "reg_covar")
]
all_settings = pytest.mark.parametrize(("case", "name"), SETTINGS, ids=lambda value: str(value))

pytestmark = pytest.mark.filterwarnings("ignore")


def test_all_numbers_are_among_them():
    names = {name for _, name in SETTINGS}
    assert names >= {
        "min_probability", "min_mean", "min_rate", "min_alpha", "max_precision", "max_shape",
        "shape", "max_degrees", "degrees", "reg_covar", "min_scale",
    }  # fmt: skip


@all_settings
@pytest.mark.parametrize(("start", "value"), STARTS, ids=str)
def test_a_number_is_refused_or_leaves_all_finite(case, name, value, start, rng):
    X = case.rows(rng, 20, 4 if case.matrix else 3)
    init = start if start == "k-means" else np.eye(2)[(np.arange(20) == 0).astype(int)]
    try:
        family = replace(case.family, **{name: value})
        mixture = Mixture(2, family=family, init=init, max_iter=3, random_state=0).fit(X)
        mixture.partial_fit(X)
    except ValueError as error:
        assert name in str(error)
        return
    assert np.isfinite(mixture.means_).all()
    assert np.isfinite([mixture.score(X), mixture.bic(X), mixture.aic(X)]).all()


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, 1e-300])
def test_a_component_of_a_single_row_has_a_density(value):
    row, share = np.ones((1, 2)), np.ones((1, 1))
    family = Laplace(min_scale=value).bind(row)
    parameters = family.m_step(family.expected_statistics(row, share))
    assert np.isfinite(family.log_density(parameters, row)).all()
    for covariance in (Diagonal(), Spherical()):
        family = Gaussian(covariance, reg_covar=value).bind(row)
        with pytest.raises(ValueError, match="reg_covar"):
            family.m_step(family.expected_statistics(row, share))


@all_settings
def test_what_is_no_number_is_refused(case, name):
    for value in OTHERS:
        if value is None and name in ("reg_covar", "min_scale"):
            assert getattr(replace(case.family, **{name: None}), name) is None
            continue
        with pytest.raises((ValueError, TypeError), match=name):
            replace(case.family, **{name: value})

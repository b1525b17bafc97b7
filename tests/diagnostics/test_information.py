"""The missing share of information: EM's rate, and where it comes from."""

from dataclasses import replace

import numpy as np
import pytest
from cases.fitted_cases import STILL, jacobian, still

from sklearn_onlineem import (
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    PoissonMixture,
)
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.diagnostics import missing_information, standard_errors
from sklearn_onlineem.diagnostics.information import Missing
from sklearn_onlineem.em import Batch
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.families.capabilities import HiddenVariables
from sklearn_onlineem.families.working_responses import WorkingRegression
from sklearn_onlineem.models.coordinates import coordinates_of


def leading(matrix, n):
    return np.sort(np.linalg.eigvals(matrix).real)[::-1][:n]


def _digits_of(case):
    """Steps that are shortened by their own size have differences that are exact to first order."""
    return 2e-5 if getattr(getattr(case, "case", None), "is_shortened", False) else 1e-7


@pytest.mark.parametrize("case", STILL, ids=repr)
def test_eigenvalues_are_those_of_the_jacobian_of_em(case):
    found = still(case)
    information = missing_information(found.estimator, found.X, n_values=6)
    expected = leading(jacobian(found.step(), found.place.encode(found.model)), 6)
    assert information.rate > 0.05
    np.testing.assert_allclose(information.eigenvalues, expected[: len(information.eigenvalues)],
                               rtol=0, atol=_digits_of(case))  # fmt: skip


# Components of the others hide something by themselves.
HIDDEN = HiddenVariables | WorkingRegression
VISIBLE = [c for c in STILL if c.is_mixture and not isinstance(c.case.family, HIDDEN)]


@pytest.mark.parametrize("case", [case for case in STILL if case.is_mixture], ids=repr)
def test_products_are_those_of_the_matrix(case, rng):
    """Of rows with weights and labels, at any model, to the digits of differences."""
    model, rows = case.draw(rng), case.rich_data(rng, 80)
    coordinates = coordinates_of(model, model.e_step(rows)[0])
    missing = Missing(coordinates, rows)
    v = coordinates.direction(rng.standard_normal(coordinates.shape))
    product, matrix = missing.product(v), missing.dense()
    by_matrix = coordinates.unit_score((matrix @ v.ravel()).reshape(v.shape))
    np.testing.assert_allclose(by_matrix, coordinates.unit_score(product), rtol=1e-5, atol=1e-6)
    quick = Missing(coordinates, rows, is_quick=True).product(v)
    np.testing.assert_allclose(quick, product, rtol=1e-4, atol=1e-4)
    numbers = np.arange(v.shape[1])
    parts = [numbers[columns] for columns in coordinates.parts.values()]
    np.testing.assert_array_equal(np.concatenate(parts), numbers)


def complete_scores(coordinates, rows):
    """Scores of each row in each component, (n, K, ...): those of rows with labels."""
    model, labels = coordinates.model, np.zeros(len(rows), dtype=np.intc)
    each = [replace(rows, sample_weight=None, labels=labels + k) for k in range(model.n_components)]
    return np.array([
        [coordinates.score(model.e_step(same[i : i + 1])[0]) for same in each]
        for i in range(len(rows))
    ])  # fmt: skip


@pytest.mark.parametrize("case", VISIBLE, ids=repr)
def test_missing_information_is_the_covariance_of_complete_scores(case, rng):
    """Louis' identity: over components given the rows, in the mean over these."""
    model, rows = case.draw(rng), case.rich_data(rng, 40)
    coordinates = coordinates_of(model, model.e_step(rows)[0])
    v = coordinates.direction(rng.standard_normal(coordinates.shape))
    posterior, known = model.posterior(rows), rows.labels >= 0
    posterior[known] = np.eye(model.n_components)[rows.labels[known]]
    scores, missing = complete_scores(coordinates, rows), Missing(coordinates, rows)
    a = (scores * v).sum(axis=(2, 3))
    shares = rows.sample_weight[:, None] / rows.total_weight * posterior
    deviations = a - (posterior * a).sum(axis=1, keepdims=True)
    expected = np.einsum("nk,nk...->...", shares * deviations, scores)
    product = missing.product(v)
    overlaps = np.einsum("nj,nk,njk->jk", shares, posterior, (a[:, :, None] - a[:, None]) ** 2)
    np.testing.assert_allclose(missing.overlaps(v), overlaps, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(0.5 * overlaps.sum(), (v * product).sum(), rtol=1e-5, atol=1e-7)
    expected[coordinates.scale == 0.0] = product[coordinates.scale == 0.0]
    shared = coordinates.directions["parameters"].shared
    if shared.stop is None:
        # Statistics of a shared covariance have only the sum over components.
        columns = slice(1 + shared.start, None)
        for some in (expected, product):
            some[:, columns] = some[:, columns].sum(axis=0)
    np.testing.assert_allclose(product, expected, rtol=1e-5, atol=1e-6)


def two_near_and_others(rng, n=4000):
    """Components 0 and 2 overlap, in two features; the others are alone."""
    means = np.array([[0.0, 0.0], [20.0, 0.0], [2.2, 0.0], [0.0, 20.0]])
    return means, means[rng.integers(4, size=n)] + rng.standard_normal((n, 2))


def fitted(X, means, tol=1e-14, **settings):
    return GaussianMixture(
        len(means), means_init=means, reg_covar=0.0, solver="batch", tol=tol, max_iter=5000,
        random_state=0,
        **settings,
    ).fit(X)  # fmt: skip


def test_what_overlaps_is_named(rng):
    means, X = two_near_and_others(rng)
    information = missing_information(fitted(X, means), X, n_values=2)
    first = information.directions[0]
    assert first.overlaps[0, 2] > 0.999
    assert first.shares[[0, 2]].sum() > 0.99
    np.testing.assert_allclose(sum(first.parts.values()), 1.0)
    assert set(first.derivatives) == {"weights_", "means_", "covariances_"}
    assert "0 and 2 (100%)" in information.summary()
    assert len(information.summary().splitlines()) == 3


def test_operations_that_are_confused_are_named(rng):
    """A mismatch may be a deletion and an insertion."""
    words = ["".join(rng.choice(list("abcdef"), 6)) for _ in range(400)]
    pairs = [(word, word[:2] + "xy" + word[4:]) for word in words[:200]]
    pairs += [(word[1:], word[:-1]) for word in words[200:]]
    edit = EditDistance(solver="batch", tol=1e-12).fit(pairs)
    information = missing_information(edit, pairs, n_values=1)
    assert information.directions[0].overlaps is None
    assert "the transducer; parameters: mismatch (" in information.summary()
    np.testing.assert_allclose(sum(information.directions[0].parts.values()), 1.0)


def test_eigenvalues_do_not_depend_on_units_and_offsets(rng):
    means, X = two_near_and_others(rng)
    expected = missing_information(fitted(X, means), X).eigenvalues
    scale, offset = np.array([1e-6, 1e3]), np.array([1.0, 1e9])
    moved, means = X * scale + offset, means * scale + offset
    found = missing_information(fitted(moved, means), moved).eigenvalues
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def many_components(rng, covariance_type, n=1500):
    """Rows and a fit of more coordinates than products make a matrix of."""
    means = rng.standard_normal((12, 4)) * 1.5
    X = means[rng.integers(12, size=n)] + rng.standard_normal((n, 4))
    return X, fitted(X, means, tol=1e-9, covariance_type=covariance_type)


@pytest.mark.pinned("of other data the fifth may be off by a hundredth at the default tolerance")
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_lanczos_finds_the_eigenvalues_of_the_matrix(rng, covariance_type):
    X, mixture = many_components(rng, covariance_type)
    statistics = mixture.model_.e_step(Rows(X))[0]
    coordinates = coordinates_of(mixture.model_, statistics)
    assert coordinates.scale.size > (64 if covariance_type != "spherical" else 0)
    matrix = Missing(coordinates, Rows(X)).dense()
    basis = np.array([
        coordinates.direction(unit.reshape(coordinates.shape)).ravel()
        for unit in np.eye(coordinates.scale.size)
    ])  # fmt: skip
    expected = leading(basis @ matrix @ basis.T, 5)
    exact = missing_information(mixture, X, tol=1e-8).eigenvalues
    np.testing.assert_allclose(exact, expected, rtol=1e-7)
    quick = missing_information(mixture, X).eigenvalues
    np.testing.assert_allclose(quick, expected, rtol=1e-3)
    np.testing.assert_allclose(quick[0], expected[0], rtol=1e-5)


def test_measured_contraction(rng):
    """Of the error of the parameters, and of the gap of the log-likelihood."""
    means, X = two_near_and_others(rng)
    mixture = fitted(X, means)
    information, best = missing_information(mixture, X), mixture.model_
    data, model = Rows(X), fitted(X, means, tol=1e-6).model_
    errors, gaps = [], []
    top = best.e_step(data)[1]
    for _ in range(81):
        errors.append(np.linalg.norm(model.parameters.mean - best.parameters.mean))
        model, log_likelihood = batch_step(model, data)
        gaps.append(top - log_likelihood)
    # The share of an error that a pass removes says more than the one that it leaves.
    for path, rate in [(errors, information.rate), (gaps, information.loss_rate)]:
        contraction = (path[80] / path[40]) ** (1 / 40)
        np.testing.assert_allclose(1.0 - contraction, 1.0 - rate, rtol=0.02)


def test_a_prior_is_complete_data(rng):
    means, X = two_near_and_others(rng, 300)
    prior = {"mean": 1.0, "mean_precision": 30.0, "covariance": 50.0, "degrees_of_freedom": 40.0}
    with_prior = fitted(X, means, prior=prior, weight_concentration_prior=20.0)
    case = next(case for case in STILL if repr(case) == "FullGaussian")
    found = type(still(case))(case, with_prior, X)
    terms = [(1.0 / len(X), with_prior._fitted.state.prior)]
    expected = leading(jacobian(found.step(terms), found.place.encode(found.model)), 5)
    information = missing_information(with_prior, X)
    np.testing.assert_allclose(information.eigenvalues, expected, rtol=0, atol=1e-7)
    # Where more is complete, less of it is missing, in all directions.
    same = {name: getattr(with_prior, f"{name}_") for name in ("weights", "means", "covariances")}
    without = GaussianMixture.from_parameters(**same)
    assert (information.eigenvalues < missing_information(without, X).eigenvalues).all()


def test_nothing_is_hidden_in_one_component(rng):
    X = rng.standard_normal((50, 2))
    information = missing_information(GaussianMixture(1).fit(X), X)
    assert information.rate < 1e-12
    assert "nothing is hidden" in information.summary()


def test_known_labels_leave_nothing_hidden(rng):
    means, X = two_near_and_others(rng, 400)
    labels = np.argmin(((X[:, None] - means) ** 2).sum(axis=2), axis=1)
    mixture = GaussianMixture(4, semi_supervised=True, solver="batch", random_state=0).fit(
        X, labels
    )
    assert missing_information(mixture, X, y=labels).rate < 1e-12
    assert missing_information(mixture, X).rate > 0.1


def test_states_are_named(rng):
    X = np.repeat(rng.integers(2, size=200), 5)[:, None] * 2.0 + rng.standard_normal((1000, 1))
    chain = GaussianHMM(2, random_state=0, tol=1e-10, max_iter=2000).fit(X)
    information = missing_information(chain, X, n_values=1)
    assert information.what == "states"
    assert information.directions[0].overlaps is None
    assert {"startprob_", "transmat_", "means_", "covars_"} == set(
        information.directions[0].derivatives
    )
    assert "states that move" in information.summary()


def test_what_is_at_a_bound_stays(rng):
    """Of a state that no sequence starts in, and a symbol that a component never saw."""
    X = np.concatenate([rng.poisson(3.0, (200, 2)), rng.poisson([9.0, 0.0], (200, 2))])
    mixture = PoissonMixture(
        2, means_init=[[3.0, 3.0], [9.0, 0.01]], solver=Batch(acceleration=None), tol=1e-14,
        max_iter=5000, prior=None,
    ).fit(X)  # fmt: skip
    assert mixture.rates_[1, 1] < 1e-9
    assert 0.0 < missing_information(mixture, X).rate < 1.0
    errors = standard_errors(mixture, X).errors["rates_"]
    assert errors[1, 1] == 0.0 and (errors.ravel()[:3] > 0.0).all()

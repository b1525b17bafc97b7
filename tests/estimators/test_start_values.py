"""Start values: probabilities add up to 1, precisions have an inverse, or an error names them."""

import numpy as np
import pytest
from sklearn.cluster import kmeans_plusplus

from sklearn_onlineem import HMM, GaussianMixture, PoissonHMM, PoissonMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.estimators._start import STARTS
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

X = np.random.default_rng(0).poisson(4.0, (60, 2)).astype(float)


@pytest.mark.parametrize("value", [5e-324, 1e-310, 0.0, -1.0])
@pytest.mark.parametrize(
    ("covariance_type", "shape"),
    [("full", (2, 1, 1)), ("tied", (1, 1)), ("diag", (2, 1)), ("spherical", (2,))],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_precisions_have_an_inverse(covariance_type, shape, method, value):
    mixture = GaussianMixture(2, covariance_type=covariance_type, random_state=0)
    mixture.set_params(precisions_init=np.full(shape, value))
    with pytest.raises(ValueError, match="precisions_init of GaussianMixture must .*definite"):
        getattr(mixture, method)(X[:, :1])
    assert not hasattr(mixture, "model_")


@pytest.mark.parametrize("missing", [0.0, 5e-7, -5e-7])
def test_rounding_is_taken_care_of(missing):
    weights, chain = [0.5, 0.5 - missing], [[0.5, 0.5], [0.5, 0.5 - missing]]
    mixture = PoissonMixture(2, weights_init=weights, random_state=0).fit(X)
    assert mixture.weights_.sum() == pytest.approx(1.0, abs=1e-12)
    hmm = PoissonHMM(2, startprob_init=weights, transmat_init=chain, random_state=0).fit(X)
    np.testing.assert_allclose(hmm.transmat_.sum(axis=1), 1.0, atol=1e-12)


def test_what_rows_lack_is_the_end():
    chain = [[0.5, 0.4], [0.3, 0.4]]
    hmm = HMM(2, family="poisson", termination="end_state", transmat_init=chain, eta0=1e-9)
    hmm.set_params(random_state=0, params="e").partial_fit(X)
    np.testing.assert_allclose(hmm.endprob_, [0.1, 0.3])


@pytest.mark.parametrize("init", ["k-means", "k-means++"])
@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n_compared"), [(119, 3, 0), (120, 3, 3), (120, 31, 0), (120, 30, 2)]
)
def test_few_rows_do_not_choose_coordinates(init, n_rows, n_columns, n_compared, rng):
    """Of fewer than 20 for each component, or than 4 for each column, a likelihood says little."""
    compared = []

    def likelihood_of(rows, clusters, n_components):
        compared.append(clusters)
        return float(len(compared))

    rows = Rows.unchecked(rng.normal(size=(n_rows, n_columns)), np.ones(n_rows))
    family = GaussianMixture(6).fit(rows.X).model_.family
    clusters = STARTS[init](family, rows, 6, np.random.RandomState(0), likelihood_of)
    assert len(compared) == n_compared
    if init == "k-means++" and not n_compared:
        X = family.start_coordinates(rows.X, rows.sample_weight)[0](rows.X)
        seeds = kmeans_plusplus(X, 6, sample_weight=rows.sample_weight, random_state=0)[0]
        expected = np.linalg.norm(X[:, None] - seeds, axis=2).argmin(axis=1)
        np.testing.assert_array_equal(clusters, expected)


def test_passes_that_change_no_weight_end_the_comparison(monkeypatch, rng):
    """As those from the very clusters, far apart; each of three starts might take ten."""
    n_passes, e_step = [], MixtureModel.e_step
    monkeypatch.setattr(
        MixtureModel, "e_step", lambda *args, **where: n_passes.append(1) or e_step(*args, **where)
    )
    GaussianMixture(2).fit(rng.normal(size=(100, 5)) + 50.0 * rng.integers(2, size=(100, 1)))
    assert len(n_passes) < 20

"""What `params` leaves as it is: by letters, and by masks of entries."""

import copy
from itertools import product

import numpy as np
import pytest
from cases.comparing import arrays, assert_identical
from cases.known_gaussians import COVARIANCES, MEANS, WEIGHTS, kinds
from scipy import sparse
from scipy.stats import multinomial
from sklearn.base import clone

from sklearn_onlineem import (
    GMMHMM,
    CategoricalHMM,
    CategoricalMixture,
    GaussianHMM,
    GaussianMixture,
    Mixture,
    MultinomialHMM,
    MultinomialMixture,
    PoissonHMM,
    combine_estimators,
)
from sklearn_onlineem.estimators.base import set_start


def known(kind, params, **settings):
    settings = {"solver": "batch", "max_iter": 1, "tol": 0.0, "warm_start": True} | settings
    return GaussianMixture.from_parameters(
        weights=WEIGHTS, means=MEANS, covariances=COVARIANCES[kind], covariance_type=kind,
        params=params, reg_covar=0.0, random_state=0, **settings,
    )  # fmt: skip


@kinds
@pytest.mark.parametrize(
    "mask", ["means", "covariances", "both", "weights", "components", "columns"]
)
def test_masked_steps_maximise_over_what_is_learnt(kind, mask, rng):
    learnt = np.array([True, False, True])
    columns = np.array([[True, False], [False, False], [True, True]])
    params = {
        "means": {"means": learnt},
        "covariances": {"covariances": learnt},
        "both": {"means": learnt, "covariances": ~learnt},
        "weights": {"weights": learnt},
        "components": {"parameters": learnt},
        "columns": {"means": columns},
    }[mask]
    if (kind == "tied" and "cov" in str(params)) or (
        mask == "columns" and kind in ("full", "tied")
    ):
        with pytest.raises(ValueError, match="params.* of GaussianMixture must be True or False"):
            known(kind, params)
        return
    before = known(kind, params)
    X = rng.normal(scale=3.0, size=(200, 2))
    evidence, _ = before.model_.e_step(before._input().read(X))
    after = known(kind, params).fit(X)
    for name, value in params.items():
        if name == "parameters":
            continue
        old, new = getattr(before, f"{name}_"), getattr(after, f"{name}_")
        np.testing.assert_array_equal(new[~value], old[~value])
        assert (new[value] != old[value]).all()
    if mask == "components":
        for name in ("means_", "covariances_")[: 1 if kind == "tied" else 2]:
            np.testing.assert_array_equal(getattr(after, name)[1], getattr(before, name)[1])
    # No small change of what is learnt raises the expected log-likelihood.
    best = after.model_.expected_log_likelihood(evidence)
    whole = params.get("parameters", np.ones(3, bool))
    shape = (-1, 1) if np.ndim(params.get("means")) < 2 else (3, 2)
    free = {
        "weights": params.get("weights", np.ones(3, bool)),
        "means": params.get("means", np.ones(3, bool)).reshape(shape) & whole[:, None],
        "covariances": params.get("covariances", np.ones(3, bool)) & whole,
    }
    for name in free:
        value = getattr(after, f"{name}_")
        for _ in range(5):
            moved = MOVES[name](value, free[name], rng)
            other = known(kind, params)
            for attribute in free:
                same = getattr(after, f"{attribute}_")
                setattr(other, f"{attribute}_", moved if attribute == name else same)
            assert other.model_.expected_log_likelihood(evidence) <= best + 1e-12


def move_weights(value, free, rng):
    moved = np.where(free, value * (1.0 + 0.01 * rng.normal(size=3)), value)
    moved[free] *= value[free].sum() / moved[free].sum()
    return moved


def move_means(value, free, rng):
    return value + np.where(free, 0.01 * rng.normal(size=value.shape), 0.0)


def move_covariances(value, free, rng):
    if len(value) == 2:  # tied
        return value * (1.0 + 0.01 * rng.normal())
    scale = 1.0 + np.where(free, 0.01 * rng.normal(size=3), 0.0)
    return value * scale.reshape(-1, *(1,) * (value.ndim - 1))


MOVES = {"weights": move_weights, "means": move_means, "covariances": move_covariances}


def test_solvers_that_change_all_parameters_refuse_masks(rng):
    X = rng.normal(size=(60, 1))
    params = {"means": np.array([True, False])}
    mixture = GaussianMixture(2, solver="componentwise", params=params, random_state=0)
    with pytest.raises(ValueError, match="GaussianMixture: componentwise EM learns all"):
        mixture.fit(X)
    # By default many components are split and merged; here they keep their places.
    many = GaussianMixture(6, params={"means": np.arange(6) > 0}, random_state=0).fit(
        rng.normal(size=(300, 1))
    )
    assert many.n_components_ == 6
    bayes = GaussianMixture(2, solver="bayesian", params=params, random_state=0).partial_fit(X)
    mean = bayes.means_[1]
    np.testing.assert_array_equal(bayes.partial_fit(X).means_[1], mean)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("make", [GaussianMixture, GaussianHMM])
def test_masks_of_components_go_with_gaps(make, kind, rng):
    means = np.array([[0.0], [4.0], [8.0]]) + np.zeros(2)
    X = means[rng.integers(0, 3, 60)] + rng.normal(size=(60, 2))
    X[0, 0] = np.nan
    masks = {"means": np.array([False, True, True])}
    for given in (None, means):
        found = make(
            3, covariance_type=kind, means_init=given, params=masks, random_state=0, max_iter=3
        ).fit(X)  # fmt: skip
        assert np.isfinite(found.means_).all()
    assert (found.means_[0] == means[0]).all() and (found.means_[1:] != means[1:]).all()


# ------------------------------------------------------------------------ hidden Markov models


def known_chain(kind, emissions, params, **settings):
    settings = {"solver": "batch", "max_iter": 1, "tol": 0.0, "warm_start": True} | settings
    return kind.from_parameters(
        startprob=[0.5, 0.3, 0.2],
        transmat=[[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.0, 0.5, 0.5]],
        params=params,
        random_state=0,
        **emissions,
        **settings,
    )


def test_some_transitions_may_be_fixed_and_the_others_are_the_maximum(rng):
    mask = np.array([[True, True, False], [True, True, True], [True, True, False]])
    emissions = {"lambdas": [[1.0], [5.0], [20.0]]}
    X = [rng.poisson(8.0, (30, 1)) for _ in range(5)]
    free = known_chain(PoissonHMM, emissions, "ste")
    evidence, _ = free.model_.e_step(free._input().read(X))
    hmm = known_chain(PoissonHMM, emissions, {"transmat": mask}).fit(X)
    np.testing.assert_array_equal(hmm.transmat_[~mask], [0.1, 0.5])
    np.testing.assert_allclose(hmm.transmat_.sum(axis=1), 1.0)
    # The rest of a row is shared in proportion to the expected counts.
    counts = evidence.transitions
    np.testing.assert_allclose(hmm.transmat_[0, :2], 0.9 * counts[0, :2] / counts[0, :2].sum())
    np.testing.assert_allclose(hmm.transmat_[1], counts[1] / counts[1].sum())
    np.testing.assert_allclose(hmm.transmat_[2], [0.0, 0.5, 0.5], rtol=1e-15)
    # Free numbers: two starts, transitions 1 + 2 + 0, three rates.
    log_likelihood = hmm.score_samples(X).sum()
    np.testing.assert_allclose(hmm.aic(X), 2 * (2 + 3 + 3) - 2 * log_likelihood)
    streamed = known_chain(PoissonHMM, emissions, {"transmat": mask})
    for sequence in X:
        streamed.partial_fit([sequence])
    np.testing.assert_array_equal(streamed.transmat_[~mask], [0.1, 0.5])


# Four symbols; no state emits 3 and 1, and only the zero of the second state is learnt.
ZEROS = np.array([[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.5, 0.0], [0.25, 0.25, 0.5, 0.0]])
START_OF_ZEROS = {"transmat_init": np.full((3, 3), 1.0 / 3.0), "emissionprob_init": ZEROS}
LEARNT = np.array([[True, False, True, False], [True, True, True, False], [False] * 4])


def symbols_of(kind, symbols):
    """Rows of these symbols as a model takes them."""
    return np.eye(4)[symbols] if kind is MultinomialHMM else np.array(symbols)[:, None]


@pytest.mark.parametrize("kind", [CategoricalHMM, MultinomialHMM])
@pytest.mark.parametrize("is_set", [True, False])
def test_fixed_zeros_of_symbols_are_exact(kind, is_set, rng):
    emissions, symbols = {"emissionprob": ZEROS}, [0, 2, 1, 2, 2, 0]
    hmm, X = known_chain(kind, emissions, {"emissionprob": LEARNT}), symbols_of(kind, symbols)
    start, transmat = hmm.startprob_, hmm.transmat_
    if not is_set:
        chain = {"startprob_init": start, "transmat_init": transmat, "emissionprob_init": ZEROS}
        hmm = kind(3, max_iter=0, params={"emissionprob": LEARNT}, **chain).fit(X)
    free = hmm.emissionprob_[1, 0]
    assert (hmm.emissionprob_ == 0.0).sum() == 4 and 0.0 < free < 1e-9
    paths = np.array(list(product(range(3), repeat=len(symbols))))
    joint = start[paths[:, 0]] * transmat[paths[:, :-1], paths[:, 1:]].prod(axis=1)
    joint *= hmm.emissionprob_[paths, symbols].prod(axis=1)
    np.testing.assert_allclose(hmm.score(X), np.log(joint.sum()))
    np.testing.assert_array_equal(hmm.predict(X), paths[joint.argmax()])
    shares, counts = joint / joint.sum(), np.zeros((3, 4))
    for t, symbol in enumerate(symbols):
        np.add.at(counts, (paths[:, t], symbol), shares)
    hmm = hmm.set_params(max_iter=1, tol=0.0, solver="batch", warm_start=True).fit(X)
    expected = np.where(LEARNT, counts, 0.0)
    expected *= np.where(LEARNT, ZEROS, 0.0).sum(axis=1, keepdims=True) / np.maximum(
        expected.sum(axis=1, keepdims=True), 1e-300
    )
    found = hmm.emissionprob_
    np.testing.assert_allclose(found, np.where(LEARNT, expected, ZEROS), atol=1e-9)
    # Streams, gaps and merging keep them.
    parts = [copy.deepcopy(hmm).partial_fit(X[i : i + 4]) for i in range(3)]
    for one in (*parts, combine_estimators(parts)):
        assert (one.emissionprob_ == 0.0).sum() == 4
        np.testing.assert_array_equal(one.sample(200)[0][:, -1] == 3, False)
    impossible = symbols_of(kind, [0, 3, 0])
    assert hmm.score(impossible) == -np.inf
    with pytest.raises(ValueError, match=f"{kind.__name__}.*impossible under the model"):
        hmm.partial_fit(impossible)


@pytest.mark.parametrize("prior", [None, "auto"])
def test_solvers_and_priors_keep_zeros_of_symbols(prior, rng):
    hmm = known_chain(CategoricalHMM, {"emissionprob": ZEROS}, "st", prior=prior)
    X = [hmm.sample(200)[0] for _ in range(3)]
    hmm.set_params(max_iter=100, tol=1e-7, warm_start=False, **START_OF_ZEROS)
    start = clone(hmm).set_params(max_iter=0).fit(X).score(X)
    for solver in ("batch", "online", "adaptive", "stochastic", "bayesian"):
        fit = clone(hmm).set_params(solver=solver).fit(X)
        assert fit.score(X) > start
        np.testing.assert_array_equal(fit.partial_fit(X[0]).emissionprob_, ZEROS)


def test_masks_of_symbols_may_be_of_several_columns(rng):
    X, mask = rng.integers(0, 2, (30, 2)), np.array([[True, False, True, True]] * 2)
    hmm = CategoricalHMM(2, n_features=2, params={"emissionprob": mask}).fit(X)
    np.testing.assert_allclose(hmm.emissionprob_.reshape(2, 2, 2).sum(axis=2), 1.0)


WEIGHTS_OF_TWO = np.array([0.4, 0.6])


def assert_refuses(mixture, impossible):
    assert mixture.score_samples(impossible)[0] == -np.inf
    with pytest.raises(ValueError, match=f"{type(mixture).__name__}.*rows are impossible"):
        mixture.partial_fit(impossible)


def test_fixed_components_keep_zeros_of_symbols(rng):
    tables = [np.array([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]]), np.array([[1.0, 0.0], [0.5, 0.5]])]
    for params in ("w", {"parameters": np.array([False, True])}):
        mixture = CategoricalMixture.from_parameters(
            weights=WEIGHTS_OF_TWO, probabilities=tables, params=params, random_state=0
        )
        first, second = mixture.probabilities_
        assert first[0, 2] == second[0, 1] == 0.0 and (first[1, 0] == 0.0) == (params == "w")
        X = mixture.sample(100)[0].astype(float)
        gaps = X.copy()
        gaps[::2, 0] = np.nan
        for rows in (X, gaps):
            of_first = np.where(np.isnan(rows[:, 0]), 1.0, first[:, X[:, 0].astype(int)])
            joint = WEIGHTS_OF_TWO @ (of_first * second[:, X[:, 1].astype(int)])
            np.testing.assert_allclose(mixture.score_samples(rows), np.log(joint))
        if params == "w":
            assert_refuses(mixture, [[0, 1]])
        for rows in (X, gaps):
            mixture.partial_fit(rows)
            np.testing.assert_array_equal(mixture.probabilities_[0][0], tables[0][0])


def test_fixed_components_keep_zeros_of_words(rng):
    mixture = MultinomialMixture.from_parameters(
        weights=WEIGHTS_OF_TWO, probabilities=ZEROS[:2], params="w", random_state=0
    )
    X = np.array([rng.multinomial(5, ZEROS[k]) for k in rng.integers(0, 2, 60)])
    densities = [multinomial(5, probabilities).pmf(X) for probabilities in ZEROS[:2]]
    for rows in (X, sparse.csr_array(X)):
        mixture.weights_ = WEIGHTS_OF_TWO
        np.testing.assert_allclose(mixture.score_samples(rows), np.log(WEIGHTS_OF_TWO @ densities))
        np.testing.assert_array_equal(mixture.partial_fit(rows).probabilities_, ZEROS[:2])
    assert_refuses(mixture, [[0, 0, 1, 1]])


@pytest.mark.parametrize("make", [GaussianMixture, GaussianHMM, GMMHMM])
def test_masks_have_the_sizes_of_the_values_beside_them(make):
    chain, means = {"startprob": [0.5, 0.5], "transmat": np.full((2, 2), 0.5)}, [[0.0], [9.0]]
    values = {
        GaussianMixture: {"weights": [0.5, 0.5], "means": means, "covariances": np.ones((2, 1, 1))},
        GaussianHMM: {"means": means, "covars": np.ones((2, 1)), **chain},
        GMMHMM: {"weights": [[1.0]] * 2, "means": [means[:1], means[1:]],
                 "covars": np.ones((2, 1, 1)), **chain},
    }  # fmt: skip
    known = make.from_parameters(params={"means": [True, False]}, **values[make])
    found = known.partial_fit([[-1.0], [8.0], [-2.0], [7.0]]).means_.ravel()
    assert found[0] < 0.0 and found[1] == 9.0


def test_states_of_which_a_part_is_fixed_keep_their_numbers(rng):
    X = rng.normal(np.repeat([[0.0], [9.0], [0.0]], 20, axis=0))
    chain = {"startprob": [0.5, 0.5], "transmat": np.full((2, 2), 0.5), "covars": np.ones((2, 1))}
    members = [
        GaussianHMM.from_parameters(means=means, params={"means": [True, False]}, **chain)
        for means in ([[0.0], [9.0]], [[9.0], [0.0]])
    ]
    with pytest.raises(ValueError, match="cannot be renumbered"):
        combine_estimators([member.partial_fit(X) for member in members], align=True)


@pytest.mark.parametrize("family", ["gaussian_tied", "student_t_tied"])
def test_what_all_components_share_stays_if_none_of_them_learns(family, rng):
    X = rng.normal(size=(300, 2)) + 5.0 * rng.integers(2, size=(300, 1))
    mixture = set_start(Mixture(2, family=family, params="w", random_state=0), X)
    before, weights = arrays(mixture.model_.parameters), mixture.weights_
    for learnt in (mixture.set_params(warm_start=True).fit(X), mixture.partial_fit(X[:50])):
        assert_identical(arrays(learnt.model_.parameters), before)
        assert (learnt.weights_ != weights).all() and learnt.model_.n_parameters() == 1


@pytest.mark.parametrize(
    "params", ["st", "tc", {"means": [True, False], "startprob": False}, "ste"]
)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_fit_that_goes_on_may_learn_other_parts(is_known, params, rng):
    X = rng.normal(np.repeat([[0.0], [4.0]] * 5, 20, axis=0))
    settings = {"random_state": 0, "max_iter": 2, "tol": 0.0, "solver": "batch"}
    before = GaussianHMM(2, params="tm", **settings).fit(X)
    if is_known:
        names = "startprob", "transmat", "means"
        values = {name: getattr(before, f"{name}_") for name in names}
        covars = before.covars_[:, 0]
        before = GaussianHMM.from_parameters(**values, covars=covars, params="tm", **settings)
    after = copy.deepcopy(before).set_params(params=params, warm_start=True)
    with pytest.raises(ValueError, match="call fit again"):
        after.partial_fit(X)
    after.fit(X)
    learns_all = params == "ste"
    changed = {
        "startprob_": "s" in params and not isinstance(params, dict),
        "transmat_": True,
        "means_": np.array([isinstance(params, dict) or learns_all, learns_all])[:, None],
        "covars_": isinstance(params, dict) or learns_all or "c" in params,
    }
    for name, expected in changed.items():
        is_changed = getattr(after, name) != getattr(before, name)
        assert (is_changed == expected).all(), name
    assert after.partial_fit(X).n_steps_ > 0


@pytest.mark.parametrize(
    "kind, own, shared",
    [("full", 5, 0), ("tied", 2, 3), ("diag", 4, 0), ("spherical", 3, 0)],
    ids=["full", "tied", "diag", "spherical"],
)
def test_what_fixed_components_have_is_no_free_parameter(kind, own, shared, rng):
    X, learnt = rng.normal(size=(200, 2)), np.array([True, False, True])
    settings = {"covariance_type": kind, "max_iter": 1, "tol": 0.0, "random_state": 0}
    free, masked = (
        GaussianMixture(3, params=params, **settings).fit(X).model_.n_parameters()
        for params in ("wmc", {"means": learnt})
    )
    assert masked == free - 2
    for mask, n in ((True, 3), (learnt, 2), (False, 0)):
        mixture = GaussianMixture(3, params={"parameters": mask, "weights": False}, **settings)
        params = {"emissions": mask, "startprob": False, "transmat": False}
        hmm = GaussianHMM(3, params=params, **settings)
        of_parts = GMMHMM(3, n_mix=2, params=params, **settings)
        found = [model.fit(X).model_.n_parameters() for model in (mixture, hmm, of_parts)]
        # Parts of a state share its covariance, and have a weight between them.
        alone, parts = n * own + shared * (n > 0), n * (2 * own + shared + 1)
        assert found == [alone, alone, parts]

"""Baum-Welch against hmmlearn's, from the same start."""

import numpy as np
import pytest
from hmmlearn import hmm
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem import GMMHMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM

N_STATES, N_FEATURES, N_SYMBOLS, N_MIX = 3, 2, 4, 2
LENGTHS = [40, 1, 17, 80, 1, 2, 60]
KINDS = ["diag", "full", "tied", "spherical"]
ITERATIONS = [1, 3, 10]


def chain(rng):
    """Start values that are far from uniform, and states that follow them."""
    start = rng.dirichlet(np.full(N_STATES, 3.0))
    transmat = rng.dirichlet(np.full(N_STATES, 1.0), N_STATES) + 2.0 * np.eye(N_STATES)
    transmat /= transmat.sum(axis=1, keepdims=True)
    states = []
    for length in LENGTHS:
        states.append(rng.choice(N_STATES, p=start))
        for _ in range(length - 1):
            states.append(rng.choice(N_STATES, p=transmat[states[-1]]))
    return start, transmat, np.array(states)


def covariances(rng, kind):
    roots = rng.standard_normal((N_STATES, N_FEATURES, N_FEATURES + 2))
    matrices = roots @ roots.transpose(0, 2, 1)
    return {
        "full": matrices,
        "tied": matrices[0],
        "diag": rng.uniform(0.5, 3.0, (N_STATES, N_FEATURES)),
        "spherical": rng.uniform(0.5, 3.0, N_STATES),
    }[kind]


class Pair:
    """Our estimator and hmmlearn's, with the same start and the same priors."""

    def __init__(self, ours, theirs, emissions, X, start, transmat, arguments):
        self.X, self.names = X, ("startprob_", "transmat_", *emissions)
        given = {name.rstrip("_") + "_init": value for name, value in emissions.items()}
        self.ours = lambda **more: ours(
            N_STATES, startprob_init=start, transmat_init=transmat, solver="batch", tol=0.0,
            **given, **arguments, **more,
        )  # fmt: skip

        def make_theirs(n_iter, **more):
            model = theirs(
                N_STATES, init_params="", tol=-np.inf, n_iter=n_iter, **{**arguments, **more}
            )
            model.startprob_, model.transmat_ = start.copy(), transmat.copy()
            for name, value in emissions.items():
                setattr(model, name, value.copy())
            return model

        self.theirs = make_theirs


def gaussian_pair(rng, kind, **arguments):
    start, transmat, states = chain(rng)
    X = 4.0 * rng.standard_normal((N_STATES, N_FEATURES))[states]
    X += rng.standard_normal(X.shape)
    emissions = {"means_": rng.standard_normal((N_STATES, N_FEATURES)),
                 "covars_": covariances(rng, kind)}  # fmt: skip
    arguments = {"covariance_type": kind, "covars_prior": 0.0, **arguments}
    pair = Pair(GaussianHMM, hmm.GaussianHMM, emissions, X, start, transmat, arguments)
    ours, theirs = pair.ours, pair.theirs
    pair.ours = lambda **more: ours(reg_covar=0.0, **more)
    pair.theirs = lambda n_iter, **more: theirs(n_iter, min_covar=0.0, **more)
    return pair


class GMMHMMAboutNewMeans(hmm.GMMHMM):
    """hmmlearn sums up squares about the means before the step, not about those after it."""

    def _do_mstep(self, stats):
        counts = stats["post_mix_sum"][:, :, None]
        shift = stats["m_n"] / counts - self.means_
        squares = {
            "full": lambda: counts[..., None] * shift[..., None] * shift[:, :, None],
            "tied": lambda: np.einsum("kj,kja,kjb->kab", counts[..., 0], shift, shift),
            "diag": lambda: counts * shift**2,
            "spherical": lambda: (counts * shift**2).sum(axis=2),
        }[self.covariance_type]()
        super()._do_mstep({**stats, "c_n": stats["c_n"] - squares})


def mixture_pair(rng, kind, theirs=GMMHMMAboutNewMeans):
    start, transmat, states = chain(rng)
    parts = rng.integers(0, N_MIX, len(states))
    means = 4.0 * rng.standard_normal((N_STATES, N_MIX, N_FEATURES))
    X = means[states, parts] + rng.standard_normal((len(states), N_FEATURES))
    covars = np.repeat(covariances(rng, kind)[:, None], N_MIX, axis=1) if kind != "tied" else (
        covariances(rng, "full")
    )  # fmt: skip
    emissions = {"weights_": rng.dirichlet(np.full(N_MIX, 5.0), N_STATES),
                 "means_": means + rng.standard_normal(means.shape), "covars_": covars}  # fmt: skip
    arguments = {"covariance_type": kind, "n_mix": N_MIX}
    pair = Pair(GMMHMM, theirs, emissions, X, start, transmat, arguments)
    make = pair.ours
    pair.ours = lambda **more: make(reg_covar=0.0, prior=None, **more)
    return pair


def categorical_pair(rng, **arguments):
    start, transmat, states = chain(rng)
    symbols = rng.dirichlet(np.ones(N_SYMBOLS), N_STATES)
    X = np.array([[rng.choice(N_SYMBOLS, p=symbols[state])] for state in states])
    emissions = {"emissionprob_": rng.dirichlet(np.full(N_SYMBOLS, 3.0), N_STATES)}
    return Pair(CategoricalHMM, hmm.CategoricalHMM, emissions, X, start, transmat, arguments)


class PoissonHMMWithGammaPriors(hmm.PoissonHMM):
    """hmmlearn weighs the prior of each rate against the rows of all states, not of its own."""

    def _do_mstep(self, stats):
        super()._do_mstep(stats)
        n_rows = stats["post"][:, None]
        self.lambdas_ = (self.lambdas_prior + stats["obs"]) / (self.lambdas_weight + n_rows)


def poisson_pair(rng, theirs=hmm.PoissonHMM, **arguments):
    start, transmat, states = chain(rng)
    X = rng.poisson(rng.uniform(1.0, 12.0, (N_STATES, N_FEATURES))[states])
    emissions = {"lambdas_": rng.uniform(1.0, 12.0, (N_STATES, N_FEATURES))}
    return Pair(PoissonHMM, theirs, emissions, X, start, transmat, arguments)


def multinomial_pair(rng, **arguments):
    start, transmat, states = chain(rng)
    topics = rng.dirichlet(np.ones(N_SYMBOLS), N_STATES)
    X = rng.multinomial(rng.integers(1, 9, len(states)), topics[states])
    emissions = {"emissionprob_": rng.dirichlet(np.full(N_SYMBOLS, 3.0), N_STATES)}
    return Pair(MultinomialHMM, hmm.MultinomialHMM, emissions, X, start, transmat, arguments)


DIRICHLET = {"startprob_prior": 1.7, "transmat_prior": 2.5}
ROWS = {
    "startprob_prior": np.array([1.2, 3.0, 1.0]),
    "transmat_prior": np.array([[2.0, 1.0, 1.5], [1.0, 4.0, 1.0], [1.3, 1.0, 1.0]]),
}
NORMAL = {"means_prior": np.array([[0.5, -1.0], [2.0, 0.0], [0.0, 3.0]]), "means_weight": 3.0}
WISHART = {"covars_prior": np.array([[2.0, 0.3], [0.3, 1.0]]), "covars_weight": 6.5}
INVERSE_GAMMA = {"covars_prior": 1.5, "covars_weight": 3.5}

PAIRS = {
    **{kind: (gaussian_pair, {"kind": kind}) for kind in KINDS},
    **{
        f"{kind}, priors": (
            gaussian_pair,
            {"kind": kind, **DIRICHLET, **NORMAL}
            | (WISHART if kind in ("full", "tied") else INVERSE_GAMMA),
        )
        for kind in KINDS
    },
    **{f"mixtures, {kind}": (mixture_pair, {"kind": kind}) for kind in ("full", "tied", "diag")},
    "means' prior": (gaussian_pair, {"kind": "full", **NORMAL}),
    "a weight of no covariance": (gaussian_pair, {"kind": "full", "covars_weight": 1.5}),
    "categorical": (categorical_pair, {}),
    "categorical, a prior": (categorical_pair, {**DIRICHLET, "emissionprob_prior": 2.5}),
    "categorical, priors": (
        categorical_pair,
        {**ROWS, "emissionprob_prior": 1.0 + np.arange(12.0).reshape(N_STATES, N_SYMBOLS) / 3.0},
    ),
    "a prior below 1": (categorical_pair, {"transmat_prior": 0.7, "startprob_prior": 0.5}),
    "poisson": (poisson_pair, {}),
    "poisson, priors": (
        poisson_pair,
        {"theirs": PoissonHMMWithGammaPriors, **DIRICHLET}
        | {"lambdas_prior": 30.0, "lambdas_weight": 4.0},
    ),
    "multinomial": (multinomial_pair, {}),
    "multinomial, priors": (multinomial_pair, ROWS),
}  # fmt: skip


def attribute_of(theirs, name):
    """As hmmlearn has it, but for its matrices of spherical covariances, of which it has K d."""
    if name == "covars_" and hasattr(theirs, "_covars_") and theirs.covariance_type == "spherical":
        return theirs._covars_[:, :1, None] * np.eye(N_FEATURES)
    return getattr(theirs, name)


@pytest.fixture(params=PAIRS.values(), ids=PAIRS.keys())
def pair(request, rng):
    make, arguments = request.param
    return make(rng, **arguments)


@pytest.mark.parametrize("n_iter", ITERATIONS)
def test_batch_em_equals_hmmlearns_iteration_for_iteration(pair, n_iter):
    ours = pair.ours(max_iter=n_iter).fit(pair.X, lengths=LENGTHS)
    theirs = pair.theirs(n_iter).fit(pair.X, LENGTHS)
    assert ours.n_iter_ == theirs.monitor_.iter == n_iter
    path = np.array(ours.lower_bounds_) * len(LENGTHS)
    assert_allclose(path[-len(theirs.monitor_.history) :], theirs.monitor_.history, rtol=1e-8)
    for name in pair.names:
        found, expected = getattr(ours, name), attribute_of(theirs, name)
        assert_allclose(found, expected, rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_what_is_inferred_is_what_hmmlearn_infers(pair, implementation):
    ours = pair.ours(max_iter=5).fit(pair.X, lengths=LENGTHS)
    theirs = pair.theirs(5, implementation=implementation).fit(pair.X, LENGTHS)
    X, total = pair.X, theirs.score(pair.X, LENGTHS)
    assert_allclose(ours.score_samples(X, lengths=LENGTHS).sum(), total, rtol=1e-8)
    assert_allclose(ours.score(X, lengths=LENGTHS), total / len(LENGTHS), rtol=1e-8)
    posterior = theirs.predict_proba(X, LENGTHS)
    assert_allclose(ours.predict_proba(X, lengths=LENGTHS), posterior, atol=1e-8)
    for algorithm in ("viterbi", "map"):
        log_probability, states = theirs.decode(X, LENGTHS, algorithm)
        found = ours.decode(X, lengths=LENGTHS, algorithm=algorithm)
        assert_allclose(found[0], log_probability, rtol=1e-8)
        assert_array_equal(found[1], states)
    assert_array_equal(ours.predict(X, lengths=LENGTHS), theirs.predict(X, LENGTHS))
    stationary = theirs.get_stationary_distribution()
    assert_allclose(ours.get_stationary_distribution(), stationary, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_of_one_gaussian_is_that_gaussian_to_the_bit(kind, rng):
    X = gaussian_pair(rng, kind).X
    arguments = {"covariance_type": kind, "random_state": 0}
    one = GMMHMM(2, **arguments).fit(X, lengths=LENGTHS)
    # A tied covariance is that of a state.
    kind = "full" if kind == "tied" else kind
    plain = GaussianHMM(2, **{**arguments, "covariance_type": kind}).fit(X, lengths=LENGTHS)
    for estimator in (one, plain):
        estimator.partial_fit([X[:50]])
    assert_array_equal(one.means_[:, 0], plain.means_)
    assert one.score(X) == plain.score(X) and one.bic(X) == plain.bic(X)
    assert_array_equal(one.sample(9)[0], plain.sample(9)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_mixtures_end_where_hmmlearns_as_it_is_stays(kind, rng):
    pair = mixture_pair(rng, kind, hmm.GMMHMM)
    ours, theirs = pair.ours(max_iter=1000).fit(pair.X, lengths=LENGTHS), pair.theirs(1)
    for name in pair.names:
        setattr(theirs, name, getattr(ours, name).copy())
    theirs.fit(pair.X, LENGTHS)
    for name in pair.names:
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-8)

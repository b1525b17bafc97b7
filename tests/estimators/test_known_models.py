"""Known models beside other libraries, and what streams, solvers and fits make of them."""

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.known_gaussians import COVARIANCES, MEANS, kinds
from cases.refusals import assert_refused_call, rows_of
from scipy import stats
from sklearn import decomposition
from sklearn.exceptions import NotFittedError

from sklearn_onlineem import (
    HMM,
    BernoulliMixture,
    CategoricalHMM,
    CategoricalMixture,
    CompoundDirichletMixture,
    EditDistance,
    EditDistanceClassifier,
    ExponentialMixture,
    GammaMixture,
    GaussianHMM,
    GaussianMixture,
    LaplaceMixture,
    LatentDirichletAllocation,
    MarkovChainMixture,
    Mixture,
    MultinomialHMM,
    MultinomialMixture,
    PoissonHMM,
    PoissonMixture,
    StudentTMixture,
    WishartMixture,
)
from sklearn_onlineem.em import Adaptive, Online
from sklearn_onlineem.families import Categorical, Gaussians

START, TRANSMAT = (
    np.array([0.6, 0.3, 0.1]),
    np.array([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.0, 0.4, 0.6]]),
)


# ------------------------------------------------------------------------ beside other libraries


@kinds
def test_covariances_of_states_may_have_the_shapes_of_hmmlearn(kind, rng):
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    ours, other = (make(3, covariance_type=kind) for make in (GaussianHMM, hmmlearn.GaussianHMM))
    for model in (ours, other):
        model.startprob_, model.transmat_ = START, TRANSMAT
        model.means_, model.covars_ = MEANS, COVARIANCES[kind]
    X, lengths = rng.normal(scale=4.0, size=(200, 2)), [50, 150]
    np.testing.assert_allclose(2.0 * ours.score(X, lengths=lengths), other.score(X, lengths))
    np.testing.assert_allclose(ours.covars_, other.covars_, rtol=1e-12)


HALVES, SHAPES = np.array([0.25, 0.75]), np.array([[2.0, 1.0], [0.5, 4.0]])
RATES, SHARES = np.array([[1.0, 2.0], [3.0, 0.5]]), np.array([[0.2, 0.8], [0.5, 0.5]])
MATRICES, DEGREES, NONE = COVARIANCES["full"][:2], np.array([4.0, 6.0]), np.zeros((2, 2))
DRAWN = np.random.default_rng(0)
REAL, COUNTS = DRAWN.gamma(2.0, size=(20, 2)), DRAWN.poisson(2.0, size=(20, 2))
WISHARTS = stats.wishart(5.0, np.eye(2)).rvs(10, random_state=0)


def columns(log_density, rows, *parameters):
    """Log densities of components whose columns are independent."""
    return [log_density(rows, *one).sum(axis=1) for one in zip(*parameters, strict=True)]


GAMMAS = columns(stats.gamma.logpdf, REAL, SHAPES, NONE, 1.0 / RATES)
# Attributes and settings, rows, and log densities of the components by SciPy.
DENSITIES = [
    (GammaMixture, {"shapes": SHAPES, "rates": RATES}, REAL, GAMMAS),
    (GammaMixture, {"means": SHAPES / RATES, "shapes": SHAPES}, REAL, GAMMAS),
    (GammaMixture, {"rates": RATES, "shape": 2.0}, REAL,
     columns(stats.gamma.logpdf, REAL, NONE + 2.0, NONE, 1.0 / RATES)),
    (ExponentialMixture, {"rates": RATES}, REAL,
     columns(stats.expon.logpdf, REAL, NONE, 1.0 / RATES)),
    (LaplaceMixture, {"locations": RATES, "scales": SHAPES}, REAL,
     columns(stats.laplace.logpdf, REAL, RATES, SHAPES)),
    (PoissonMixture, {"rates": RATES}, COUNTS, columns(stats.poisson.logpmf, COUNTS, RATES)),
    (BernoulliMixture, {"probabilities": SHARES}, COUNTS % 2,
     columns(stats.bernoulli.logpmf, COUNTS % 2, SHARES)),
    (MultinomialMixture, {"probabilities": SHARES}, COUNTS,
     [stats.multinomial(COUNTS.sum(axis=1), p).logpmf(COUNTS) for p in SHARES]),
    (CompoundDirichletMixture, {"alpha": SHAPES}, COUNTS,
     [stats.dirichlet_multinomial(a, COUNTS.sum(axis=1)).logpmf(COUNTS) for a in SHAPES]),
    (WishartMixture, {"scales": MATRICES, "degrees_of_freedom": DEGREES}, WISHARTS.reshape(10, 4),
     [stats.wishart(n, S).logpdf(WISHARTS.transpose(1, 2, 0))
      for n, S in zip(DEGREES, MATRICES, strict=True)]),
    (StudentTMixture, {"means": MEANS[:2], "scales": MATRICES, "degrees_of_freedom": DEGREES}, REAL,
     [stats.multivariate_t(m, S, n).logpdf(REAL)
      for m, S, n in zip(MEANS[:2], MATRICES, DEGREES, strict=True)]),
    (StudentTMixture, {"means": MEANS[:2], "scales": MATRICES, "degrees_of_freedom": 3.0}, REAL,
     [stats.multivariate_t(m, S, 3.0).logpdf(REAL)
      for m, S in zip(MEANS[:2], MATRICES, strict=True)]),
    (CategoricalMixture, {"probabilities": [SHARES, SHARES[::-1]]}, COUNTS % 2,
     [np.log(p[COUNTS[:, 0] % 2] * q[COUNTS[:, 1] % 2])
      for p, q in zip(SHARES, SHARES[::-1], strict=True)]),
]  # fmt: skip


@pytest.mark.parametrize(("make", "known", "rows", "log_densities"), DENSITIES)
def test_densities_of_other_families_are_scipys(make, known, rows, log_densities):
    mixture = make.from_parameters(weights=HALVES, **known)
    expected = np.logaddexp(*(np.log(HALVES)[:, None] + log_densities))
    np.testing.assert_allclose(mixture.score_samples(rows), expected, rtol=1e-8)
    if known.keys() == {"shapes", "rates"}:
        np.testing.assert_allclose(mixture.means_, SHAPES / RATES, rtol=1e-9)


def test_chains_follow_from_their_probabilities():
    start = np.array([[0.5, 0.5], [0.9, 0.1]])
    transmat = np.array([[[0.75, 0.25], [0.5, 0.5]], [[0.1, 0.9], [0.2, 0.8]]])
    known = MarkovChainMixture.from_parameters(
        weights=[0.5, 0.5], startprob=start, transmat=transmat
    )
    sequence = np.array([[0], [0], [1], [1]])
    expected = np.log(0.5 * 0.5 * 0.75 * 0.25 * 0.5 + 0.5 * 0.9 * 0.1 * 0.9 * 0.8)
    np.testing.assert_allclose(known.score_samples([sequence]), [expected], rtol=1e-9)
    np.testing.assert_allclose(known.transmat_, transmat, rtol=1e-12)


# --------------------------------------------------------------------------------- going on


def known_mixture(**settings):
    return GaussianMixture.from_parameters(
        weights=[0.5, 0.5], means=[[0.0], [10.0]], covariances=[[[1.0]], [[1.0]]], random_state=0,
        **settings,
    )  # fmt: skip


def test_a_known_model_counts_as_one_batch_over_the_first_learning_rate(rng):
    X = rng.normal(loc=1.0, size=(100, 1))
    for eta0 in (1.0, 0.25):
        known = GaussianMixture.from_parameters(
            weights=[0.5, 0.5], means=[[0.0], [100.0]], covariances=np.ones((2, 1, 1)), eta0=eta0
        ).partial_fit(X)
        assert known.history_[0].eta == eta0
        # All rows are the first component's, of which the model has half: of 1 / eta0 batches.
        expected = X.mean() / (1.0 + 0.5 / eta0)
        np.testing.assert_allclose(known.means_[:, 0], [expected, 100.0], rtol=1e-9)
    # By default as after given start values: the model counts for more rows the larger it is.
    known, given = known_mixture(), GaussianMixture(
        2, weights_init=[0.5, 0.5], means_init=[[0.0], [10.0]], precisions_init=np.ones((2, 1, 1)),
        random_state=0,
    )  # fmt: skip
    for part in np.split(X, 4):
        known.partial_fit(part)
        given.partial_fit(part)
        assert_identical(known.means_, given.means_)
        assert_identical(known.covariances_, given.covariances_)
        assert known.history_ == given.history_
    assert known.n_samples_seen_ == 100 and known.n_rows_kept_ == 0


def test_fits_go_on_or_start_anew(rng):
    X = np.concatenate([rng.normal(loc=loc, size=(200, 1)) for loc in (50.0, 60.0)])
    warm = known_mixture(warm_start=True, solver="batch", max_iter=1, tol=0.0).fit(X)
    # One step of batch EM from the known model: all rows are nearest to its second component.
    np.testing.assert_allclose(warm.means_[1], X.mean(), rtol=1e-9)
    cold = known_mixture().fit(X)
    np.testing.assert_allclose(np.sort(cold.means_[:, 0]), [50.0, 60.0], atol=0.5)
    fresh = GaussianMixture(2, random_state=0).fit(X)
    assert_identical(cold.means_, fresh.means_)
    assert cold.history_ == fresh.history_


def test_what_solvers_have_kept_follows_the_model_that_is_set(rng):
    X = np.concatenate([rng.normal(loc=loc, size=(300, 1)) for loc in (0.0, 10.0)])
    X = rng.permutation(X)
    means = np.array([[100.0], [110.0]])
    # Running statistics become those of the new model, and count for as many rows.
    bayes = GaussianMixture(2, solver="bayesian", random_state=0).partial_fit(X)
    bayes.means_ = means
    assert bayes._fitted.state.carry["running_statistics"].mass == 600.0
    bayes.partial_fit(means + 0.0)
    np.testing.assert_allclose(bayes.means_, means)
    # First rows of a stream are dropped, and so the start is final.
    first = GaussianMixture(2, random_state=0).partial_fit(X[:50])
    assert first.n_rows_kept_ == 50
    first.means_ = means
    assert first.n_rows_kept_ == 0 and first.n_samples_seen_ == 50
    first.partial_fit(means + 0.0)
    np.testing.assert_allclose(first.means_, means, rtol=1e-3)
    # Several models are one again, and samples begin anew.
    several = GaussianMixture(2, solver=Adaptive(), random_state=0).partial_fit(X)
    several.means_ = means
    assert several.score_samples(means).min() > -3.0
    sampled = GaussianMixture(2, solver=Online(sample=100), random_state=0).partial_fit(X)
    assert len(sampled.sample_) == 100
    sampled.means_ = means
    assert not hasattr(sampled, "sample_")
    sampled.partial_fit(np.repeat(means, 20, axis=0))
    assert len(sampled.sample_) == 40 and sampled.sample_.min() > 90.0
    # Records of the past stay, and nothing says that this model has converged.
    fitted = GaussianMixture(2, random_state=0).fit(X)
    assert fitted.converged_
    n_iter, history = fitted.n_iter_, fitted.history_
    fitted.means_ = means
    assert not fitted.converged_ and fitted.lower_bounds_ == []
    assert fitted.n_iter_ == n_iter and fitted.history_ == history


def test_a_sequence_that_goes_on_ends_where_its_model_is_replaced(rng):
    X = rng.normal(size=(40, 1))
    hmm = GaussianHMM(2, random_state=0).partial_fit(X, continues=True)
    assert hmm.filtered_state_.shape == (2,)
    hmm.means_ = hmm.means_ + 1.0
    with pytest.raises(AttributeError, match="filtered_state_"):
        hmm.filtered_state_  # noqa: B018
    hmm.partial_fit(X, continues=True)
    assert hmm.filtered_state_.shape == (2,)


def test_ends_of_sequences_are_the_rest_of_the_transitions():
    hmm = HMM(2, family="poisson", termination="end_state", random_state=0)
    hmm.parameters_ = np.array([[1.0], [9.0]])
    hmm.startprob_ = [0.5, 0.5]
    with pytest.raises(ValueError, match="HMM: transmat_ leaves no room for the end"):
        hmm.transmat_ = [[0.5, 0.5], [0.5, 0.5]]
    hmm.transmat_ = [[0.5, 0.5], [0.25, 0.25]]
    np.testing.assert_allclose(hmm.endprob_, [0.0, 0.5])
    hmm.endprob_ = [0.2, 0.5]
    np.testing.assert_allclose(hmm.transmat_, [[0.4, 0.4], [0.25, 0.25]])
    assert len(hmm.sample(n_sequences=3)[0]) == 3
    with pytest.raises(ValueError, match="PoissonHMM: endprob_ requires termination='end_state'"):
        PoissonHMM(2).endprob_ = [0.5, 0.5]
    absorbing = PoissonHMM(2, termination="absorbing_states", absorbing_states=[1])
    with pytest.raises(ValueError, match=r"transmat_ must not leave the absorbing states \[1\]"):
        absorbing.transmat_ = [[0.5, 0.5], [0.5, 0.5]]
    absorbing.transmat_ = [[0.5, 0.5], [0.0, 1.0]]


# -------------------------------------------------------------------------------- what is refused


def half():
    """A mixture of which the means alone are set."""
    mixture = GaussianMixture(2)
    mixture.means_ = [[0.0, 0.0], [1.0, 1.0]]
    return mixture


def other_kind():
    mixture = half()
    mixture.weights_, mixture.covariances_ = [0.5, 0.5], [np.eye(2), np.eye(2)]
    return mixture.set_params(covariance_type="tied")


def topics():
    return LatentDirichletAllocation(2, doc_topic_prior=0.5)


def full(symbols, **values):
    edit = EditDistance("full")
    for name, value in {"symbols": symbols, **values}.items():
        setattr(edit, f"{name}_", value)
    return edit


REFUSED = r"""
half().covariances_ = np.ones((2, 1, 1)) -> GaussianMixture: covariances_ has 1 columns, but 2
half().weights_ = [0.2, 0.3, 0.5] -> GaussianMixture: weights_ has 3 components
half().weights_ = [0.4, 0.5] -> weights_ must add up to 1, got a sum of 0\.9
half().covariances_ = [np.eye(2), [[1.0, 2.0], [2.0, 1.0]]] ->
    covariances_ must be symmetric and positive definite
half().covariances_ = [np.eye(2), [[1.0, 0.5], [0.0, 1.0]]] -> number 1 is not
half().precisions_cholesky_ = [np.eye(2), [[1.0, 0.0], [0.5, 1.0]]] ->
    precisions_cholesky_ must be upper triangular
half().predict([[0.0, 0.0]]) ->
    NotFittedError: means_ is set. Set weights_ and covariances_ or precisions_
half().covariances_ -> AttributeError: not fitted
half().means_ = np.zeros((3, 2)) -> GaussianMixture: means_ has 3 components
half().n_iter_ = 3 -> AttributeError:
known_mixture().predict(np.zeros((1, 3))) -> X has 3 features
GaussianMixture(-1).weights_ = [1.0] -> 'n_components' parameter of GaussianMixture
other_kind().means_ = np.ones((2, 2)) -> call fit again
combine_estimators([known_mixture(), known_mixture().partial_fit(np.zeros((2, 1)))], [1.0, 1.0]) ->
    estimators\[1\], a GaussianMixture, has data, and
PoissonHMM.from_parameters(startprob=[1.0], transmat=[[1.0]], lambdas=[[1.0]]).as_prior(1.0) ->
    PoissonHMM: lengths of sequences are given
known_mixture().covariances_ = [[[1e-320]], [[1.0]]] -> GaussianMixture: covariances_
known_mixture().precisions_cholesky_ = [[[each]], [[1.0]]] for each in (1e200, 1e-200) ->
    GaussianMixture: precisions_cholesky_
known_mixture().weights_ = np.ma.masked_array([0.5, 0.5], [True, False]) ->
    GaussianMixture: weights_
setattr(GaussianMixture(1, covariance_type='spherical'), each, [1e-320])
    for each in ('covariances_', 'precisions_', 'precisions_cholesky_') ->
    GaussianMixture: (covariances|precisions|precisions_cholesky)_
Mixture(2, family='poisson').fit([[1, 2], [3, 4], [9, 9]]).parameters_ = np.ones((2, 3)) ->
    Mixture: parameters_ has 3 columns, but 2 are expected
Mixture.from_parameters(weights=[0.5, 0.5], parameters=[1.0]) ->
    Mixture: parameters_ must be those of
GaussianHMM(2, covariance_type='diag').covars_ = np.tile([[1.0, 0.5], [0.5, 1.0]], (2, 1, 1)) ->
    GaussianHMM: covars_ must be of the covariance_type
GaussianHMM(2, covariance_type='diag').covars_ = [[1.0, 0.0], [1.0, 1.0]] -> covars_ must be above 0
GaussianHMM(2, covariance_type='tied').covars_ = [np.eye(2), 2.0 * np.eye(2)] ->
    covars_ must be of the covariance_type
GammaMixture(2, shape=2.0).shapes_ = SHAPES ->
    GammaMixture: shapes_ is fixed by the parameter shape
StudentTMixture(3, degrees_of_freedom=3.0).degrees_of_freedom_ = [4.0, 4.0, 4.0] ->
    degrees_of_freedom_ is fixed by the parameter
StudentTMixture(3, degrees_of_freedom='shared').degrees_of_freedom_ = [3.0, 8.0, 100.0] ->
    degrees_of_freedom_ must be equal
CategoricalMixture(2, n_categories=3).probabilities_ = [SHARES, np.ones((2, 3)) / 3.0] ->
    probabilities_ has .2, 3. categories, n_categories .3, 3
# Topics.
topics().components_ = [[1.0, 2.0]] -> components_ has 1 components or states, but 2 are expected
topics().components_ = [[1.0, 2.0], [0.0, 0.0]] -> components_ must not be negative, nor all 0
topics().components_ = [1.0, 2.0] -> components_ must have 2 axes
topics().doc_topic_prior_ = each for each in (0.0, [1.0, -1.0], [1.0, 1e30]) ->
    doc_topic_prior_ must be from 1e-20 to 1e
topics().topic_word_prior_ = 1.0 -> AttributeError: topic_word_prior_
# Edit distances.
EditDistance().operations_ = {'match': 0.5, 'end': 0.5} -> operations_ must be a dict of match
EditDistance().operations_ = {**OPERATIONS, 'end': 0.5} -> operations_ must add up to 1
EditDistance().deletion_probabilities_ = DELETIONS ->
    deletion_probabilities_ requires parametrization='full'
full('abc').insertion_probabilities_ = INSERTIONS ->
    insertion_probabilities_ has 3 entries .* but 4 are
full('ab').deletion_probabilities_ = DELETIONS[:2] -> deletion_probabilities_ has 2 entries
full('ab', insertion_probabilities=INSERTIONS).distance('a', 'b') ->
    NotFittedError: Set substitution_.* and deletion_.*, too
full('ab', insertion_probabilities=INSERTIONS).substitution_probabilities_ = TOO_MUCH ->
    probabilities_: .* add up to less than 1
EditDistance.from_parameters(operations=OPERATIONS) -> needs symbols, too
"""


@pytest.mark.parametrize(("call", "words"), rows_of(REFUSED))
@pytest.mark.filterwarnings("ignore")
def test_values_that_do_not_fit_together_are_refused(call, words):
    assert_refused_call(call, words, {**globals(), "TOO_MUCH": SUBSTITUTIONS / SUBSTITUTIONS.sum()})


def test_symbols_are_as_many_as_the_probabilities():
    hmm = CategoricalHMM.from_parameters(
        startprob=[1.0], transmat=[[1.0]], emissionprob=[[0.2, 0.3, 0.5]]
    )
    np.testing.assert_allclose(np.exp(hmm.score([[2]])), 0.5)
    hmm.partial_fit([[0], [1]])
    assert hmm.emissionprob_.shape == (1, 3)
    with pytest.raises(ValueError, match="codes in 0..2"):
        hmm.partial_fit([[3]])
    pairs = CategoricalHMM(1, n_features=2)
    with pytest.raises(ValueError, match="emissionprob_ has 3 columns, not a multiple of"):
        pairs.emissionprob_ = [[0.2, 0.3, 0.5]]
    pairs.emissionprob_ = [[0.5, 0.5, 0.1, 0.9]]
    pairs.startprob_, pairs.transmat_ = [1.0], [[1.0]]
    np.testing.assert_allclose(np.exp(pairs.score([[0, 1]])), 0.45)


def test_any_family_takes_its_parameters():
    known = Mixture.from_parameters(
        weights=[0.5, 0.5], parameters=np.array([[0.2, 0.8], [0.5, 0.5]]), family=Categorical(2)
    )
    np.testing.assert_allclose(np.exp(known.score([[1]])), 0.65)
    gaussians = Gaussians(np.array([[0.0, 1.0]]), np.eye(2)[None])
    assert HMM.from_parameters(
        startprob=[1.0], transmat=[[1.0]], parameters=gaussians, family="gaussian_full"
    ).sample(3)[0].shape == (3, 2)  # fmt: skip
    with pytest.raises(ValueError, match="Mixture: parameters_ must be those of 2 components"):
        Mixture.from_parameters(weights=[0.5, 0.5], parameters=gaussians)


def test_lengths_of_documents_are_those_of_first_data():
    known = MultinomialMixture.from_parameters(
        weights=[0.5, 0.5], probabilities=[[0.9, 0.1], [0.1, 0.9]]
    )
    np.testing.assert_allclose(known.means_.sum(axis=1), 1.0)
    X = np.array([[8.0, 2.0], [3.0, 27.0]])
    given = MultinomialMixture.from_parameters(
        weights=[0.5, 0.5], means=[[18.0, 2.0], [2.0, 18.0]], eta0=1.0
    )
    known.set_params(eta0=1.0).partial_fit(X)
    np.testing.assert_allclose(known.means_, given.partial_fit(X).means_)
    hmm = MultinomialHMM.from_parameters(
        startprob=[1.0], transmat=[[1.0]], emissionprob=[[0.5, 0.5]], eta0=1.0
    ).partial_fit([X])
    assert hmm.model_.parameters.sum() == pytest.approx(20.0)


def test_a_known_model_is_a_prior_of_another(rng):
    X = rng.normal(size=(50, 1))
    prior = known_mixture().as_prior(10.0)
    fitted = GaussianMixture(2, prior=prior, random_state=0).fit(X)
    # Its floor is that of the data, as everywhere.
    assert fitted.model_.family.floor is not None
    assert fitted.means_[1, 0] == pytest.approx(10.0)


def test_the_first_data_of_a_known_model_name_its_columns(rng):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.normal(size=(20, 1)), columns=["height"])
    known = known_mixture()
    known.predict(X)
    assert not hasattr(known, "feature_names_in_")
    assert known.partial_fit(X).feature_names_in_ == ["height"]
    warm = known_mixture(warm_start=True, max_iter=1, tol=0.0).fit(X)
    assert warm.feature_names_in_ == ["height"]
    with pytest.raises(ValueError, match="X has 2 features, but 1 are expected"):
        known_mixture().partial_fit(pd.DataFrame(np.zeros((3, 2)), columns=["a", "b"]))


@pytest.mark.parametrize("family", ["gaussian_full", "gaussian_diag", "student_t_diag", "poisson"])
@pytest.mark.parametrize("lacking", [[1], [0, 1]], ids=["a column", "all"])
def test_first_data_of_a_known_chain_may_lack_values(lacking, family, rng):
    X = rng.poisson(np.repeat([[2.0, 9.0], [30.0, 7.0]], 30, axis=0)).astype(float)
    fitted = HMM(2, family=family, random_state=0).fit(X)
    values = {"parameters": fitted.parameters_, "startprob": fitted.startprob_}
    known = HMM.from_parameters(family=family, transmat=fitted.transmat_, **values)
    gaps = X.copy()
    gaps[:, lacking] = np.nan
    known.partial_fit(gaps)
    assert known.n_samples_seen_ == 1
    # Parts that are not observed stay, and the others were learnt from the same rows.
    np.testing.assert_allclose(known.score(X), fitted.score(X), rtol=0.02)
    known.partial_fit(X)
    np.testing.assert_allclose(known.score(X), fitted.score(X), rtol=0.02)


# --------------------------------------------------------------------------------- topic models

TOPICS = np.array([[3.0, 1.0, 0.0, 0.0], [0.0, 1.0, 2.0, 1.0]])


def test_topics_of_scikit_learn_can_be_set(rng):
    X = rng.multinomial(30, rng.dirichlet([0.5, 0.5], size=200) @ (TOPICS / 4.0))
    other = decomposition.LatentDirichletAllocation(2, random_state=0).fit(X)
    ours = LatentDirichletAllocation(2, random_state=0)
    ours.components_ = other.components_
    with pytest.raises(NotFittedError, match="Set doc_topic_prior_, too"):
        ours.transform(X)
    ours.doc_topic_prior_ = other.doc_topic_prior_
    np.testing.assert_allclose(ours.components_, other.components_)
    np.testing.assert_allclose(
        ours.exp_dirichlet_component_, other.exp_dirichlet_component_, rtol=1e-8
    )
    np.testing.assert_array_equal(ours.doc_topic_prior_, [0.5, 0.5])
    # Both are approximations of the same posterior mean.
    np.testing.assert_allclose(ours.transform(X), other.transform(X), atol=0.1)


def test_documents_of_a_known_topic_have_their_likelihood(rng):
    X, shares = rng.poisson(3.0, size=(20, 4)), np.array([0.1, 0.2, 0.3, 0.4])
    known = LatentDirichletAllocation.from_parameters(
        components=[7.0 * shares], doc_topic_prior=2.0
    )
    assert known.n_components == 1 and known.doc_topic_prior_ == 2.0
    # One topic has no bound, but the likelihood of its tokens, in single precision.
    np.testing.assert_allclose(known.score_samples(X), X @ np.log(shares), rtol=1e-6)
    lengths = X.sum(axis=1)
    held_out = np.exp(-(X @ np.log(shares)).sum() / lengths.sum())
    np.testing.assert_allclose(known.perplexity(100 * X), held_out, rtol=0.05)


@pytest.mark.parametrize("e_step", ["gibbs", "map"])
def test_settings_of_topic_models_hold_from_the_first_data_on(e_step, rng):
    X = rng.poisson(3.0, size=(50, 4))
    known = LatentDirichletAllocation.from_parameters(components=TOPICS, doc_topic_prior=[1.0, 3.0])
    known.set_params(e_step=e_step, learn_doc_topic_prior=False).partial_fit(X)
    np.testing.assert_array_equal(known.doc_topic_prior_, [1.0, 3.0])
    assert known.model_.inference == LatentDirichletAllocation(e_step=e_step)._inference()


# -------------------------------------------------------------------------------- edit distances

OPERATIONS = {"match": 0.5, "mismatch": 0.1, "delete": 0.1, "insert": 0.05, "end": 0.25}
SUBSTITUTIONS = np.array([[0.2, 0.05, 0.0], [0.01, 0.25, 0.0], [0.0, 0.0, 0.03]])
DELETIONS, INSERTIONS = np.array([0.05, 0.03, 0.01]), np.array([0.04, 0.02, 0.01])
FULL = {
    "parametrization": "full",
    "substitution_probabilities": SUBSTITUTIONS,
    "deletion_probabilities": DELETIONS,
    "insertion_probabilities": INSERTIONS,
}
END = 1.0 - SUBSTITUTIONS.sum() - DELETIONS.sum() - INSERTIONS.sum()


def test_distances_of_known_operations_are_sums_over_scripts():
    known = EditDistance.from_parameters(symbols="ab", operations=OPERATIONS)
    # With the place of unknown symbols there are three.
    script = 0.1 / 6 + 2 * (0.1 / 3) * (0.05 / 3)
    np.testing.assert_allclose(known.distance("a", "b"), -np.log(0.25 * script))
    np.testing.assert_allclose(known.distance("", "bb"), -np.log(0.25 * (0.05 / 3) ** 2))
    np.testing.assert_allclose(known.distance("a", "a", kind="viterbi"), -np.log(0.25 * 0.5 / 3))
    assert known.operations_ == OPERATIONS and known.symbols_ == ["a", "b"]
    assert not hasattr(known, "n_features_in_")
    assert str(known.align("ab", "b")) == "ab\n |\n-b"
    words = EditDistanceClassifier(known, dictionary=["aa", "bb"], prefit=True).fit([""], [""])
    assert words.predict(["ba", "bbb", "aaa"]).tolist()[1:] == ["bb", "aa"]


def test_distances_of_known_probabilities_by_symbol_are_sums_over_scripts():
    known = EditDistance.from_parameters(symbols=["a", "b"], **FULL)
    for x, i in zip("abz", range(3), strict=True):
        for y, j in zip("abz", range(3), strict=True):
            script = SUBSTITUTIONS[i, j] + 2 * DELETIONS[i] * INSERTIONS[j]
            np.testing.assert_allclose(known.distance(x, y), -np.log(END * script))
    found = known.operations_
    np.testing.assert_allclose(found["match"], 0.48)
    np.testing.assert_allclose(found["end"], END)
    known.operations_ = OPERATIONS
    np.testing.assert_allclose([*known.operations_.values()], [*OPERATIONS.values()])
    np.testing.assert_allclose(known.deletion_probabilities_, 0.1 / 0.09 * DELETIONS)
    substitutions = known.substitution_probabilities_
    np.testing.assert_allclose(np.diag(substitutions), 0.5 / 0.48 * np.diag(SUBSTITUTIONS))
    np.testing.assert_allclose(substitutions[0, 1], 0.1 / 0.06 * 0.05)


def test_symbols_can_be_replaced_and_the_parameter_is_enough():
    known = EditDistance(alphabet="ab")
    known.operations_ = OPERATIONS
    assert known.symbols_ == ["a", "b"]
    with pytest.raises(ValueError, match="symbols_ must be those of the parameter alphabet"):
        known.symbols_ = ["b", "a"]
    other = EditDistance.from_parameters(symbols="ab", **FULL)
    before = other.distance("b", "b")
    other.symbols_ = ["c", "b"]
    assert other.symbols_ == ["c", "b"] and other.distance("b", "b") == before
    np.testing.assert_allclose(other.distance("a", ""), -np.log(END * DELETIONS[2]))

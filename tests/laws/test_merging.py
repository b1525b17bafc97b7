"""What holds for every model and every estimator that is merged with others."""

import copy
import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from cases.chains import CHAINS, ChainCase
from cases.comparing import assert_close
from cases.coordinates import coordinates, minimiser
from cases.dynamical import DYNAMICAL
from cases.estimator_cases import ESTIMATORS, by_likelihood
from cases.family_cases import case_of
from cases.merged_cases import EXACT, MERGED, NUMBERED, REGULAR, REPRESENTATIVES
from cases.mixture_cases import MIXTURES
from cases.streams import AT_ONCE
from cases.transducers import TRANSDUCERS
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from benchmarks.papers import unequal_sites
from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    MergeWarning,
    MultinomialMixture,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem._values import average, take
from sklearn_onlineem.em.schedules import PowerDecayInRows
from sklearn_onlineem.families import Poisson
from sklearn_onlineem.models.hidden_markov.durations import CategoricalDurations
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel
from sklearn_onlineem.models.hidden_markov.semi_markov import HiddenSemiMarkovModel
from sklearn_onlineem.models.mixtures.mixture import MixtureModel
from sklearn_onlineem.models.terminations import AbsorbingStates
from sklearn_onlineem.statistics import combine

FREELY = CategoricalDurations()
NUMBERED_MODELS = [*MIXTURES, *CHAINS]
# Gaps are of data, not of models.
MODELS = [*NUMBERED_MODELS, *(case for case in DYNAMICAL if not case.missing), *TRANSDUCERS]


def lasting(case):
    """Numerical minimisation takes its time where a family's divergence does."""
    return case if case.is_quick else pytest.param(case, marks=pytest.mark.slow)


numbered_models = pytest.mark.parametrize("case", NUMBERED_MODELS, ids=repr)
all_estimators = pytest.mark.parametrize("case", MERGED, ids=repr)
without_priors = pytest.mark.parametrize("case", by_likelihood(MERGED), ids=repr)
representatives = pytest.mark.parametrize("case", REPRESENTATIVES, ids=repr)
numbered_estimators = pytest.mark.parametrize("case", NUMBERED, ids=repr)
all_methods = pytest.mark.parametrize("method", ["entropic", "averaging"])


# ---------------------------------------------------------------------------------------- models


# Tables of durations that move freely are categorical.
FREE = [case for case in MODELS if isinstance(getattr(case, "durations", FREELY), type(FREELY))]


@pytest.mark.parametrize("case", [lasting(case) for case in FREE], ids=repr)
def test_the_merged_model_is_the_argmin_of_the_divergences_to_it(case, rng):
    members, shares = [case.draw(rng, 2, 2) for _ in range(2)], [0.7, 0.3]
    lengths = [case.data(rng, 5).length_distribution for _ in members]
    own = [m.own_statistics(law) for m, law in zip(members, lengths, strict=True)]
    merged = members[0].m_step(combine(zip(shares, own, strict=True)))
    space = coordinates(case, members[0])

    def objective(vector):
        new = space.decode(vector)
        return sum(
            share * m.kl_divergence(new, law)
            for share, m, law in zip(shares, members, lengths, strict=True)
        )

    found = space.decode(minimiser(objective, space.encode(members[0])))
    assert_close(space.identified(merged), space.identified(found), rtol=1e-6, atol=1e-6)


@numbered_models
def test_a_renumbered_model_is_aligned_to_what_it_was(case, rng):
    model = case.draw(rng, 4, 3)
    like = case.data(rng, 20, 3).length_distribution
    order = np.array([2, 0, 1, 3])  # an absorbing state is the last
    shuffled = renumbered(model, order)
    assert_close(shuffled.aligned_to(model, like), model, rtol=0.0, atol=0.0)
    assert model.aligned_to(model, like) is model


def renumbered(model, order):
    parameters = take(model.parameters, order)
    if isinstance(model, MixtureModel):
        return MixtureModel(model.family, model.weights[order], parameters)
    columns = np.append(order, np.arange(len(order), model.transmat.shape[1]))
    transmat = np.ascontiguousarray(model.transmat[np.ix_(order, columns)])
    start = model.start[order]
    lasting = {"table": model.table[order]} if isinstance(model, HiddenSemiMarkovModel) else {}
    return replace(model, start=start, transmat=transmat, parameters=parameters, **lasting)


def test_alignment_keeps_absorbing_states_absorbing(rng):
    """Even where another state emits what the reference's absorbing state does."""
    case = ChainCase(case_of(Poisson), AbsorbingStates)
    reference = case.draw(rng, 3, 1)
    model = renumbered(reference, np.arange(3))
    swapped = take(model.parameters, np.array([2, 0, 1]))
    model = HiddenMarkovModel(model.family, model.start, model.transmat, swapped, model.termination)
    assert_allclose(model.aligned_to(reference).transmat[-1], [0.0, 0.0, 1.0])


# ------------------------------------------------------------------------------------ estimators


def batches(case, rng, n, n_batches, n_first=60):
    """Batches of one stream, the first of them large enough to start from."""
    X, _ = case.data(rng, n_first + n * n_batches)
    cuts = [n_first + i * n for i in range(n_batches + 1)]
    return [X[: cuts[0]], *(X[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True))]


def apart(case, rng, n_members=3, **arguments):
    """Members that a common start was given to and that have learnt apart, unequally much."""
    start, *rest = batches(case, rng, 20, 2 * n_members)
    common = case(**{"solver": AT_ONCE, **arguments}).partial_fit(start)
    members = [copy.deepcopy(common) for _ in range(n_members)]
    for i, batch in enumerate(rest):
        members[i * i % n_members].partial_fit(batch)
    return members


@without_priors
@all_methods
def test_identical_models_merge_into_themselves(case, method, rng):
    one = apart(case, rng, 1)[0]
    merged = combine_estimators([one, copy.deepcopy(one), copy.deepcopy(one)], method=method)
    assert_close(merged.model_, one.model_, rtol=1e-10)
    assert type(merged) is type(one)
    assert merged.n_samples_seen_ == 3 * one.n_samples_seen_
    assert merged.n_steps_ == 3 * one.n_steps_


@all_estimators
@all_methods
def test_merging_is_associative(case, method, rng):
    a, b, c = apart(case, rng)

    def merge(*members):
        return combine_estimators(members, method=method)

    at_once = merge(a, b, c)
    for nested in (merge(merge(a, b), c), merge(a, merge(b, c))):
        assert_close(nested.model_, at_once.model_, rtol=1e-10)
        assert nested.n_samples_seen_ == at_once.n_samples_seen_


@without_priors
def test_entropic_merging_is_the_m_step_of_the_own_statistics(case, rng):
    members = apart(case, rng)
    weights = [0.2, 3.0, 1.0]
    own = [m.model_.own_statistics(m._fitted.state.lengths) for m in members]
    expected = members[0].model_.m_step(combine(zip(weights, own, strict=True)))
    assert_close(combine_estimators(members, weights).model_, expected, rtol=1e-10)


@representatives
def test_a_member_of_weight_0_only_counts_its_rows(case, rng):
    members = apart(case, rng)
    merged = combine_estimators(members, [1.0, 0.0, 0.0])
    assert_close(merged.model_, members[0].model_, rtol=1e-10)
    assert merged.n_samples_seen_ == sum(m.n_samples_seen_ for m in members)


@representatives
def test_a_merged_estimator_learns_on_also_after_pickling(case, rng):
    X = case.data(rng, 40)[0]
    merged = combine_estimators(apart(case, rng))
    loaded = pickle.loads(pickle.dumps(merged))
    n_seen = merged.n_samples_seen_
    assert math.isnan(merged.lower_bound_)
    assert_close(merged.partial_fit(X).model_, loaded.partial_fit(X).model_, rtol=0.0, atol=0.0)
    assert merged.n_samples_seen_ == n_seen + 40
    assert math.isfinite(merged.score(X)) and math.isfinite(merged.lower_bound_)
    # The past does not count: it merges as what it is now.
    assert_close(combine_estimators([merged]).model_, merged.model_, rtol=1e-10)


@numbered_estimators
def test_members_that_do_not_correspond_are_aligned_by_themselves(case, rng):
    a, b, c = apart(case, rng)
    expected = {align: combine_estimators([a, b, c], align=align) for align in (True, "auto")}
    assert expected["auto"].aligned_members_ == [False, False, False]
    unaligned = combine_estimators([a, b, c], align=False)
    assert_close(unaligned.model_, expected["auto"].model_, rtol=0.0)
    state = b._fitted.state
    model = renumbered(state.model, np.array([1, 2, 0]))
    b._fitted = b._fitted._replace(state=state._replace(model=model))
    for align, merged in expected.items():
        found = combine_estimators([a, b, c], align=align)
        assert_close(found.model_, merged.model_, rtol=1e-10)
    assert found.aligned_members_ == [False, True, False]


@all_estimators
def test_members_merge_before_their_starts_are_final(case, rng):
    """The merged estimator has none of their rows, and learns on by online steps."""
    X = case.data(rng, 36)[0]
    members = [case().partial_fit(part) for part in (X[:6], X[6:20], X[20:22])]
    kept = [member.n_rows_kept_ for member in members]
    merged = combine_estimators(members)
    assert merged.n_rows_kept_ == 0 and merged._fitted.state.carry == {}
    assert [member.n_rows_kept_ for member in members] == kept
    seen = [member._fitted.state.counters.n_rows for member in members]
    assert (merged.n_samples_seen_, merged._fitted.state.counters.n_rows) == (22, sum(seen))
    assert math.isfinite(merged.partial_fit(X[22:]).score(X))
    assert merged.history_[-1].eta < math.inf
    assert merged.n_steps_ == sum(member.n_steps_ for member in members) + 1


@pytest.mark.parametrize("is_equal", [True, False], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", unequal_sites.CASES)
def test_a_merge_warns_of_sites_that_have_other_components(name, is_equal):
    """As in the benchmark, from which its thresholds are."""
    warned, harm = unequal_sites.merged(name, 1000, is_equal, False, 1)
    assert (warned, harm > 0.02) == (not is_equal, not is_equal)


def test_the_warning_of_a_merge_says_which_members_have_no_partner_and_what_to_do(rng):
    def site(*centres):
        rows = rng.normal(np.repeat(centres, 200))[:, None]
        return GaussianMixture(2, means_init=np.reshape(centres, (2, 1))).fit(rows)

    sites = [site(0.0, 10.0), site(0.0, 10.0), site(0.0, 30.0)]
    for method in ("entropic", "averaging", "sampled"):
        with pytest.warns(MergeWarning, match=r"estimators\[2\] by \d.*align=False"):
            combine_estimators(sites, method=method)
    known = [
        PoissonMixture.from_parameters(weights=[0.5, 0.5], means=[[1.0], [mean]])
        for mean in (20.0, 70.0)
    ]
    with pytest.warns(MergeWarning, match=r"estimators\[0\] by .*estimators\[1\] by"):
        combine_estimators(known, weights=[1.0, 1.0])
    levels = [X + level for level in (0.0, 99.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", MergeWarning)
        combine_estimators(sites, align=False)
        combine_estimators(sites, weights=[1.0, 1.0, 0.0])
        # Shares may differ, one component has nothing to be fused with, and states have no number.
        combine_estimators([sites[0], site(0.0, 10.0).partial_fit(rng.normal(size=(900, 1)))])
        for make in (GaussianMixture, KalmanFilter):
            combine_estimators([make(1, random_state=0).fit(rows) for rows in levels])


def test_names_of_features_are_those_of_the_members_that_have_any():
    pd = pytest.importorskip("pandas")
    named = fitted(PoissonMixture, 2, rows=pd.DataFrame(X, columns=list("abc")))
    plain = fitted(PoissonMixture, 2)
    for members in ([named, plain], [plain, named], [plain, named, plain]):
        merged = combine_estimators(members)
        assert merged.feature_names_in_.tolist() == ["a", "b", "c"]
        assert combine_estimators([merged, plain]).feature_names_in_.tolist() == ["a", "b", "c"]
    assert not hasattr(combine_estimators([plain, plain]), "feature_names_in_")
    other = fitted(PoissonMixture, 2, rows=pd.DataFrame(X, columns=list("acb")))
    message = r"estimators\[2\].*feature_names_in_=\['a', 'c', 'b'\].*estimators\[1\].*\['a', 'b'"
    with pytest.raises(ValueError, match=message):
        combine_estimators([plain, named, other])


@pytest.mark.parametrize("rates", [{"schedule": "constant", "eta0": 0.3}, {}], ids=str)
@pytest.mark.parametrize("case", by_likelihood(REGULAR), ids=repr)
def test_merging_after_every_step_is_one_machine_with_the_pooled_batch(case, rates, rng):
    # Floors of what no row has shown add up otherwise, so the first batch shows everything.
    start, *rest = batches(case, rng, 5, 3 * 4, n_first=1000)
    single = case(solver=AT_ONCE, **rates).partial_fit(start)
    merged = copy.deepcopy(single)
    for i in range(0, len(rest), 3):
        machines = [copy.deepcopy(merged).partial_fit(batch) for batch in rest[i : i + 3]]
        # Copies of a merged estimator tell what they continue.
        merged = combine_estimators(machines, base=merged if i == 0 else None)
        single.partial_fit(pooled(rest[i : i + 3]))
    assert_close(merged.model_, single.model_, rtol=1e-10)
    of_both = [one._fitted.state.counters for one in (merged, single)]
    for name in ("n_seen", "n_rows", "size"):
        assert_allclose(*(getattr(counters, name) for counters in of_both))


# Laplace components have no statistics of a fixed size, of which a part could be taken off.
IN_ROUNDS = [case for case in REPRESENTATIVES if "Laplace" not in repr(case)]


def in_a_round(case, rng):
    """A merged estimator, and three members that have continued it."""
    start, *rest = batches(case, rng, 20, 3)
    # A model counts for so many rows, however many members there are.
    rates = PowerDecayInRows(rows_needed=50.0, beta=0.0)
    base = combine_estimators([case(solver=AT_ONCE, schedule=rates).partial_fit(start)])
    return base, [copy.deepcopy(base).partial_fit(batch) for batch in rest]


# Priors count for the rows of all members.
@pytest.mark.parametrize("case", by_likelihood(IN_ROUNDS), ids=repr)
def test_a_member_of_weight_0_is_left_out_of_a_round(case, rng):
    _, members = in_a_round(case, rng)
    found = combine_estimators(members, weights=[0.0, 3.0, 0.0])
    assert_close(found.model_, members[1].model_, rtol=1e-8)


@pytest.mark.parametrize("case", IN_ROUNDS, ids=repr)
def test_rounds_may_be_merged_in_parts(case, rng):
    """What members continue counts once, also beside members that have learnt nothing since."""
    base, (a, b, c) = in_a_round(case, rng)
    at_once = combine_estimators([a, b, c, base])
    assert at_once.n_samples_seen_ == base.n_samples_seen_ + 60
    assert at_once.n_steps_ == base.n_steps_ + 3
    for parts in ([combine_estimators([a, b]), c], [a, combine_estimators([b, c], base=base)]):
        found = combine_estimators(parts)
        assert_close(found.model_, at_once.model_, rtol=1e-8)
        assert found.n_samples_seen_ == at_once.n_samples_seen_
    assert combine_estimators([base, base]).n_samples_seen_ == base.n_samples_seen_
    alone = combine_estimators([a, base, copy.deepcopy(base)], weights=[1.0, 2.0, 0.0])
    assert_close(alone.model_, a.model_, rtol=1e-8)
    averaged = combine_estimators([a, b, c], method="averaging")
    assert averaged.n_samples_seen_ == at_once.n_samples_seen_
    expected = average([member.model_ for member in (a, b, c)], np.full(3, 1.0 / 3.0))
    assert_close(averaged.model_, expected, rtol=1e-8)


def test_members_that_have_made_their_start_anew_are_aligned_in_rounds(rng):
    X = 6.0 * rng.integers(0, 3, (400, 2)) + rng.standard_normal((400, 2))
    base = GaussianMixture(3, random_state=0).partial_fit(X[:100])
    members = [copy.deepcopy(base).partial_fit(part) for part in np.split(X[100:], 3)]
    expected = combine_estimators(members, base=base)
    state = members[1]._fitted.state
    model = renumbered(state.model, np.array([1, 2, 0]))
    members[1]._fitted = members[1]._fitted._replace(state=state._replace(model=model))
    found = combine_estimators(members, base=base)
    assert_close(found.model_, expected.model_, rtol=1e-10)


@pytest.mark.parametrize("make", [GaussianMixture, GaussianHMM, KalmanFilter])
def test_rounds_follow_a_source_as_one_stream_does(make, rng):
    """Also where it moves away, and statistics of chains are not those of their M-step."""

    def rows(n, level):
        X = level + rng.standard_normal((n, 2))
        return X if make is GaussianMixture else [*np.split(X, n // 10)]

    stream = merged = make(1, random_state=0, solver=AT_ONCE).partial_fit(rows(200, 0.0))
    stream = copy.deepcopy(stream)
    for level in 10 * [0.0] + 5 * [50.0]:
        parts = [rows(60, level) for _ in range(4)]
        sites = [copy.deepcopy(merged).partial_fit(part) for part in parts]
        merged = combine_estimators(sites, base=merged)
        stream.partial_fit(pooled(parts))
    assert merged.n_samples_seen_ == stream.n_samples_seen_
    X = rows(200, 50.0)
    n_rows = 200 / len(X)
    assert merged.score(X) > stream.score(X) - 0.1 * n_rows
    state = merged._fitted.state
    assert_allclose(state.counters.size, stream._fitted.state.counters.size)


@pytest.mark.parametrize("case", [case for case in ESTIMATORS if case.regular], ids=repr)
def test_passes_from_one_start_merge_into_the_pass_on_all_rows(case, rng):
    """With the default priors, which count once, however many members there are."""
    X = case.data(rng)[0]

    def passed(rows):
        start = case(max_iter=0, solver="batch", warm_start=True).fit(X)
        with pytest.warns(ConvergenceWarning):
            return start.set_params(max_iter=1).fit(rows)

    members = [passed(rows) for rows in np.split(X, [40, 150, 190, 192])]
    merged = combine_estimators(members)
    assert_close(merged.model_, passed(X).model_, rtol=1e-8)
    nested = combine_estimators([combine_estimators(members[:3]), *members[3:]])
    assert_close(nested.model_, merged.model_, rtol=1e-8)


def test_a_smoothing_prior_counts_once(rng):
    X = rng.poisson(np.append(np.full(5, 2.0), 0.0), (60, 6)).astype(float)
    members = [MultinomialMixture(1, solver="batch").fit(rows) for rows in np.split(X, 20)]
    found = combine_estimators(members)
    counts = X.sum(axis=0) + 0.5
    assert_allclose(found.probabilities_[0], counts / counts.sum(), rtol=1e-12)
    members[0].set_params(prior=None).fit(X[:3])
    assert combine_estimators(members).probabilities_[0, -1] < 1e-6


def pooled(parts):
    return sum(parts, []) if isinstance(parts[0], list) else np.concatenate(parts)


# EM sees no density of inputs, and samples have some.
@pytest.mark.parametrize("case", [c for c in EXACT if not getattr(c, "n_before", 0)], ids=repr)
def test_sampled_merging_comes_close_to_the_exact_one(case, rng):
    members = apart(case, rng)
    exact = combine_estimators(members).model_

    def sampled(n):
        arguments = {"method": "sampled", "n_pseudo_samples": n, "random_state": 0}
        return combine_estimators(members, **arguments).model_

    assert exact.kl_divergence(sampled(20_000), members[0]._fitted.state.lengths) < 0.02
    assert_close(sampled(500), sampled(500), rtol=0.0, atol=0.0)


def test_lengths_are_those_that_each_member_has_learnt_from(rng):
    sequences = [rng.standard_normal((length, 1)) for length in (3, 8, 1, 5, 5, 9)]
    hmm = GaussianHMM(2, random_state=0).partial_fit(sequences[:2])
    base = copy.deepcopy(hmm.partial_fit(sequences[2:3]))
    sites = [copy.deepcopy(hmm).partial_fit(part) for part in (sequences[3:4], sequences[4:])]
    hmm.partial_fit(sequences[3:])
    expected = [np.mean([len(s) > t for s in sequences]) for t in range(9)]
    for found in (hmm, combine_estimators(sites, base=base)):
        assert_allclose(found._fitted.state.lengths.survival, expected, rtol=1e-12)


# ---------------------------------------------------------------------------------------- errors

X = np.random.default_rng(0).poisson(4.0, (50, 3)).astype(float)


def fitted(make, *arguments, rows=X, **keywords):
    return make(*arguments, random_state=0, **keywords).partial_fit(rows)

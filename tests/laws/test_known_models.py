"""Fitted attributes that users set: each alone, all together, in any order, and what goes on."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.merged_cases import KNOWN, SINGLE, TOPICS
from cases.row_regressions import REGRESSIONS
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_onlineem import (
    CompoundDirichlet,
    LatentDirichletAllocation,
    MultinomialHMM,
    combine_estimators,
)
from sklearn_onlineem.estimators._known import (
    _OF_CHAINS,
    _letters,
    _said,
    _settables,
    missing_names,
)

# No attribute shows the lengths of their rows, which are not modelled.
OF_ANY_LENGTH = (CompoundDirichlet, LatentDirichletAllocation, MultinomialHMM)

all_estimators = pytest.mark.parametrize("case", [*KNOWN, *REGRESSIONS], ids=repr)


def fitted(case, rng, **arguments):
    X, _ = case.data(rng)
    return case(max_iter=3, tol=0.0, **arguments).fit(X), X


def values_of(estimator):
    """All fitted attributes that can be set, of this model."""
    values = {}
    for name in _settables(type(estimator)):
        try:
            values[name] = getattr(estimator, name)
        except AttributeError:  # as the end of sequences whose lengths are given
            continue
    return values


def made_of(case, values, order=None, **arguments):
    estimator = case(**arguments)
    for name in order or values:
        setattr(estimator, name, values[name])
    return estimator


def answers(estimator, X):
    found = {"score": estimator.score(X), "scores": estimator.score_samples(X)}
    for name in ("predict", "predict_proba", "transform", "bic", "aic"):
        if hasattr(estimator, name):
            found[name] = getattr(estimator, name)(X)
    if not isinstance(estimator, OF_ANY_LENGTH):
        found["sample"] = estimator.sample(20)
    return found


def assert_close(ours, theirs, rtol=1e-6):
    if isinstance(ours, list | tuple):
        for own, other in zip(ours, theirs, strict=True):
            assert_close(own, other, rtol)
    elif isinstance(ours, str):
        assert ours == theirs
    else:
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-7)


@all_estimators
def test_an_attribute_that_is_set_to_its_own_value_changes_nothing(case, rng):
    estimator, X = fitted(case, rng)
    before, values = estimator._fitted, values_of(estimator)
    assert values
    for name, value in values.items():
        setattr(estimator, name, value)
        assert estimator._fitted is before
    single = case(max_iter=1).fit(_in_single(X))
    before = single._fitted
    for name, value in values_of(single).items():
        setattr(single, name, value)
        assert single._fitted is before


def _in_single(X):
    if isinstance(X, list):
        # Strings have no precision.
        return [X[0]] if isinstance(X[0], tuple) else [part.astype(np.float32) for part in X]
    return X.astype(np.float32)


@all_estimators
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_attributes_of_a_fitted_model_make_the_same_model_in_any_order(case, turn, rng):
    estimator, X = fitted(case, rng)
    values, groups = values_of(estimator), {}
    for name in values:
        groups.setdefault(_settables(type(estimator))[name].determines, []).append(name)
    # Of several attributes of one part, each turn sets another.
    order = [names[turn % len(names)] for names in groups.values()]
    if turn:
        rng.shuffle(order)
    known = made_of(case, values, order)
    assert known.n_samples_seen_ == known.n_steps_ == 0 and len(known.history_) == 0
    for name, value in values.items():
        assert_close(_arrays(getattr(known, name)), _arrays(value))
    assert_close([*answers(known, X).values()], [*answers(estimator, X).values()])


def _arrays(value):
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, tuple | list):
        return [*value]
    return [_arrays(x) if hasattr(x, "__dict__") else x for x in [*vars(value).values()][:2]]


@all_estimators
def test_before_the_last_attribute_methods_say_which_are_missing(case, rng):
    estimator, X = fitted(case, rng)
    known, values = case(), values_of(estimator)
    for name, value in values.items():
        assert not known.__sklearn_is_fitted__()
        if getattr(known, "_given", {}):
            missing = missing_names(known, known._given)
            for call in (known.score, known.partial_fit, known.score_samples):
                with pytest.raises(NotFittedError, match=missing.split(" ")[0]):
                    call(X)
            with pytest.raises(NotFittedError, match=missing.split(" ")[0]):
                known.sample()
            known.warm_start = True
            with pytest.raises(NotFittedError, match="not fitted"):
                known.fit(X)
        setattr(known, name, value)
        assert_close(_arrays(getattr(known, name)), _arrays(value))
        if known.__sklearn_is_fitted__():
            break
    assert known.__sklearn_is_fitted__()
    assert np.isfinite(known.score(X))


@all_estimators
def test_half_set_estimators_are_pickled_copied_and_cloned(case, rng):
    estimator, X = fitted(case, rng)
    values = values_of(estimator)
    first, *rest = values
    half = made_of(case, {first: values[first]})
    if half.__sklearn_is_fitted__():
        assert rest == []
        return
    for other in (pickle.loads(pickle.dumps(half)), copy.deepcopy(half)):
        for name in rest:
            setattr(other, name, values[name])
        np.testing.assert_allclose(other.score(X), estimator.score(X), rtol=1e-6)
    assert not hasattr(clone(half), "_given")
    with pytest.raises(AttributeError, match="not fitted"):
        getattr(clone(half), first)
    # A fit forgets what was set.
    with pytest.warns(UserWarning, match=f"fit starts anew, and does not use {first}"):
        half.fit(X)
    assert half.__sklearn_is_fitted__() and not hasattr(half, "_given")


@all_estimators
def test_invalid_values_are_refused_and_change_nothing(case, rng):
    estimator, X = fitted(case, rng)
    before = answers(estimator, X)
    for name, value in values_of(estimator).items():
        if not isinstance(value, np.ndarray):
            invalid = [None, "abc"]
        else:
            holes = value.copy()
            holes.ravel()[0] = np.nan
            # Offsets of one column that vary in time have one more axis.
            deeper = value[..., None, None] if name == "observation_offsets_" else value[..., None]
            invalid = [holes, deeper, "abc", np.full_like(value, np.inf)]
            invalid += [-value] if _is_bounded(name) else []
            if name.endswith(SHARES) and not name.startswith(PARTS):
                invalid.append(2.0 * value / min(1.0, value.sum(axis=-1).max()))
        targets = [(wrong, case()) for wrong in invalid]
        if isinstance(value, np.ndarray):
            # Before first data it may have any columns.
            invalid.append(np.concatenate([value, value]))
        targets += [(wrong, estimator) for wrong in invalid]
        for wrong, target in targets:
            state = dict(vars(target))
            with pytest.raises(ValueError, match=f"{type(target).__name__}.*{name}"):
                setattr(target, name, wrong)
            assert {**vars(target), "_mutex": 0} == {**state, "_mutex": 0}
    for own, other in zip(answers(estimator, X).values(), before.values(), strict=True):
        assert_identical(own, other)


SHARES = ("weights_", "startprob_", "transmat_", "emissionprob_", "probabilities_")
# Shares of a whole that other attributes have the rest of.
PARTS = ("substitution", "deletion", "insertion")


def _is_bounded(name):
    free = ("means_", "locations_", "matrices_", "offsets_", "mean_", "parameters_")
    free += ("coef_", "intercept_")
    return not name.endswith(free)


@all_estimators
def test_streams_and_warm_starts_go_on_from_a_known_model(case, rng):
    estimator, X = fitted(case, rng)
    values = values_of(estimator)
    known = made_of(case, values).set_params(schedule="constant", eta0=1e-9)
    known.partial_fit(X)
    assert known.n_steps_ == 1 and known.n_samples_seen_ == len(X)
    # A model of this weight hardly moves.
    np.testing.assert_allclose(known.score(X), estimator.score(X), rtol=1e-5)
    # Bounds of topic models depend on the solver.
    known = made_of(case, values, warm_start=True, max_iter=1, solver="batch", tol=0.0)
    start = known.score(X)
    known.fit(X)
    assert known.n_iter_ == 1
    np.testing.assert_allclose(known.lower_bounds_[0], start, rtol=1e-6)
    # Near the maximum of likelihood and prior, the likelihood may fall a little.
    assert known.score(X) >= start - 1e-6 * abs(start)


@all_estimators
def test_what_is_set_on_a_fitted_estimator_keeps_counts(case, rng):
    estimator, X = fitted(case, rng)
    other = case(max_iter=1, tol=0.0).fit(X)
    counts = estimator.n_samples_seen_, estimator.n_steps_, estimator.n_iter_
    values = values_of(other)
    for name in rng.permutation([*values]):
        setattr(estimator, name, values[name])
        assert_close(_arrays(getattr(estimator, name)), _arrays(values[name]))
    assert (estimator.n_samples_seen_, estimator.n_steps_, estimator.n_iter_) == counts
    assert_close([*answers(estimator, X).values()], [*answers(other, X).values()])
    estimator.partial_fit(X)
    assert estimator.n_samples_seen_ == counts[0] + len(X)


@all_estimators
def test_class_methods_make_fitted_estimators(case, rng):
    estimator, X = fitted(case, rng)
    values = {name.removesuffix("_"): value for name, value in values_of(estimator).items()}
    settings = {
        name: value
        for name, value in case().get_params(deep=False).items()
        # The matrices of a structure are among the values.
        if value is not None and name not in ("n_components", "n_dim_state", "structure")
        # Arrays of both names are start values there.
        if not (isinstance(value, np.ndarray) and name in values)
    }
    # If a name is both, numbers are parameters, and arrays attributes of components.
    both = {name for name in values if isinstance(settings.get(name), str)}
    settings = {name: value for name, value in settings.items() if name not in both}
    values = {
        name: np.asfortranarray(value) if isinstance(value, np.ndarray) else value
        for name, value in values.items()
        if name not in settings
    }
    known = type(estimator).from_parameters(**settings, **values)
    ours, theirs = answers(known, X), answers(estimator, X)
    # Without its structure all that a filter has is a parameter.
    counts_differ = both or case.is_diffuse
    compared = [name for name in ours if not (counts_differ and name in ("bic", "aic"))]
    assert_close([ours[name] for name in compared], [theirs[name] for name in compared])
    for name in ("n_components", "n_dim_state"):
        if getattr(estimator, name, None) is not None:
            assert getattr(known, name) == getattr(estimator, name)
    with pytest.raises(TypeError, match=type(estimator).__name__):
        type(estimator).from_parameters(**settings, **values, colour="red")
    name = next(iter(values))
    with pytest.raises(TypeError, match=f"takes {name}_ by the name '{name}'"):
        type(estimator).from_parameters(**{f"{name}_": values[name]})
    # Masks are of arrays that are missing.
    message = "params" if isinstance(settings.get("params"), dict) else "from_parameters needs"
    with pytest.raises(ValueError, match=message):
        type(estimator).from_parameters(**settings)


def letters_of(case):
    """What `params` of a case may have masks of, and the letters that learn it."""
    letters = _letters(case.make).items() if isinstance(getattr(case(), "params", 0), str) else ()
    return {name: own for name, own in letters if name != "durationprob" or case().durations}


learnt_parts = pytest.mark.parametrize(
    ("case", "name"),
    [
        pytest.param(case, name, id=f"{case!r}-{name}")
        for case in (*KNOWN, *REGRESSIONS)
        for name in letters_of(case)
    ],
)


@learnt_parts
def test_what_params_fix_stays_and_the_rest_is_learnt(case, name, rng):
    (estimator, _), (X, y) = fitted(case, rng), case.data(rng)
    # Of clusters of other sizes.
    X = X[:-7] if isinstance(X, list) else X[np.arange(len(X)) % (y + 2) > 0]
    values, lines = values_of(estimator), _settables(case.make)
    kinds, own = "k", components_shown(estimator, values)
    if name != case.make._whole[0]:
        kinds, own = _said(lines[f"{name}_"].masks, case()) or "", {f"{name}_"} & values.keys()
    masks = [False] * bool(own) + [np.arange(estimator.n_components) > 0] * ("k" in kinds.split())
    shapes = [
        np.shape(values[line]) for line in own if np.ndim(values[line]) == len(kinds[-2:]) > 1
    ]
    masks += [np.arange(np.prod(shape)).reshape(shape) % 3 > 0 for shape in shapes]
    for mask, learn in product(masks, ("fit", "partial_fit")):
        known = made_of(case, values, params={name: mask}, warm_start=True, max_iter=1, tol=0.0)
        before = {line: getattr(known, line) for line in values}
        getattr(known.set_params(solver="batch"), learn)(X)
        after = {line: getattr(known, line) for line in values}
        for line in own:
            is_learnt = mask & np.ones(np.shape(mask) or len(before[line]), bool)
            assert_allclose(after[line][~is_learnt], before[line][~is_learnt], rtol=1e-13)
            assert not is_learnt.any() or (after[line] != before[line])[is_learnt].any()
        assert any(not np.array_equal(after[line], before[line]) for line in values)


@learnt_parts
def test_letters_are_masks_of_all_or_nothing(case, name, rng):
    (estimator, X), letters = fitted(case, rng), letters_of(case)
    params = "".join(set("".join(letters.values())) - set(letters[name]))
    masks = {part: not own or not set(own).isdisjoint(params) for part, own in letters.items()}
    values, learns = values_of(estimator), {"warm_start": True, "max_iter": 1, "solver": "batch"}
    models = [made_of(case, values, params=p, **learns).fit(X).model_ for p in (params, masks)]
    assert_identical(*models)


def components_shown(estimator, values):
    """Attributes that show parameters of each component by itself, but for means."""
    lines, parts = _settables(type(estimator)), estimator._parts()
    axes = {line: _said(lines[line].axes_in(parts), value) or "" for line, value in values.items()}
    shown = {line for line, letters in axes.items() if letters.startswith("k")}
    of_chains = {f"{part}_" for part in (*_OF_CHAINS, "endprob", "means")}
    return {line for line in shown - of_chains if np.ptp(values[line], axis=0).any()}


# Sequences have lengths, which are unknown before first data.
@pytest.mark.parametrize("case", [*ESTIMATORS, *SINGLE, *TOPICS, *REGRESSIONS], ids=repr)
def test_known_models_merge(case, rng):
    estimator, X = fitted(case, rng)
    known = made_of(case, values_of(estimator))
    merged = combine_estimators([known, known], weights=[1.0, 3.0])
    np.testing.assert_allclose(merged.score_samples(X), known.score_samples(X), rtol=1e-7)

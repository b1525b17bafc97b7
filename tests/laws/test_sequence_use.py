"""What holds for every estimator of sequences in use."""

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.sequence_cases import all_estimators, all_models
from numpy.testing import assert_allclose
from sklearn.base import clone


@all_estimators
def test_consistency_of_what_a_fitted_model_gives(case, rng):
    X, _ = case.data(rng)
    hmm = case().fit(X)
    posterior, filtered = hmm.predict_proba(X), hmm.filter(X)
    for one in (*posterior, *filtered):
        assert_allclose(one.sum(axis=1), 1.0, rtol=1e-9)
    for smoothed, past in zip(posterior, filtered, strict=True):
        if not case.ends_by_itself:
            assert_allclose(smoothed[-1], past[-1], rtol=1e-9, atol=1e-12)
    assert_identical(hmm.transform(X), posterior)
    assert_identical(clone(hmm).fit_predict(X), hmm.predict(X))
    assert hmm.score(X) == pytest.approx(hmm.score_samples(X).mean(), rel=1e-12)
    by_row = hmm.decode(X, algorithm="map")[1]
    assert_identical(by_row, [one.argmax(axis=1) for one in posterior])
    assert_identical(clone(hmm).set_params(algorithm="map").fit(X).predict(X), by_row)
    log_probability, paths = hmm.decode(X)
    assert_identical(paths, hmm.predict(X))
    assert log_probability <= hmm.score_samples(X).sum() + 1e-9
    assert hmm.aic(X) < hmm.bic(X)
    with pytest.raises(ValueError, match="algorithm"):
        hmm.decode(X, algorithm="best")
    assert_allclose(hmm.startprob_.sum(), 1.0)
    ends = hmm.endprob_ if case.ends_by_itself else 0.0
    assert_allclose(hmm.transmat_.sum(axis=1) + ends, 1.0)
    assert hasattr(hmm, "endprob_") == case.ends_by_itself


@all_models
def test_samples(case, rng):
    X, _ = case.data(rng)
    hmm = case().fit(X)
    drawn, states = hmm.sample(7, n_sequences=4)
    assert [len(part) for part in drawn] == [len(part) for part in states]
    if not case.ends_by_itself:
        assert {len(part) for part in drawn} == {7}
        assert hmm.sample(7)[0].shape == (7, X[0].shape[1])
    assert np.isfinite(hmm.score_samples(drawn)).all()
    again = hmm.sample(7, n_sequences=4)
    assert_identical(again, (drawn, states))
    for wrong in ({"n_samples": 0}, {"n_sequences": 0}):
        with pytest.raises(ValueError, match=f"n_s.*{type(hmm).__name__}"):
            hmm.sample(**wrong)

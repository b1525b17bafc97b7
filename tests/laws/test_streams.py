"""Any estimator of the library in a pipeline of streams, and in a search over its settings."""

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.merged_cases import MERGED
from cases.states import state_of

from sklearn_onlineem import PrequentialSearch, StreamPipeline


@pytest.mark.parametrize("case", MERGED, ids=repr)
def test_a_stream_is_learnt_as_by_hand(case, rng):
    X, _ = case.data(rng, 60)
    chunks = [X[begin : begin + 20] for begin in (0, 20, 40)]
    model, scores = case(), []
    for chunk in chunks:
        if model.__sklearn_is_fitted__():
            scores.append(model.score(chunk))
        model.partial_fit(chunk)
    stream = StreamPipeline([("model", case())]).fit_stream(iter(chunks))
    assert_identical(state_of(stream["model"]), state_of(model))
    np.testing.assert_allclose(stream.prequential_scores_, [np.nan, *scores], rtol=1e-12)
    np.testing.assert_allclose(stream.prequential_score_, np.mean(scores), rtol=1e-12)
    search = PrequentialSearch(case(), {"eta0": ["auto", 1e-3]}, n_jobs=2).fit_stream(chunks)
    assert_identical(state_of(search.estimators_[0]), state_of(model))
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"][0], np.mean(scores), rtol=1e-12
    )

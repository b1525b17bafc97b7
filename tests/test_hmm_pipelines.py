"""Sequences through scikit-learn's pipelines and splitters."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import GaussianHMM, PerSequence


@pytest.fixture
def sequences():
    rng = np.random.default_rng(0)
    return [100.0 + 30.0 * rng.normal(size=(n, 2)).cumsum(axis=0) for n in (20, 35, 25, 30, 15, 40)]


def test_lists_and_routed_groups_have_the_same_cross_validated_scores(sequences):
    """Rows may come in any order: here the sequences are interleaved."""
    groups = np.repeat(np.arange(len(sequences)), [len(rows) for rows in sequences])
    order = np.argsort(np.concatenate([np.arange(len(rows)) for rows in sequences]), kind="stable")
    X, groups = np.concatenate(sequences)[order], groups[order]
    splitter = GroupKFold(3)
    by_sequence = [
        (np.unique(groups[train]), np.unique(groups[test]))
        for train, test in splitter.split(X, groups=groups)
    ]
    hmm = GaussianHMM(2, random_state=0)
    listed = make_pipeline(PerSequence(StandardScaler()), hmm)
    expected = cross_val_score(listed, sequences, cv=by_sequence, error_score="raise")
    with sklearn.config_context(enable_metadata_routing=True):
        routed = hmm.set_fit_request(groups=True).set_score_request(groups=True)
        scores = cross_val_score(
            make_pipeline(StandardScaler(), routed),
            X,
            cv=splitter,
            params={"groups": groups},
            error_score="raise",
        )
    np.testing.assert_allclose(scores, expected, rtol=1e-10)

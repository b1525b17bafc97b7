"""What estimators have learnt, as arrays that can be compared."""

import numpy as np

from cases.comparing import arrays
from sklearn_onlineem.estimators._sequences import SequenceEstimator

__all__ = ["essentials_of", "state_of"]


def state_of(estimator):
    """All that later updates depend on."""
    before = estimator._state_before() if isinstance(estimator, SequenceEstimator) else None
    return (
        estimator.n_steps_,
        estimator.n_samples_seen_,
        *[np.asarray(step) for step in estimator.history_],
        *([] if before is None else arrays(before)),
        *arrays(estimator.model_),
    )


def essentials_of(estimator):
    """The state without the record of how it came about."""
    return estimator.n_steps_, estimator.n_samples_seen_, *arrays(estimator.model_)

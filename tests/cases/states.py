"""What estimators have learnt, as arrays that can be compared."""

import numpy as np

from cases.comparing import arrays


def state_of(estimator):
    """All that later updates depend on."""
    end = estimator._fitted.end
    return (
        estimator.n_steps_,
        estimator.n_samples_seen_,
        *[np.asarray(step) for step in estimator.history_],
        *([] if end is None else arrays(end)),
        *arrays(estimator.model_),
    )


def essentials_of(estimator):
    """The state without the record of how it came about."""
    return estimator.n_steps_, estimator.n_samples_seen_, *arrays(estimator.model_)

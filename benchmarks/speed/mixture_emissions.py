"""Speed of one EM pass of GMMHMM, against hmmlearn's in the same run.

Cells are medians of the ratios of CPU seconds, at equal log-likelihoods. It needs hmmlearn.
"""

import logging
import math
from functools import partial

import numpy as np
from hmmlearn import hmm
from threadpoolctl import threadpool_limits

from benchmarks._table import Table
from benchmarks._timing import CPU, ratio
from sklearn_onlineem import GMMHMM
from sklearn_onlineem.em.step import batch_step

N_ROWS, N_FEATURES, N_STATES, N_MIX = 20_000, 4, 4, 3


def main():
    logging.disable(logging.ERROR)
    table = Table("covariances, sequences", "times faster")
    for kind in ("diag", "full", "tied"):
        for name, lengths in (("of 100 rows", [100] * (N_ROWS // 100)), ("one", [N_ROWS])):
            with threadpool_limits(1):
                table.row(f"{kind}, {name}", against(kind, lengths))


def against(kind, lengths):
    """How many times faster ours is."""
    rng = np.random.default_rng(0)
    given = {
        "startprob_": rng.dirichlet(np.ones(N_STATES)),
        "transmat_": 0.5 * np.eye(N_STATES) + 0.5 * rng.dirichlet(np.ones(N_STATES), N_STATES),
        "weights_": rng.dirichlet(np.full(N_MIX, 5.0), N_STATES),
        "means_": 2.0 * rng.normal(size=(N_STATES, N_MIX, N_FEATURES)),
    }
    shape = {"tied": (N_STATES,)}.get(kind, (N_STATES, N_MIX))
    unit = np.ones(N_FEATURES) if kind == "diag" else np.eye(N_FEATURES)
    given["covars_"] = np.broadcast_to(unit, (*shape, *unit.shape)).copy()
    places = rng.integers(N_STATES, size=N_ROWS), rng.integers(N_MIX, size=N_ROWS)
    X = given["means_"][places] + rng.normal(size=(N_ROWS, N_FEATURES))
    ours = GMMHMM(N_STATES, n_mix=N_MIX, covariance_type=kind, reg_covar=0.0, prior=None)
    for attribute, value in given.items():
        setattr(ours, attribute, value)
    data = ours._input().read(X, lengths=lengths)
    mine = partial(batch_step, ours.model_, data)
    theirs = hmm.GMMHMM(N_STATES, N_MIX, covariance_type=kind, n_iter=1, tol=0.0, init_params="",
                        implementation="scaling")  # fmt: skip

    def their_pass():
        for attribute, value in given.items():
            setattr(theirs, attribute, value.copy())
        return theirs.fit(X, lengths).monitor_.history[0]

    assert math.isclose(their_pass(), mine()[1] * len(lengths), rel_tol=1e-8)
    return ratio(their_pass, mine, CPU, 3)


if __name__ == "__main__":
    main()

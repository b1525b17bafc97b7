"""New levels of streams: a source that jumps changes the offset of its rows, not the dynamics."""

from dataclasses import replace

import numpy as np

from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.families.covariance_shapes import LOG_2_PI

# A level is new if it is so far off, as a square in units of the covariance of a row, and if it
# explains its rows by so many nats better. Lower bounds relocate systems of too few states, whose
# noise is correlated, as on air quality with one state of four columns.
LEAST_SQUARE, _LEAST_GAIN = 30.0, 30.0
# A jump is at the first row with this share of the largest surprise in nats.
_SHARE = 0.05


def relocated(model, data, means, covariances):
    """Return a linear dynamical system at the level of a piece of a stream, and rows to learn.

    These are the rows from the jump on, as those before are of another level. Too few of them are
    left out, and the others are learnt at the old level: the next piece will tell. Without the jump
    a step would take it for a state with a unit root, or for noise. None: there is no new level.

    Parameters
    ----------
    model : LinearDynamicalModel
        At the level so far.
    data : Sequences
        The next piece, with a row that is farther off than the square of a new level.
    means, covariances : ndarray of shape (1, k) and (1, k, k)
        Moments of the states of its rows under the model.
    """
    expected, covariance = model.emissions.predicted(means, covariances)
    try:
        whitening = np.linalg.inv(np.linalg.cholesky(covariance[0]))
    except np.linalg.LinAlgError:  # by rounding, where noise is nothing beside that of states
        return None
    deviations = data.X - expected
    # Surprises beyond what the covariance explains. Those of rows that follow a jump may be larger,
    # as the state is wrong by then.
    log_likelihoods = model.row_log_likelihoods(data)
    usual = np.log(np.diag(whitening)).sum() - 0.5 * len(whitening) * (LOG_2_PI + 1.0)
    surprises = usual - log_likelihoods
    if not surprises.max() > _LEAST_GAIN:
        return None
    jump = int(np.argmax(surprises > _SHARE * surprises.max()))
    before, after = _cut(model, data, jump)
    if after.n_rows < model.fewest_rows:
        return model, before
    # An outlier moves means, but not medians; means are what states can explain in part.
    columns = [column[~np.isnan(column)] for column in deviations[jump:].T]
    medians = np.array([np.median(column) if len(column) else 0.0 for column in columns])
    if not ((whitening @ medians) ** 2).sum() > LEAST_SQUARE:
        return None
    shift = np.array([column.mean() if len(column) else 0.0 for column in columns])
    parameters = model.emissions.parameters
    parameters = replace(parameters, offset=parameters.offset + shift)
    located = replace(model, emissions=replace(model.emissions, parameters=parameters))
    # The state before may be of rows of the new level that the piece before ended with.
    candidates = [after, after.continued(None)]
    scores = [located.log_likelihood(candidate).sum() for candidate in candidates]
    gain = max(scores) - log_likelihoods[jump:].sum()
    return (located, candidates[int(np.argmax(scores))]) if gain > _LEAST_GAIN else None


def _cut(model, data, n_rows):
    """Return the first rows, and the others, which continue them within a sequence."""
    if n_rows == 0:
        return None, data
    number = int(np.searchsorted(data.offsets, n_rows, side="right")) - 1
    begins = data.offsets[data.offsets < n_rows]
    first = Sequences.unchecked(data.rows[:n_rows], np.append(begins, n_rows), data.before)
    state = model.filtered_end(first) if data.offsets[number] < n_rows else None
    ends = data.offsets[number + 1 :] - n_rows
    return first, Sequences.unchecked(data.rows[n_rows:], np.append(0, ends), state)

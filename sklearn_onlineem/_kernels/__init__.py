"""Compiled loops: arrays in, arrays out, no GIL, no knowledge of any estimator."""

# The map in short; README.md beside this file has every header, the conventions, and how a formula
# in NumPy becomes a kernel.
#
#   _natural            mixtures of exponential families in natural form, dense rows
#   _gaussian           Gaussians centred on each component
#   _gaps               ... of rows with missing values
#   _student_t          hidden precisions of rows, by which those make moments
#   _counts             the natural form for CSR rows of counts; base measures of these
#   _compound_dirichlet events of documents; Newton's M-step
#   _collapsed_counts   collapsed Gibbs sampling of components, without Gaussian ones
#   _topics             latent Dirichlet allocation: what documents say of their topics
#   _topic_sweeps       ... topics of all tokens, drawn given those of the others
#   _topic_tables       ... tables of words and topics
#   _responsibilities   log-sum-exp over components, labels, sampled assignments
#   _small_matrices     factorising and comparing K matrices of d x d; quasi-Newton steps
#   _collapsed_gaussian sweeps over Gaussians whose parameters are integrated out
#   _centred_moments    weights, means and scatters: made, added, turned into covariances
#   _forward_backward   hidden chains: posteriors, filtered states, drawn paths
#   _log_chains         ... with logarithms, where those would lose states; Viterbi
#   _kalman             filter and smoother of linear dynamical systems; occupancies
#   _regressions        linear regressions: M-step, moments, divergences, coordinates
#   _edit_lattice       transducers of strings: expected edit operations, distances
#   _rows               whether rows can be taken as they are
#   _openmp             the number of threads

import os
from contextlib import contextmanager

# Whoever has set one of these has decided how threads wait.
_POLICY = "OMP_WAIT_POLICY"
_DECISIONS = (_POLICY, "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def load_openmp():
    """Load OpenMP, before any other kernel does, so that its threads sleep while they wait.

    By default they wait actively, for milliseconds after each parallel loop, and on a busy machine
    that is time which the others need to finish theirs. OpenMP reads its environment once: GNU's
    when the library is loaded, LLVM's when it is first asked something. That of the process is
    then as it was. A copy of the same library that is in use already stays as it is; wheels of
    scikit-learn bring one of their own.
    """
    with _passive():
        from sklearn_onlineem._kernels._openmp import effective_n_threads

        effective_n_threads(-1)


@contextmanager
def _passive():
    if any(name in os.environ for name in _DECISIONS):
        yield
        return
    os.environ[_POLICY] = "PASSIVE"
    try:
        yield
    finally:
        os.environ.pop(_POLICY, None)


try:
    load_openmp()
except ModuleNotFoundError as error:
    if not str(error.name).startswith(__name__):
        raise
    raise ImportError(
        f"{__path__[0]} has no compiled kernels for this Python. Is it a source tree? It hides the "
        "installed package: start Python in another folder, or compile the kernels in place by "
        "`pip install --editable .`"
    ) from error

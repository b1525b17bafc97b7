"""Chunks of a stream: how they are read, scored before they are learnt, and reported."""

import copy
import math
from collections.abc import Iterable, Mapping

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted

from sklearn_onlineem.data.sparse import canonical_csr
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.progress import warn_user
from sklearn_onlineem.estimators.validation import is_empty

# Chunks between messages, as updates of the estimators.
_VERBOSE_INTERVAL = 10


def fork(estimator):
    """Return a deep copy of an estimator; those of this library share their frozen state."""
    forks = {}
    parts = () if isinstance(estimator, OnlineEM) else estimator.get_params(deep=True).values()
    for part in (estimator, *parts):
        if isinstance(part, OnlineEM):
            kept = {key: value for key, value in vars(part).items() if key not in part._transient}
            forks[id(part)] = object.__new__(type(part))
            forks[id(part)].__dict__ = kept
            if "_present_rules" in vars(part):
                # The parameters are valid.
                kept["_present_rules"] = None
    return copy.deepcopy(estimator, forks)


def is_fitted(estimator):
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def learn_chunks(estimator, chunks, learn, is_told=True):
    """Call `learn` with X, y, sample_weight, and any inputs by name, of each chunk.

    It returns a score to report. What is not given is None. An error has a note with the number of
    its chunk. Unless the user `is_told`, a warning says that nothing learns from y.
    """
    name, n_rows = type(estimator).__name__, 0
    for number, chunk in enumerate(chunks, 1):
        try:
            X, y, sample_weight, inputs = _parts(f"{name}.fit_stream", chunk)
            score = learn(X, y, sample_weight, {} if inputs is None else {"inputs": inputs})
            if y is not None and not is_told:
                is_told = True
                if not any(map(_reads_y, getattr(estimator, "estimators_", [estimator]))):
                    warn_user(
                        f"{name}.fit_stream: the second part of a chunk is y, and nothing learns"
                        " from it here. (X, None, sample_weight) has weights; mixtures and the like"
                        " learn from labels with semi_supervised=True."
                    )
        except Exception as error:
            error.add_note(f"{name}.fit_stream failed in chunk {number}; those before are learnt.")
            raise
        n_rows += _num_samples(X)
        if estimator.verbose and (number == 1 or number % _VERBOSE_INTERVAL == 0):
            print(f"{name}: chunk {number}, {n_rows} rows, score {score:.6f}", flush=True)


def _reads_y(estimator):
    """Return whether y may matter: not to estimators of this library without labels or targets."""
    if hasattr(estimator, "steps"):
        *steps, last = [step for _, step in estimator.steps if hasattr(step, "__sklearn_tags__")]
        return _reads_y(last) or any(get_tags(step).target_tags.required for step in steps)
    own = getattr(estimator, "estimator", estimator)  # Detectors pass y on.
    is_ours = isinstance(own, OnlineEM) and not getattr(own, "semi_supervised", False)
    return not is_ours or get_tags(own).target_tags.required


def has_nothing(estimator, X, sample_weight):
    """Return whether a chunk has no rows, or none with a weight above 0."""
    if is_empty(estimator, X):
        return True
    weight = np.asarray(sample_weight)  # of objects if there is none
    return weight.dtype.kind in "biuf" and len(weight) == _num_samples(X) and not weight.any()


def read(estimator, chunks):
    """Return an iterable of chunks, as they come."""
    whose, kind = f"{type(estimator).__name__}.fit_stream", type(chunks).__name__
    if hasattr(chunks, "to_batches"):
        # Tables and data sets of pyarrow.
        chunks = chunks.to_batches()
    elif hasattr(chunks, "npartitions"):
        # Collections of Dask; arrays are partitioned in columns, too.
        lazy, n_partitions = chunks, getattr(chunks, "numblocks", (chunks.npartitions,))[0]
        chunks = (lazy.partitions[i].compute() for i in range(n_partitions))
    elif hasattr(chunks, "shape") or isinstance(chunks, Mapping | str | bytes):
        raise ValueError(
            f"chunks of {whose} must be an iterable of chunks, got a {kind}; partial_fit learns one"
            " chunk."
        )
    elif not isinstance(chunks, Iterable):
        raise TypeError(f"chunks of {whose} must be an iterable of chunks, got a {kind}.")
    return chunks


def _parts(whose, chunk):
    parts = chunk if isinstance(chunk, tuple) else (chunk,)
    if not 1 <= len(parts) <= 4:
        raise ValueError(
            f"a chunk of {whose} has {len(parts)} parts; a tuple must be (X, y),"
            " (X, y, sample_weight) or (X, y, sample_weight, inputs)."
        )
    # Record batches and columns of pyarrow become pandas' frames, which have names.
    X, *others = (
        part.to_pandas() if type(part).__module__.startswith("pyarrow") else part
        for part in (*parts, None, None, None)[:4]
    )
    return sound(X), *others


def sound(values):
    """Return sparse matrices as CSR; ValueError if corrupt, as scipy would read beyond arrays."""
    return canonical_csr(values) if sparse.issparse(values) else values


def check_scorable(name, params):
    """Refuse arguments of `partial_fit` without which chunks cannot be scored."""
    unscorable = {key.rpartition("__")[2] for key in params} & {"lengths", "groups"}
    if unscorable:
        raise ValueError(
            f"{name} scores chunks before it learns them, and takes no {min(unscorable)}: pass"
            " sequences as a list."
        )


def scored(estimator, scorer, X, y, sample_weight, inputs=None):
    """Return the score of a chunk and the weight of its samples.

    Without a scorer it is the mean of `score_samples`, by weights, of all that are not NaN, or else
    `score`, as of regressors; NaN of weight 0 without these. Inputs are those of the last step.
    """
    known = {} if inputs is None else {"inputs": inputs}
    if known and scorer is None and hasattr(estimator, "steps"):
        # That of a pipeline takes X alone.
        *steps, (_, estimator) = estimator.steps
        for _, step in steps:
            X = X if step in (None, "passthrough") else step.transform(X)
    if sample_weight is not None:
        sample_weight = np.asarray(sample_weight, dtype=np.float64)
        check_consistent_length(X, sample_weight)
    # `score_samples` of regressors needs targets.
    has_targets = hasattr(type(estimator), "__sklearn_tags__") and is_regressor(estimator)
    if scorer is None and hasattr(estimator, "score_samples") and not has_targets:
        scores = estimator.score_samples(X, **known)
        weight = np.ones(len(scores)) if sample_weight is None else sample_weight
        if isinstance(scores, list):
            # Detectors have an array for each sequence.
            weight = np.repeat(weight, [len(part) for part in scores])
            scores = np.concatenate(scores)
        scores = np.asarray(scores)
        check_consistent_length(scores, weight)
        known = ~np.isnan(scores)
        total = float(weight[known].sum())
        return (float(scores[known] @ weight[known] / total) if total > 0 else math.nan), total
    if scorer is None and not hasattr(estimator, "score"):
        return math.nan, 0.0
    if sample_weight is None:
        weight, weights = float(_num_samples(X)), {}
    else:
        weight, weights = float(sample_weight.sum()), {"sample_weight": sample_weight}
    if scorer is None:
        return float(estimator.score(X, y, **weights, **known)), weight
    takes_weights = getattr(scorer, "_accept_sample_weight", lambda: False)()
    if get_config()["enable_metadata_routing"] or not takes_weights:
        weights = {}
    return float(scorer(estimator, X, y, **weights, **known)), weight


def with_score(sums, score, weight):
    """Return (weight, weighted sum, weighted sum of squared deviations) with one more score."""
    if weight == 0:
        return sums
    before, total, squares = sums
    if before > 0:
        deviation = score - total / before
        # Python's powers raise where products are infinite.
        squares += before * weight / (before + weight) * (deviation * deviation)
    return before + weight, total + weight * score, squares

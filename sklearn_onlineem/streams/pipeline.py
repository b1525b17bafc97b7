"""A pipeline whose steps learn from a stream."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, process_routing

from sklearn_onlineem._values import Identified
from sklearn_onlineem.estimators.parameters import available_if, fit_context, naming_calls
from sklearn_onlineem.streams._chunks import (
    check_scorable,
    fork,
    has_nothing,
    is_fitted,
    learn_chunks,
    read,
    scored,
    sound,
    with_score,
)

# Bounds the memory of long streams.
_MOST_SCORES = 10_000


def _can_learn(self):
    """Raise AttributeError unless the last step has `partial_fit`."""
    last = self._final_estimator
    # None: the steps are no pairs, as `partial_fit` tells.
    return last is None or last == "passthrough" or last.partial_fit is not None


def _learns(step):
    # A frozen estimator passes on the methods of the one that it keeps from learning.
    return hasattr(step, "partial_fit") and not isinstance(step, FrozenEstimator)


@naming_calls
class StreamPipeline(Identified, Pipeline):
    """A scikit-learn `Pipeline` that learns from a stream, in chunks.

    In `partial_fit` each step learns from the chunk, and then transforms it for the next step:

    - Steps with `partial_fit` learn from each chunk, such as ``StandardScaler``, ``MaxAbsScaler``
      and ``IncrementalPCA``. What they return for a row changes as they learn, and the last step
      follows at the pace of its learning rate.
    - Steps without it are fitted once, to the first chunk, unless they are fitted already or need
      no fit. So a ``SimpleImputer`` fills in means of the first chunk for ever; fit such a step
      beforehand if the first chunk does not tell what it needs. ``HashingVectorizer`` and
      ``FunctionTransformer`` only transform.
    - ``FrozenEstimator`` keeps a fitted step from learning.

    The last step must have `partial_fit`, or be "passthrough". `fit`, `predict`, `score` and the
    others are those of `Pipeline`.

    Parameters
    ----------
    steps : list of (str, estimator)
        Names and estimators, in order; all but the last transform.
    transform_input, memory
        As in `Pipeline`, in `fit` only.
    verbose : bool, default=False
        Whether `fit` prints the time of each step, and `fit_stream` the first chunk and every tenth
        one, with the rows so far and the score of the chunk.

    Attributes
    ----------
    prequential_score_ : float
        Mean score of the last `fit_stream`: each chunk is scored before it is learnt, and counts by
        the weights of its rows. NaN if none was scored.
    prequential_scores_ : ndarray of shape (n_chunks,)
        The scores of its latest 10,000 chunks; NaN for the first chunk of all.
    n_features_in_ : int
        Columns of the data.

    See Also
    --------
    PrequentialSearch : Chooses settings of a pipeline in one pass.
    PerSequence : Lets row-wise transformers take sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_onlineem import GaussianMixture, StreamPipeline
    >>> rng = np.random.default_rng(0)
    >>> rows = 1000.0 + rng.choice([-50.0, 50.0], size=(3000, 1)) + rng.normal(size=(3000, 1))
    >>> steps = [("scaler", StandardScaler()), ("mixture", GaussianMixture(2, random_state=0))]
    >>> pipeline = StreamPipeline(steps).fit_stream(np.array_split(rows, 30))
    >>> np.sort(pipeline["mixture"].means_.ravel()).round()
    array([-1.,  1.])
    """

    def _validate_params(self):
        steps = self.steps
        are_pairs = isinstance(steps, list) and all(
            isinstance(step, tuple | list) and len(step) == 2 for step in steps
        )
        if not are_pairs:
            raise TypeError(
                f"{type(self).__name__}: steps must be a list of names and estimators, such as"
                f" [('scaler', StandardScaler()), ('model', GaussianMixture())], got {steps!r:.99}."
            )
        super()._validate_params()

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of `Pipeline`, and that of `partial_fit`."""
        router, (last, _) = super().get_metadata_routing(), self.steps[-1]
        for name, (mapping, _) in router:
            method = "partial_fit" if _learns(self.named_steps[name]) else "fit"
            mapping.add(caller="partial_fit", callee=method)
            if name != last:
                mapping.add(caller="partial_fit", callee="transform")
        return router

    def _arguments(self, params):
        """Return the arguments of the methods of each step."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "partial_fit", **params)
        given, last = {name: {} for name, _ in self.steps}, self.steps[-1][0]
        for key, value in params.items():
            name, separator, argument = key.partition("__")
            name, argument = (name, argument) if separator else (last, key)
            if self.named_steps.get(name) in (None, "passthrough"):
                raise ValueError(
                    f"{type(self).__name__}.partial_fit: no step {name!r} takes the argument"
                    f" {argument!r}."
                )
            given[name][argument] = value
        return {
            name: {"partial_fit": learning, "fit": learning, "transform": {}}
            for name, learning in given.items()
        }

    @available_if(_can_learn)
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: object, y: object = None, sample_weight: ArrayLike | None = None, **params: object
    ) -> Self:
        """Update all steps with one chunk of a stream.

        Parameters
        ----------
        X : array-like, data frame, or what else the first step takes
            The chunk; one of no rows, or of weights that are all 0, changes nothing.
        y : array-like of shape (n_samples,), default=None
            Passed to all steps.
        sample_weight : array-like of shape (n_samples,), default=None
            Passed to the last step; with metadata routing, to the steps that request it.
        **params : object
            Further arguments of the last step, such as ``classes`` or ``continues``, and of others
            as ``step__argument``, such as ``scaler__sample_weight``; with metadata routing, what
            steps request. Steps that are fitted once get them with the first chunk.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a step refuses the chunk or its parameters. All steps are left unchanged.
        """
        self._validate_steps()
        if has_nothing(self, X, sample_weight):
            return self
        X = sound(X)
        if sample_weight is not None:
            params = {**params, "sample_weight": sample_weight}
        arguments = self._arguments(params)
        before = [
            (step, fork(step))
            for _, _, step in self._iter()
            if _learns(step) or not is_fitted(step)
        ]
        last = len(self.steps) - 1
        try:
            for index, name, step in self._iter():
                given = arguments[name]
                if _learns(step):
                    step.partial_fit(X, y, **given["partial_fit"])
                elif not is_fitted(step):
                    step.fit(X, y, **given["fit"])
                if index != last:
                    X = step.transform(X, **given["transform"])
        except BaseException:
            for step, saved in before:
                step.__dict__ = vars(saved)
            raise
        return self

    @available_if(_can_learn)
    def fit_stream(self, chunks: Iterable[object], **params: object) -> Self:
        """Learn from the chunks of a stream, one after the other, and keep none.

        Each chunk is scored before it is learnt, by the mean of the last step's `score_samples`, or
        else, and if it is a regressor, by its `score`. The pipeline goes on from what it has
        learnt; a clone begins anew.

        Parameters
        ----------
        chunks : iterable
            Each is an X, or a tuple (X, y), (X, y, sample_weight) or (X, y, sample_weight, inputs),
            with a warning if nothing learns from the y: from a generator, from pandas
            (``read_csv(..., chunksize=1000)``), or record batches of pyarrow. Tables and data sets
            of pyarrow, and data frames and arrays of Dask, are read in their own pieces, one at a
            time; record batches become pandas' frames.
        **params : object
            Further arguments of `partial_fit`, for all chunks.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If `chunks` is not an iterable of chunks, or a chunk is refused; a note of the error has
            its number. What was learnt of those before stays.

        Examples
        --------
        Labels come with the rows:

        >>> import numpy as np
        >>> from sklearn.linear_model import SGDClassifier
        >>> from sklearn_onlineem import StreamPipeline
        >>> rng = np.random.default_rng(0)
        >>> chunks = ((X, X[:, 0] > 0) for X in rng.normal(size=(20, 50, 2)))
        >>> pipeline = StreamPipeline([("model", SGDClassifier(random_state=0))])
        >>> pipeline = pipeline.fit_stream(chunks, classes=[False, True])
        >>> pipeline.prequential_scores_[:2], bool(pipeline.prequential_score_ > 0.9)
        (array([ nan, 0.84]), True)
        """
        self._validate_params()
        check_scorable(f"{type(self).__name__}.fit_stream", params)
        chunks, sums = read(self, chunks), (0.0, 0.0, 0.0)
        self.prequential_score_, self.prequential_scores_ = math.nan, np.empty(0)

        def learn(X, y, sample_weight, known):
            nonlocal sums
            if has_nothing(self, X, sample_weight):
                return math.nan
            score, weight = math.nan, 0.0
            if all(is_fitted(step) for _, _, step in self._iter()):
                score, weight = scored(self, None, X, y, sample_weight, **known)
            self.partial_fit(X, y, sample_weight, **{**params, **known})
            sums = with_score(sums, score, weight)
            self.prequential_score_ = sums[1] / sums[0] if sums[0] > 0 else math.nan
            latest = np.append(self.prequential_scores_, score)
            self.prequential_scores_ = latest[-_MOST_SCORES:]
            return score

        learn_chunks(self, chunks, learn, is_told=False)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        steps = [step for _, step in self.steps if hasattr(step, "__sklearn_tags__")]
        tags.input_tags.allow_nan = all(get_tags(step).input_tags.allow_nan for step in steps)
        return tags

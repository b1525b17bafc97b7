"""A search over settings in one pass over a stream."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import ParameterGrid
from sklearn.model_selection._search import (
    BaseSearchCV,
    _search_estimator_has,
    _yield_masked_array_for_each_param,
)
from sklearn.utils import _safe_indexing, gen_batches, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted

from sklearn_onlineem._typing import FloatsOrList
from sklearn_onlineem._values import Identified
from sklearn_onlineem.estimators.fitted import rollback
from sklearn_onlineem.estimators.learning import N_JOBS
from sklearn_onlineem.estimators.parameters import COUNT, available_if, fit_context, naming_calls
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import checked_weight, error_context
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


@naming_calls
class PrequentialSearch(Identified, BaseSearchCV):
    """Choose settings of an estimator on a stream that is read once.

    Each setting has an estimator. All of them score each chunk before they learn it, and the best
    has the largest mean score so far. No chunk is kept, and there is no refit: `best_estimator_`
    has seen the whole stream. `predict`, `score`, `transform` and the like are those of
    `best_estimator_`, as in ``GridSearchCV``.

    Parameters
    ----------
    estimator : estimator with `partial_fit`
        Such as a mixture, or a :class:`StreamPipeline`.
    param_grid : dict of str -> sequence, or list of these
        Settings, as in ``GridSearchCV``: all combinations of the values of each dict. Those of
        steps are called ``step__parameter``.
    scoring : str or callable, default=None
        As in scikit-learn, larger is better. None: the mean of `score_samples` by weights, or else,
        and of regressors, `score`.
    batch_size : int, default=100
        Rows in a chunk of `fit`. If X has no more, nothing is scored.
    n_jobs : int, default=None
        Threads over settings; -1 uses all processors, and None one, unless in a context of
        `joblib.parallel_config`. Results do not depend on it.
    verbose : bool, default=False
        Whether `fit_stream` and `fit` print the first chunk and every tenth one, with the rows so
        far and `best_score_`.

    Attributes
    ----------
    cv_results_ : dict of str -> ndarray or list
        "params", a list of the settings; "param_<name>", masked arrays of their values;
        "mean_test_score" and "std_test_score" over chunks, which count by the weights of their
        rows; and "rank_test_score". Scores are NaN until a second chunk has come, and the first
        setting is the best.
    best_index_ : int
        The best setting; of equal ones, the first.
    best_score_ : float
        Its mean score.
    best_params_ : dict
        The setting itself.
    best_estimator_ : estimator
        Its estimator as of the latest chunk, which later chunks do not change.
    estimators_ : list of estimators
        Those of all settings.
    n_features_in_ : int
        Columns of the data.

    See Also
    --------
    StreamPipeline : Lets scalers and other transformers learn as well.

    References
    ----------
    .. [1] Dawid, "Statistical Theory: The Prequential Approach", JRSS A 147, 1984.

    Examples
    --------
    How much should a mixture remember of a source that moves?

    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture, PrequentialSearch
    >>> rng = np.random.default_rng(0)
    >>> rows = np.linspace(0.0, 50.0, 5000)[:, None] + rng.normal(size=(5000, 1))
    >>> mixture = GaussianMixture(schedule="forgetting", random_state=0)
    >>> search = PrequentialSearch(mixture, {"beta": [0.5, 0.9, 0.99]})
    >>> search.fit_stream(np.array_split(rows, 100)).best_params_
    {'beta': 0.5}
    >>> search.cv_results_["mean_test_score"].round(1)
    array([-1.8, -2.9, -4. ])
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["partial_fit"])],
        "param_grid": [dict, list],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "batch_size": [COUNT],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
    }
    # Methods of BaseSearchCV read these.
    refit, multimetric_ = True, False

    def __init__(
        self,
        estimator: object,
        param_grid: Mapping[str, Sequence[object]] | Sequence[Mapping[str, Sequence[object]]],
        *,
        scoring: object = None,
        batch_size: int = 100,
        n_jobs: int | None = None,
        verbose: bool = False,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: object, y: object = None, sample_weight: ArrayLike | None = None, **params: object
    ) -> Self:
        """Begin anew, and learn X as a stream of chunks of `batch_size` rows, in their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of sequences
            The data.
        y, sample_weight : array-like of shape (n_samples,), default=None
            Cut as X.
        **params : object
            As in `partial_fit`; ``inputs`` are cut as X.

        Raises
        ------
        ValueError, TypeError
            As `partial_fit`; then the search is left unchanged.
        """
        columns = X, y, sample_weight, params.pop("inputs", None)
        if columns[-1] is not None and _num_samples(columns[-1]) != _num_samples(X):
            raise ValueError(
                f"{type(self).__name__}: X has {_num_samples(X)} entries, and inputs"
                f" {_num_samples(columns[-1])}."
            )
        columns = X, y, sample_weight, _ = indexable(*map(sound, columns))
        if sample_weight is not None:
            with error_context(self):
                checked_weight(sample_weight, X)

        def part(values, rows):
            return None if values is None else _safe_indexing(values, rows)

        slices = gen_batches(_num_samples(X), int(self.batch_size))
        chunks = (tuple(part(values, rows) for values in columns) for rows in slices)
        anew = copy.copy(self)
        for name in ("estimators_", "_settings", "_sums"):
            vars(anew).pop(name, None)
        learn_chunks(anew, chunks, anew._learner(params))
        self.__dict__ = vars(anew)
        return self

    @available_if(_search_estimator_has("transform"))
    def fit_transform(self, X: object, y: object = None, **params: object) -> FloatsOrList:
        """Fit, and return the result of `transform` for X.

        Parameters
        ----------
        X, y, **params
            As in `fit`.

        Returns
        -------
        transformed : ndarray of shape (n_samples, n_features_out), or list
        """
        with rollback(self):
            return self.fit(X, y, **params).transform(X)

    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: object, y: object = None, sample_weight: ArrayLike | None = None, **params: object
    ) -> Self:
        """Score one chunk with the estimators of all settings, and let them learn it.

        Parameters
        ----------
        X, y : as in `partial_fit` of the estimator
            The chunk; one of no rows, or of weights that are all 0, changes nothing.
        sample_weight : array-like of shape (n_samples,), default=None
            Passed to the estimators; also weighs scores.
        **params : object
            Further arguments of `partial_fit` of the estimator. ``inputs``, known ones with a row
            for each row of X, are those of scores as well.

        Raises
        ------
        ValueError, TypeError
            If the estimator of a setting refuses the chunk or its parameters; a note of the error
            has the setting. All are left unchanged.
        """
        name = type(self).__name__
        check_scorable(name, params)
        if has_nothing(self, X, sample_weight):
            return self
        X = sound(X)
        if sample_weight is not None:
            params = {**params, "sample_weight": sample_weight}
        if get_config()["enable_metadata_routing"]:
            params = process_routing(self, "partial_fit", **params).estimator.partial_fit
        settings = list(ParameterGrid(self.param_grid))
        if not settings:
            raise ValueError(f"param_grid of {name} has no settings.")
        if hasattr(self, "estimators_"):
            settings, estimators, sums = self._settings, self.estimators_, self._sums
        else:
            estimators = [
                clone(self.estimator).set_params(**clone(setting, safe=False))
                for setting in settings
            ]
            sums = [(0.0, 0.0, 0.0)] * len(settings)
        scorer = None if self.scoring is None else self.scorer_
        # Limits are the process's: those that threads set and lift would overlap.
        with single_threaded_blas(_num_samples(X)):
            results = Parallel(n_jobs=self.n_jobs, require="sharedmem")(
                delayed(_learn)(estimator, scorer, X, y, sample_weight, params)
                for estimator in estimators
            )
        for setting, result in zip(settings, results, strict=True):
            if isinstance(result, Exception):
                result.add_note(f"{name} failed with the setting {setting}.")
                raise result
        sums = [with_score(row, *score) for row, (_, score) in zip(sums, results, strict=True)]
        estimators = [estimator for estimator, _ in results]
        learnt = {"estimators_": estimators, "_settings": settings, "_sums": sums}
        # One assignment, as other threads may read it.
        self.__dict__ = {**vars(self), **learnt}
        return self

    def fit_stream(self, chunks: Iterable[object], **params: object) -> Self:
        """Learn from the chunks of a stream, one after the other, and keep none.

        The search goes on from what it has learnt; a clone begins anew.

        Parameters
        ----------
        chunks, **params
            As in :meth:`StreamPipeline.fit_stream`, with the same errors.
        """
        learner = self._learner(params)
        learn_chunks(self, read(self, chunks), learner, is_told=self.scoring is not None)
        return self

    def _learner(self, params):
        """Return a function that learns a chunk, and returns the best score."""

        def learn(X, y, sample_weight, known):
            self.partial_fit(X, y, sample_weight, **{**params, **known})
            return getattr(self, "best_score_", np.nan)

        return learn

    # ----------------------------------------------------------------------------------- results

    def __sklearn_tags__(self):
        has_tags = isinstance(self.estimator, BaseEstimator)
        return get_tags(self.estimator) if has_tags else super().__sklearn_tags__()

    def __sklearn_is_fitted__(self):
        return "estimators_" in vars(self)

    @property
    def _mean_scores(self):
        """Mean scores; before the first chunk an AttributeError, as for any attribute."""
        check_is_fitted(self)
        weights, totals, _ = np.transpose(self._sums)
        with np.errstate(invalid="ignore"):  # NaN is that of no scores.
            return totals / weights

    @property
    def cv_results_(self) -> dict[str, object]:
        means = self._mean_scores
        weights, _, squares = np.transpose(self._sums)
        with np.errstate(invalid="ignore"):
            deviations = np.sqrt(squares / weights)
        ranks = rankdata(-_comparable(means), method="min")
        return {
            **dict(_yield_masked_array_for_each_param(self._settings)),
            "params": self._settings,
            "mean_test_score": means,
            "std_test_score": deviations,
            "rank_test_score": ranks.astype(np.int32),
        }

    @property
    def best_index_(self) -> int:
        return int(_comparable(self._mean_scores).argmax())

    @property
    def best_score_(self) -> float:
        return float(self._mean_scores[self.best_index_])

    @property
    def best_params_(self) -> dict[str, object]:
        best = self.best_index_  # or an error that says that nothing is fitted
        return self._settings[best]

    @property
    def best_estimator_(self) -> object:
        best = self.best_index_
        return self.estimators_[best]

    @property
    def scorer_(self) -> object:
        """The scorer that `scoring` names."""
        return check_scoring(self.estimator, self.scoring)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns, where the first data had names."""
        return self.best_estimator_.feature_names_in_

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing to the estimator, and to the scorer of `score`."""
        learning = MethodMapping().add(caller="partial_fit", callee="partial_fit")
        learning.add(caller="fit", callee="partial_fit")
        scoring = MethodMapping().add(caller="score", callee="score")
        router = MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=learning)
        return router.add(scorer=self.scorer_, method_mapping=scoring)


def _comparable(means):
    # Settings without a score come last, as in scikit-learn.
    return np.nan_to_num(means, nan=-np.inf, neginf=-np.inf)


def _learn(estimator, scorer, X, y, sample_weight, params):
    """Return a copy that has learnt a chunk, and its score before; or an exception.

    All settings end their work on a chunk before an error is raised.
    """
    try:
        score = (np.nan, 0.0)
        if is_fitted(estimator):
            score = scored(estimator, scorer, X, y, sample_weight, params.get("inputs"))
        return fork(estimator).partial_fit(X, y, **params), score
    except Exception as error:
        return error

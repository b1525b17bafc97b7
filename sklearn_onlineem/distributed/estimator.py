"""EM over shards of data, on one machine or on a cluster."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from sklearn_onlineem._checks import NoStartError
from sklearn_onlineem._typing import Floats, FloatsOrList, IntegersOrList, SequenceData
from sklearn_onlineem.distributed._executors import DaskExecutor, JoblibExecutor
from sklearn_onlineem.distributed._modes import (
    BatchMode,
    LearnerMode,
    Round,
    Shards,
)
from sklearn_onlineem.distributed._shards import cut, remote_shards
from sklearn_onlineem.distributed._spark import SparkExecutor, spark_shards
from sklearn_onlineem.em.loop import Progress, run
from sklearn_onlineem.em.solvers import Auto, Batch, Online, Stochastic
from sklearn_onlineem.estimators.base import OnlineEM, set_start
from sklearn_onlineem.estimators.combination import no_model
from sklearn_onlineem.estimators.fitted import (
    RELEARNT,
    PersistentState,
    awaits_labels,
    commit,
    rollback,
)
from sklearn_onlineem.estimators.learning import N_JOBS, drawn_seed, plan_of, resumed
from sklearn_onlineem.estimators.parameters import (
    COUNT,
    available_if,
    by_name,
    estimator_has,
    fit_context,
    naming_calls,
)
from sklearn_onlineem.estimators.progress import callbacks_of, finish, log, report_pass
from sklearn_onlineem.estimators.sequence_forms import (
    check_rows_of_y,
    is_nested,
    sequence_form,
    with_columns_of_symbols,
)
from sklearn_onlineem.estimators.sequences import SequenceEstimator
from sklearn_onlineem.estimators.validation import error_context, is_of_spark

# For annotations only: it need not be installed.
if TYPE_CHECKING:
    from distributed import Client
    from pyspark.sql import SparkSession

Estimator = TypeVar("Estimator", bound=OnlineEM)


def _of_fitted(name, kind, result):
    """Return the method of `estimator_` of this name, whose result has a kind and a text."""

    def method(self, X: SequenceData, **arguments: object):
        check_is_fitted(self, "estimator_")
        return getattr(self.estimator_, name)(X, **arguments)

    method.__name__, method.__qualname__ = name, f"DistributedEM.{name}"
    method.__annotations__["return"] = kind
    method.__doc__ = f"""Return the `{name}` of `estimator_`.

        Parameters
        ----------
        X : array-like, or other data that `estimator_` takes
            Local data, not shards.
        **arguments
            Like those of `estimator_`: `lengths`, `groups`, `inputs`.

        Returns
        -------
        {result}
        """
    decorated = by_name("lengths, groups and the like are passed by name")(method)
    return available_if(estimator_has(name))(decorated)


@naming_calls
class DistributedEM(PersistentState, MetaEstimatorMixin, BaseEstimator, Generic[Estimator]):
    r"""Fit an estimator of this library to data in shards, which stay where they are.

    Results of the shards are added. In each round of ``mode="batch"`` these are expected
    statistics,

    .. math:: \Theta^+ = \mathrm{M}\Big(\sum_m \tfrac{n_m}{n} \, \bar S_m(\Theta)\Big),

    which is batch EM on all of the data, to rounding. In the other modes each shard has a learner
    that takes steps of online EM, and their models are merged (see
    :func:`~sklearn_onlineem.combine_estimators`).

    Bits depend only on the shards and on `random_state`, not on the workers, their number, or loss
    of some. If an E-step draws, as that of :class:`~sklearn_onlineem.LatentDirichletAllocation`,
    random numbers depend on the step and on the position of a document among those of all shards:
    with ``mode="batch"`` they do not depend on how the data are cut. An estimator with
    ``solver="stochastic"`` has one hidden value drawn for each row (of topics, for each word):
    shards draw from streams of random numbers of their own, the first one as a local fit would, and
    send the statistics of their draws, as large as those of batch EM. Rounds are independent: what
    has been drawn stays nowhere, so that any worker may repeat a lost task.

    Parameters
    ----------
    estimator : estimator
        A mixture, a hidden Markov model or another estimator of this library. Its parameters set
        how it learns (`max_iter`, `tol`, `batch_size`, `eta0`, ...), except `solver`, which `mode`
        replaces, unless it is "stochastic". Its model is the start if it is fitted or known and has
        ``warm_start=True``; else the first shard that is enough to start from provides the start.
    mode : {"batch", "synchronous", "asynchronous"}, default="batch"
        "batch": rounds of batch EM until `tol`, or `max_iter` ones of stochastic EM, if this is the
        solver of the estimator. "synchronous": learners are merged after every
        `sync_every` batches, and continue from the result. "asynchronous": learners are merged
        once, at the end of a pass.
    sync_every : int, default=1
        With ``mode="synchronous"``. Learners take the learning rates of their pooled batches: 1 is
        online EM with batches as many times larger as there are shards.
    n_passes : int, default=1
        Passes over the data of modes other than "batch".
    combine : {"entropic", "averaging"}, default="entropic"
        How models are merged; "averaging" of parameters is a baseline.
    shuffle : bool, default=True
        Whether learners take the rows of their shard in random order.
    n_shards : int, default=8
        Number of shards of local data. Dask collections and lists of delayed objects or futures are
        shards already.
    n_jobs : int, default=None
        Without a client: jobs of joblib, at most one for each shard, with the present backend.
    worker_timeout : float, default=300.0
        Seconds to wait while a cluster has no worker that takes tasks, or while a worker with work
        or data gives no sign of life, checked every few seconds. ``math.inf``: without limit, for
        clusters that scale up from nothing through a queue.
    warm_start : bool, default=False
        Whether `fit` starts from `estimator_`.
    progress : bool, default=False
        Whether to show a bar of rounds (needs rich).

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator, local, which can be used, pickled and updated independently.
    history_ : list of Round
        Records of the rounds.
    n_features_in_ : int
        Columns of the data; strings have none.
    classes_ : ndarray of shape (n_components,)
        Classes of the estimator, if it is a classifier.

    Notes
    -----
    Symbols that the shard of the start lacks are unknown to an
    :class:`~sklearn_onlineem.EditDistance` without `alphabet`.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden Variable
       Models", UAI 2020, section 6.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.distributed import DistributedEM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([1.0, 20.0], size=(3000, 1)))
    >>> learner = DistributedEM(PoissonMixture(2, random_state=0), n_shards=3).fit(X)
    >>> np.sort(learner.estimator_.means_.ravel()).round()
    array([ 1., 20.])
    """

    estimator_: Estimator
    history_: list[Round]

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"])],
        "mode": [StrOptions({"batch", "synchronous", "asynchronous"})],
        "sync_every": [COUNT],
        "n_passes": [COUNT],
        "combine": [StrOptions({"entropic", "averaging"})],
        "shuffle": ["boolean"],
        "n_shards": [COUNT],
        "n_jobs": N_JOBS,
        "worker_timeout": [Interval(Real, 0, None, closed="right")],
        "warm_start": ["boolean"],
        "progress": ["boolean"],
    }

    def __init__(
        self,
        estimator: Estimator,
        *,
        mode: str = "batch",
        sync_every: int = 1,
        n_passes: int = 1,
        combine: str = "entropic",
        shuffle: bool = True,
        n_shards: int = 8,
        n_jobs: int | None = None,
        worker_timeout: float = 300.0,
        warm_start: bool = False,
        progress: bool = False,
    ):
        self.estimator = estimator
        self.mode = mode
        self.sync_every = sync_every
        self.n_passes = n_passes
        self.combine = combine
        self.shuffle = shuffle
        self.n_shards = n_shards
        self.n_jobs = n_jobs
        self.worker_timeout = worker_timeout
        self.warm_start = warm_start
        self.progress = progress

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        inputs: object = None,
        client: Client | SparkSession | None = None,
        validation: SequenceData | None = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Fit to all shards.

        Parameters
        ----------
        X : array-like, list of sequences, data frame of Dask or Spark, or list of shards
            Shards are delayed objects or futures, or 2-D arrays for estimators of rows. Other
            local data are cut into `n_shards`, and Dask arrays are in chunks. Partitions of a Spark
            data frame are shards; a sequence is one of its rows, in a column of arrays.
        y, sample_weight : as X, default=None
            As in `fit` of the estimator, in shards as X: local data are cut alike, chunks of Dask
            arrays are those of X, and lists of shards are as long. Of a Spark data frame, names of
            columns. `y` is ignored unless the estimator has targets, or ``semi_supervised=True``. A
            shard whose weights are all 0 is left out.
        inputs : as X, default=None
            Known inputs, a row for each row of X, of an estimator that takes them.
        client : distributed.Client or SparkSession, default=None
            None: the present client for data on a cluster, and joblib for local data.
        validation : array-like, or tuple (X, y) for an estimator with targets, default=None
            Local data to score the model on after each round; with inputs, a tuple (X, inputs).
        classes : array-like of shape (n_components,), default=None
            With ``semi_supervised=True`` of the estimator all labels: a shard may lack
            some. None: those of the first shard that has a label for each component.

        Raises
        ------
        ValueError
            If a parameter or a shard is invalid; the message names the shard. If the estimator has
            several starts, or a solver other than "auto", "online", "batch" and, with
            ``mode="batch"``, "stochastic".
        DistributionError
            If the cluster has lost data that cannot be computed again, its scheduler, all workers
            for longer than `worker_timeout`, or workers repeatedly; if Spark computes no shards.
        distributed.KilledWorker
            If one task has killed several workers, for example by its memory.
        """
        if "symbols" in getattr(self.estimator, "_takes", ()):
            X = with_columns_of_symbols(X)
        columns = {"y": self._labels(X, y), "sample_weight": sample_weight, "inputs": inputs}
        columns = {name: values for name, values in columns.items() if values is not None}
        columns = {"X": X, **columns}
        self._check_supported(columns, client, classes)
        held_out = self._held_out(validation, inputs)
        executor = self._executor(columns, client)
        with executor.session:
            executor.open()
            estimator = self._started(executor, classes)
            extents = executor.prepare(_for_workers(estimator))
            sizes, *totals = zip(*extents, strict=True)
            history, fitted = [], estimator._fitted
            state = fitted.state
            progress = Progress(state, fitted.history, callbacks_of(estimator), start=state)
            with _bar(self.progress, type(self.estimator).__name__) as advance:

                def record(done):
                    commit(estimator, progress, None)
                    score = math.nan if held_out is None else float(estimator.score(**held_out))
                    history.append(done._replace(validation=score))
                    advance()

                shards = Shards(executor, sizes, *map(sum, totals), record)
                self._learn(estimator, progress, shards)
        vars(self).update(estimator_=estimator, history_=history)
        return self

    @property
    def n_features_in_(self) -> int:
        return self.estimator_.n_features_in_

    @property
    def classes_(self) -> NDArray[np.generic]:
        return self.estimator_.classes_

    def _learn(self, estimator, progress, shards):
        seed = drawn_seed(estimator.random_state)
        is_batch = self.mode == "batch"
        sync_every = math.inf if self.mode == "asynchronous" else self.sync_every
        learners = LearnerMode(sync_every, self.combine, seed if self.shuffle else ())
        solver = estimator._solver()
        mode = BatchMode(solver) if is_batch else learners
        plan = plan_of(estimator, progress.state, shards, estimator._fitted.lower_bounds)
        passes = mode.passes(progress, shards, plan)
        max_iter = plan.max_iter if is_batch else self.n_passes
        log(estimator, f"starts, {len(shards)} observations in {len(shards.sizes)} shards")
        with error_context(estimator):
            run(passes, progress, max_iter, partial(report_pass, estimator))
        progress.state = solver.finished(progress.state)
        finish(estimator, solver, progress, shards, may_converge=is_batch)
        commit(estimator, progress, None)

    def _held_out(self, validation, inputs):
        """Return the arguments of `score` after each round, or None."""
        has_targets = get_tags(self.estimator).target_tags.required
        if validation is None or not (has_targets or inputs is not None):
            return None if validation is None else {"X": validation}
        names = ("X", "y") if has_targets else ("X", "inputs")
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise ValueError(f"DistributedEM: validation must be a tuple ({', '.join(names)}).")
        return dict(zip(names, validation, strict=True))

    def _labels(self, X, y):
        """Return `y` if the estimator learns from labels or targets, else None."""
        estimator = self.estimator
        if y is None or getattr(estimator, "semi_supervised", False):
            return y
        if isinstance(estimator, OnlineEM) and get_tags(estimator).target_tags.required:
            return y
        takes_sequences = isinstance(estimator, SequenceEstimator) and not is_of_spark(X)
        if takes_sequences and remote_shards({"X": X}, estimator) is None:
            with error_context(estimator):
                if not is_nested(X):
                    check_rows_of_y(sequence_form(X), y)
        return None

    def _check_supported(self, columns, client, classes):
        name = type(self.estimator).__name__
        if not isinstance(self.estimator, OnlineEM):
            raise TypeError(f"DistributedEM cannot take {no_model(self.estimator)}.")
        if client is not None and not (hasattr(client, "scatter") or is_of_spark(client)):
            raise TypeError(
                f"client must be a distributed.Client or a SparkSession, got {client!r}."
            )
        n_init, solver = getattr(self.estimator, "n_init", 1), self.estimator.solver
        plain = ("auto", "online", "batch", Auto(), Online(), Batch(), Batch(acceleration=None))
        default = self.estimator._defaults["solver"]
        samples = solver == "stochastic" or isinstance(solver, Stochastic)
        if samples and self.mode != "batch":
            raise ValueError(
                f"DistributedEM draws hidden variables with mode='batch' only: {name} has"
                f" solver={solver!r}, and mode is {self.mode!r}."
            )
        if n_init not in (1, "auto") or not (samples or solver in plain):
            raise ValueError(
                f"DistributedEM makes one start, and mode sets how it learns: {name} must"
                f" have n_init=1, got {n_init}, and solver={default!r}, got {solver!r}."
            )
        self.estimator._validate_params()
        if classes is not None and not getattr(self.estimator, "semi_supervised", False):
            raise ValueError(f"DistributedEM: classes requires semi_supervised=True of {name}.")
        for argument in columns.keys() & {"sample_weight", "inputs"}:
            if not has_fit_parameter(self.estimator, argument):
                raise TypeError(f"DistributedEM: {name} takes no {argument}.")

    def _executor(self, columns, client):
        if is_of_spark(columns["X"]) or is_of_spark(client):
            shards = spark_shards(client, columns, int(self.n_shards), self.estimator)
            return SparkExecutor(shards, tuple(columns))
        shards = remote_shards(columns, self.estimator)
        try:
            worker_timeout = float(self.worker_timeout)
        except OverflowError:
            # A whole number of too many digits.
            worker_timeout = math.inf
        if shards is not None:
            if client is None:
                from distributed import default_client

                try:
                    client = default_client()
                except ValueError:
                    raise ValueError(
                        "DistributedEM: these data live on a Dask cluster, and there is no client;"
                        " pass fit(..., client=distributed.Client(...))."
                    ) from None
            return DaskExecutor(client, shards, False, worker_timeout)
        shards = cut(columns, int(self.n_shards), self.estimator)
        if client is None:
            return JoblibExecutor(shards, self.n_jobs)
        return DaskExecutor(client, shards, True, worker_timeout)

    def _started(self, executor, classes):
        """Return an estimator at its start, or as of the last fit."""
        parameters = clone(self.estimator).get_params()
        resumes = self.warm_start and hasattr(self, "estimator_")
        if resumes:
            estimator = copy.deepcopy(self.estimator_)
            if type(estimator) is not type(self.estimator):
                raise ValueError(
                    f"DistributedEM has fitted a {type(estimator).__name__}, and estimator is now a"
                    f" {type(self.estimator).__name__}; call fit again."
                )
        else:
            # A copy keeps the model that is known, or fitted.
            resumes_own = self.estimator.warm_start and self.estimator.__sklearn_is_fitted__()
            begun = copy.deepcopy(self.estimator) if resumes_own else clone(self.estimator)
            estimator = _begun(executor, begun, classes)
        estimator.set_params(**parameters)
        if resumes:
            estimator._check_structure(RELEARNT)
            if classes is not None or ("y" in executor.names and awaits_labels(estimator)):
                again = copy.copy(estimator).set_params(warm_start=True)
                labelled, fitted = _begun(executor, again, classes), estimator._fitted
                state = fitted.state.with_model(labelled.model_)
                attributes = labelled._fitted.attributes
                estimator._fitted = fitted._replace(state=state, attributes=attributes)
        estimator._fitted = estimator._fitted._replace(state=resumed(estimator))
        return estimator

    def __sklearn_tags__(self):
        has_tags = isinstance(self.estimator, BaseEstimator)
        return get_tags(self.estimator) if has_tags else super().__sklearn_tags__()

    # --------------------------------------------------------------------------------- inference

    @available_if(estimator_has("score"))
    def score(self, X: SequenceData, y: object = None, **arguments: object) -> float:
        """Return the `score` of `estimator_`.

        Parameters
        ----------
        X : array-like, or other data that `estimator_` takes
            Local data, not shards.
        y : object
            Ignored.

        Returns
        -------
        log_likelihood : float
        """
        check_is_fitted(self, "estimator_")
        return self.estimator_.score(X, y=y, **arguments)

    score_samples: Callable[..., Floats] = _of_fitted(
        "score_samples", "Floats", "log_likelihoods : ndarray of shape (n_samples,)"
    )
    predict: Callable[..., IntegersOrList] = _of_fitted(
        "predict", "IntegersOrList", "prediction : ndarray of shape (n_samples,), or list"
    )
    predict_proba: Callable[..., FloatsOrList] = _of_fitted(
        "predict_proba",
        "FloatsOrList",
        "posterior : ndarray of shape (n_samples, n_components), or list",
    )
    transform: Callable[..., FloatsOrList] = _of_fitted(
        "transform",
        "FloatsOrList",
        "transformed : ndarray of shape (n_samples, n_features_out), or list",
    )

    @available_if(estimator_has("transform"))
    def fit_transform(self, X: SequenceData, y: object = None, **arguments: object) -> FloatsOrList:
        """Fit, and return the result of `transform` for X, which is local data.

        Parameters
        ----------
        X, y, **arguments
            As in `fit`.

        Returns
        -------
        transformed : ndarray of shape (n_samples, n_features_out), or list
        """
        with rollback(self):
            known = {name: x for name, x in arguments.items() if name == "inputs"}
            return self.fit(X, y, **arguments).transform(X, **known)


def _begun(executor, estimator, classes):
    """Return the estimator at its start, from the first shard that has one.

    It has labels, if any such shard has.
    """
    refusals, unlabelled = [], []
    told = {} if classes is None else {"classes": classes}
    start = partial(set_start, _for_workers(estimator), **told)
    for number in executor.numbers:
        try:
            begun = executor.begin(start, number)
        except NoStartError as error:
            refusals.append(error)
            continue
        if not ("y" in executor.names and awaits_labels(begun)):
            return begun
        unlabelled = unlabelled or [begun]
    if not unlabelled:
        raise refusals[0]
    return unlabelled[0]


def _for_workers(estimator):
    """Return a copy with one thread and no callbacks: shards are what runs in parallel."""
    return copy.copy(estimator).set_params(n_jobs=1, callbacks=None)


@contextmanager
def _bar(is_shown, name):
    """Return a context with a function to call after each round."""
    if not is_shown:
        yield lambda: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns) as progress:
        task = progress.add_task(name)
        counter = iter(range(1, 1 << 62))
        yield lambda: progress.update(task, description=f"{name}: round {next(counter)}")

"""Start of EM: initialisers, learnt priors, and clusters of rows.

A cluster of each row, or responsibilities, from which one M-step makes a model.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.random import sample_without_replacement

from sklearn_onlineem._checks import NoStartError, check_columns, check_number, finite_start
from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Where
from sklearn_onlineem._values import components, side_by_side
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.estimators._known import (
    names_instead_of_clusters,
    start_values,
    with_lengths,
)
from sklearn_onlineem.estimators.learning import resumed
from sklearn_onlineem.estimators.parameters import AUTO, are_same
from sklearn_onlineem.estimators.progress import warn_user
from sklearn_onlineem.estimators.threads import single_threaded_blas, single_threaded_openmp
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.families import Family
from sklearn_onlineem.families.capabilities import ConjugatePriors
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, MixtureStatistics
from sklearn_onlineem.statistics import Statistics


class Initialiser(ABC):
    """Contract: returns the model that EM starts from."""

    def for_symbols_of(self, data):
        """Return the initialiser for all symbols of data; a start may see only some rows."""
        family = getattr(self, "family", None)
        if not isinstance(family, Family) or not family.has_symbols:
            return self
        return replace(self, family=family.with_symbols_of(data.X))

    def given(self, data):
        """Return the model that the parameters alone determine, or None."""
        return None

    @abstractmethod
    def estimated(self, data, random_state):
        """Return a model that is estimated from data, and from the given start values."""

    def model(self, data, random_state):
        given = self.given(data)
        return self.estimated(data, random_state) if given is None else given

    def another(self, data, random_state):
        """Return the model of a further start of `n_init`."""
        return self.model(data, random_state)

    def further(self, data, random_state):
        """Return a further start that a stream's may be settled from, as that of a fit, or None."""
        return None

    def lasting(self, pseudo_statistics):
        """Return the part of a stream's pseudo-statistics that settled starts need, too, or None.

        That is of first states and of transitions: many rows may show few of them.
        """
        return None

    def stream_model(self, data, random_state):
        """Return a start from the first batch, and pseudo-statistics to keep it proper, or None."""
        return self.estimated(data, random_state), None


@dataclass(frozen=True, eq=False)
class LearntPrior:
    """A fitted model as a prior, which `as_prior` returns and the parameter `prior` takes.

    Its `statistics` are those of the model itself, per observation, and count for `weight`
    observations. Learning starts from its model, so that components keep their numbers.
    """

    made_by: str
    structure: dict
    n_features: int
    model: Model
    statistics: Statistics
    weight: float
    categories: dict = field(default_factory=dict)

    def check(self, estimator):
        """Raise ValueError unless an estimator has a model of the same shape and no other start."""
        if type(estimator).__name__ != self.made_by:
            raise ValueError(
                f"prior was learnt by a {self.made_by}, not by a {type(estimator).__name__}."
            )
        for name, value in self.structure.items():
            if not are_same(value, getattr(estimator, name)):
                now = getattr(estimator, name)
                raise ValueError(
                    f"prior was learnt with {name}={value!r}, but the estimator has {now!r}."
                )
        for name in estimator._start_parameters:
            if not are_same(estimator._defaults[name], getattr(estimator, name)):
                raise ValueError(
                    f"{name} cannot be combined with a LearntPrior, which sets the initial model."
                )

    def __repr__(self):
        return f"LearntPrior({self.made_by}, weight={self.weight:g})"


# What the parameter `prior` of most estimators may be.
PRIOR = [None, dict, AUTO, LearntPrior]


@dataclass(frozen=True)
class LearntStart(Initialiser):
    """The model of a learnt prior as the start, bound to the first data."""

    estimator: TakesPrior

    def given(self, data):
        prior = self.estimator.prior
        if data.n_features != prior.n_features:
            raise ValueError(
                f"X has {data.n_features} features, but prior was learnt from {prior.n_features}."
            )
        return self.estimator._bound(prior.model, data)

    def estimated(self, data, random_state):
        return self.given(data)


def prior_statistics(family, hyperparameters, *sizes, name="prior", **named_sizes):
    """Return hyper-parameters as pseudo-statistics; errors call them `name`.

    Sizes are further arguments of the family's `prior_statistics`.
    """
    if not isinstance(hyperparameters, dict):
        raise ValueError(f"{name} must be a dict, got {hyperparameters!r}.")
    if not isinstance(family, ConjugatePriors):
        raise ValueError(f"{name}: {type(family).__name__} {ConjugatePriors.lacking}.")
    known = family.prior_keys
    unknown = [key for key in hyperparameters if key not in known] if known is not None else []
    if unknown:
        raise ValueError(f"{name} has the key {unknown[0]!r}; it may have {known}.")
    try:
        return family.prior_statistics(*sizes, **named_sizes, **hyperparameters)
    except ours(TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error


class TakesPrior:
    """Mixin of estimators with a parameter `prior`; they define `_initialiser` and `_prior`."""

    @property
    def _learnt_prior(self):
        return self.prior if isinstance(self.prior, LearntPrior) else None

    @property
    def _hyperparameters(self):
        return None if self._learnt_prior is not None else self.prior

    def _start(self):
        learnt = self._learnt_prior
        if learnt is None:
            return self._initialiser()
        learnt.check(self)
        return LearntStart(self)

    def _pseudo_statistics(self, model, n_features):
        prior, learnt = self._prior(model, n_features), self._learnt_prior
        if learnt is None:
            return prior
        learnt.check(self)
        statistics = learnt.statistics.scale(learnt.weight)
        return statistics if prior is None else prior + statistics

    def _emission_prior(self, family, n_features):
        """Return the parameter `prior` as pseudo-statistics of the components, or None."""
        given = self._hyperparameters
        if given == "auto":
            given = (isinstance(family, ConjugatePriors) and family.smoothing(n_features)) or None
        if given is None:
            return None
        n_components = getattr(self, "n_components", 1)
        return prior_statistics(family, given, n_components, n_features=n_features)

    def as_prior(self, weight: float) -> LearntPrior:
        """Return the fitted model as a prior, for example for the data of the next day.

        Parameters
        ----------
        weight : float
            Number of observations that it counts for, above 0; ``n_samples_seen_`` keeps all of its
            weight.

        Returns
        -------
        prior : LearntPrior
            For the parameter `prior` of an estimator of the same class and shape, which then starts
            from its model.

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, or the weight is not a number above 0.

        Examples
        --------
        >>> from sklearn_onlineem import PoissonMixture
        >>> before = PoissonMixture().fit([[2], [4]])
        >>> after = PoissonMixture(prior=before.as_prior(2.0)).fit([[9], [9]])
        >>> after.means_
        array([[6.]])
        """
        seen = self._seen()
        with error_context(self):
            check_number("weight", weight, 0.0, math.inf)
            fitted, starts = seen._fitted, self._start_parameters
            shape = zip(self._structural_parameters, fitted.structure, strict=True)
            return LearntPrior(
                type(self).__name__, {name: x for name, x in shape if name not in starts},
                seen.n_features_in_, fitted.state.model, fitted.state.own_statistics, float(weight),
                fitted.attributes.get("_categories", {}),
            )  # fmt: skip

    def log_posterior(
        self,
        X: object,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> float:
        r"""Return the log-likelihood of all of X plus the log density of the prior, in nats.

        .. math:: \sum_n w_n \log p(x_n \mid \theta) + \log p(\theta)

        Batch EM with a prior maximises it on its data. The prior is that of the estimator's
        parameters, without the constant that does not depend on the model: compare models with one
        prior.

        Parameters
        ----------
        X : object
            Data, as `fit` takes them.
        y : object, default=None
            Labels or targets, as `fit` takes them.
        sample_weight : array-like, default=None
            Weights, as `fit` takes them.

        Returns
        -------
        log_posterior : float

        References
        ----------
        Brochu, de Freitas & Bao, "Owed to a Martingale", 2004, whose experiments compare it.

        Examples
        --------
        >>> from sklearn_onlineem import PoissonMixture
        >>> X = [[2], [4]]
        >>> mixture = PoissonMixture(prior={"shape": 3.0, "rate": 1.0}).fit(X)
        >>> round(2 * mixture.score(X), 3), round(mixture.log_posterior(X), 3)
        (-3.32, -4.025)
        """
        seen = self._seen()
        with error_context(self):
            data = seen._input().read(X, y, sample_weight=sample_weight, **where)
            model, prior = seen.model_, resumed(seen).prior
            with single_threaded_blas(data.n_rows):
                log_likelihood = data.total_weight * model.e_step(data)[1]
                log_prior = 0.0 if prior is None else model.expected_log_likelihood(prior)
            return float(log_likelihood + log_prior)


@dataclass(frozen=True, eq=False)
class ClusterInitialiser(Initialiser):
    """Components start from clusters of rows, and from the start values that users gave.

    These make the components without clusters, or replace part of them. The prior of the components
    is for rows that alone determine no parameters.
    """

    estimator: TakesPrior
    family: Family
    n_components: int
    init: object
    prior: Callable

    # How further starts begin instead of from k-means, and whether components that have no symbol
    # in common start from all rows, too.
    other: ClassVar[str]
    shares_symbols: ClassVar[bool] = False

    @classmethod
    def of(cls, estimator):
        n_components, init = getattr(estimator, "n_components", 1), getattr(estimator, "init", None)
        return cls(estimator, estimator._family(), n_components, init, estimator._emission_prior)

    @abstractmethod
    def _model(self, mixture, data):
        """Return the model that has the components of a mixture, and the start values."""

    @abstractmethod
    def _pseudo_statistics(self, model, emissions):
        """Return the pseudo-statistics of a stream's start, from those of the components."""

    def _rows(self, data):
        return data

    def given(self, data):
        estimator = self.estimator
        if not (given := start_values(estimator)):
            return None
        names = names_instead_of_clusters(estimator, self.family)
        if not names or not {f"{line.name}init" for line in given}.issuperset(names):
            return None
        rows, n_components = self._rows(data), self.n_components
        family = bound(self.family, rows, n_components)
        parameters = estimator._standard(family, n_components, rows.n_features)
        parameters = with_lengths(family, parameters, rows)
        uniform = np.full(n_components, 1.0 / n_components)
        return self._model(MixtureModel(family, uniform, parameters), data)

    def estimated(self, data, random_state):
        rows, n_components = self._rows(data), self.n_components
        if len(rows) < n_components:
            names = ", ".join(names_instead_of_clusters(self.estimator, self.family))
            instead = f", or all of the initial parameters: {names}" if names else ""
            raise NoStartError(
                f"at least n_components={n_components} rows are needed to start from, got"
                f" n_samples={len(rows)}. Pass more rows{instead}."
            )
        (family, rows), shared = self._complete(rows, random_state), None
        if self.shares_symbols and family.has_symbols:
            warn_of_few(rows.X, n_components)
            evenly = np.full((len(rows), n_components), 1.0 / n_components)
            _, shared = sums(family, rows, evenly, n_components)
        return self._started(data, family, rows, random_state, shared)

    def stream_model(self, data, random_state):
        family, rows = self._complete(self._rows(data), random_state)
        emissions = wide_pseudo_rows(family, rows, self.n_components, self.prior)
        model = self._started(data, family, rows, random_state, emissions)
        return model, self._pseudo_statistics(model, emissions)

    def another(self, data, random_state):
        is_k_means = isinstance(self.init, str) and self.init in ("k-means", "kmeans")
        start = replace(self, init=self.other) if is_k_means else self
        return start.model(data, random_state)

    def _complete(self, rows, random_state):
        """Return the family, bound to rows without gaps, and these rows."""
        complete, family = rows, self.family
        if rows.has_gaps:
            check_columns(rows.X)
            complete = without_gaps(family, rows, random_state, self.prior)
        return (bound(family, rows, self.n_components, complete) if len(rows) else family), complete

    def _first(self, family, rows, random_state):
        """Return a key of `STARTS`, centres, or responsibilities."""
        if isinstance(self.init, str):
            return self.init
        return finite_start("init", self.init, (self.n_components, rows.n_features))

    def _started(self, data, family, rows, random_state, pseudo_rows):
        first = self._first(family, rows, random_state)
        mixture = start_model(
            first, family, rows, self.n_components, random_state, pseudo_rows, self.prior
        )
        return self._model(mixture, data)


# More rows than this, or than so many for each component, do not improve a start.
_MOST_ROWS, _MOST_ROWS_EACH = 1 << 16, 32
# With more components, no array has all rows and components.
_MANY_COMPONENTS = 200
# Components whose statistics are summed together then.
_GROUP = 128
# For each component; more do not improve the matching of components.
_MOST_LABELLED_ROWS = 1 << 10
# Rows and passes of EM in which starts are compared, and the gain in nats per row for which the
# first one is given up; chosen by benchmarks/real_data/starts.py. With fewer rows than 20 for each
# component a higher likelihood says little. Passes end where the likelihood changes by less.
_COMPARED_ROWS, _COMPARED_PASSES, LEAST_GAIN, _FEWEST_ROWS = 1 << 12, 10, 1e-3, 20
_SETTLED = 1e-9
# From so many columns on k-means takes no time beside the M-step of full covariances, and has three
# starts where rows are few.
_MANY_COLUMNS = 64
# Passes of EM of the component from which missing values are drawn.
_FILLING_PASSES = 10
# Pseudo-rows of a stream's start, by parameters of a component per feature; see
# benchmarks/real_data/streams.py.
_WIDE_SHARE = 0.2


def start_model(start, family, rows, n_components, rng, pseudo_rows=None, prior=None):
    """Return the mixture that one M-step makes of first responsibilities.

    `start` is a key of `STARTS`, an array of centres, or one of responsibilities. Each component
    also starts with the `pseudo_rows`, sums over further rows; `prior`, a function of the family
    and the number of features, is added where the rows alone determine no parameters.

    The keys of `STARTS` see distinct rows in a canonical order, with their total weights: what they
    draw depends neither on the order of rows nor on whether equal rows are repeated or weighted.
    """
    n_most = max(_MOST_ROWS, _MOST_ROWS_EACH * n_components)
    if isinstance(start, str) and len(rows) > n_most:
        rows = rows[_some_rows(rows, n_components, n_most, rng)]
    rows = _stored_alike(family, rows)
    if pseudo_rows is None:
        warn_of_few(rows.X, n_components)

    def model_of(rows, clusters, k=n_components):
        further = pseudo_rows
        if further is not None:
            further = further.components(slice(k), n_components)
        counts, statistics = sums(family, rows, clusters, k)
        if further is None and not counts.all():
            further = wide_pseudo_rows(family, rows, k, prior)
        if further is not None:
            statistics = statistics + further
        # An empty cluster starts as if it had a row, or it would stay empty.
        counts[counts == 0] = 1.0
        parameters = _maximiser(family, statistics, rows.X.shape[1], prior)
        return MixtureModel(family, counts / counts.sum(), parameters), further

    def likelihood_of(rows, clusters, k):
        model, further = model_of(rows, clusters, k)
        terms = []
        if pseudo_rows is not None:
            terms = [(1.0 / rows.total_weight, MixtureStatistics(np.zeros(k), further))]
        return climbed(model, rows, _COMPARED_PASSES, terms)[1]

    with single_threaded_openmp():
        if n_components == 1:
            clusters = np.ones((len(rows), 1))
        elif not isinstance(start, str):
            clusters = _from_array(start, family, rows, n_components)
        else:
            distinct, group = distinct_rows(rows)
            if len(distinct) > n_components:
                clusters = STARTS[start](family, distinct, n_components, rng, likelihood_of)
            else:
                clusters = np.arange(len(distinct))
            if rows.labels is None:
                rows = distinct
            else:
                clusters = clusters[group]
    if rows.labels is not None:
        clusters = _with_labels(clusters, rows, n_components)
    return model_of(rows, clusters)[0]


def climbed(model, data, n_passes, terms=()):
    """Return a model after passes of batch EM, and the log-likelihood before the last of them.

    They end where the likelihood stays, at once of clusters with fewer rows than columns.
    """
    before = math.nan
    for _ in range(n_passes):
        model, log_likelihood = batch_step(model, data, terms)
        if abs(log_likelihood - before) <= _SETTLED:
            break
        before = log_likelihood
    return model, log_likelihood


def likeliest(starts, log_likelihood_of, least_gain=0.0):
    """Return the likeliest start; one is given up for those that gain more than the least."""
    if len(starts) == 1:
        return starts[0]
    best, most = None, -np.inf
    for start in starts:
        try:
            log_likelihood = log_likelihood_of(start)
        except ours(ValueError):  # as of clusters without a variance
            log_likelihood = -np.inf
        if best is None or log_likelihood > most + least_gain:
            best, most = start, log_likelihood
    return best


def sums(family, rows, clusters, n_components):
    """Return the weights of clusters, or of responsibilities, and the sums of their statistics."""
    weight = np.ones(len(rows)) if rows.sample_weight is None else rows.sample_weight
    if clusters.ndim == 2:
        if rows.sample_weight is not None:
            clusters = clusters * weight[:, None]
        return clusters.sum(axis=0), family.expected_statistics(rows.X, clusters)
    counts = np.bincount(clusters, weight, n_components)
    # Statistics that list rows have all of them for each component; those of tied parts are pooled.
    is_one = n_components <= _MANY_COMPONENTS or not family.is_conjugate
    is_one |= getattr(family, "tied", False)
    n_groups, parts = 1 if is_one else -(-n_components // _GROUP), []
    order = np.arange(len(rows)) if is_one else np.argsort(clusters, kind="stable")
    ends = np.cumsum(np.bincount(clusters, minlength=n_components))
    for group in np.array_split(np.arange(n_components), n_groups):
        of_group = order[ends[group[0] - 1] if group[0] else 0 : ends[group[-1]]]
        shares = np.zeros((len(of_group), len(group)))
        shares[np.arange(len(of_group)), clusters[of_group] - group[0]] = weight[of_group]
        X = rows.X if is_one else rows.X[of_group]
        parts.append(family.expected_statistics(X, shares))
    return counts, parts[0] if is_one else side_by_side(parts, -(-n_components // n_groups))


def bound(family, rows, n_components, complete=None):
    """Return a family bound to rows; to `complete` ones, or filled ones, where they have gaps."""
    if rows.has_gaps:
        family = family.with_gaps(rows.X, rows.sample_weight, n_components)
        rows = complete or rows.filled()
    return family.bind(rows.X, rows.sample_weight)


def without_gaps(family, rows, rng, prior=None):
    """Return rows with missing values drawn, given the others, from one component fitted to all."""
    filled = rows.filled()
    # Masks are of other components.
    family = family.bind(filled.X, rows.sample_weight).learning_all()
    _, statistics = sums(family, filled, np.ones((len(rows), 1), rows.dtype), 1)
    parameters = _maximiser(family, statistics, rows.n_features, prior)
    model = MixtureModel(family, np.ones(1), parameters)
    model, _ = climbed(model, replace(rows, labels=None), _FILLING_PASSES)
    drawn = model.without_gaps(rows, np.random.default_rng(rng.randint(1 << 31)))
    # Noise in a column of one value would be correlated with other columns.
    varies = filled.X.min(axis=0) < filled.X.max(axis=0)
    return replace(drawn, X=np.where(varies, drawn.X, filled.X))


def _maximiser(family, statistics, n_features, prior):
    """Return the parameters of statistics, with the prior added if these have no maximum."""
    try:
        return family.m_step(statistics)
    except ours(ValueError):
        pseudo_statistics = None if prior is None else prior(family, n_features)
        if pseudo_statistics is None:
            raise
        return family.m_step(statistics + pseudo_statistics)


def _stored_alike(family, rows):
    """Return rows as CSR without zeros if the family takes that, so that equal values start alike.

    Sums of dense and of CSR rows differ in rounding, which breaks ties of distances.
    """
    if not family.takes_sparse:
        return rows
    X = rows.X if sparse.issparse(rows.X) else sparse.csr_array(rows.X)
    if not X.data.all():
        X = X.copy()
        X.eliminate_zeros()
    return replace(rows, X=X)


def _some_rows(rows, n_components, n_most, rng):
    """Return sorted indices of a sample of rows, with all labelled rows if they are few."""
    chosen = np.sort(sample_without_replacement(len(rows), n_most, random_state=rng))
    if rows.labels is None:
        return chosen
    parts = [chosen]
    for k in range(n_components):
        labelled = np.flatnonzero(rows.labels == k)
        if len(labelled) > _MOST_LABELLED_ROWS:
            labelled = rng.choice(labelled, _MOST_LABELLED_ROWS, replace=False)
        parts.append(labelled)
    return np.unique(np.concatenate(parts))


def wide_pseudo_rows(family, rows, n_components, prior=None):
    """Return statistics of a few pseudo-rows for each component, from one wide component.

    They keep densities proper at the start of a stream, with few rows for each component.
    """
    rows, n_features = _stored_alike(family, rows[:_MOST_ROWS]), rows.X.shape[1]
    # All components are alike.
    n_alike = n_components if n_components <= _MANY_COMPONENTS else 2
    _, statistics = sums(family, rows, np.ones((len(rows), n_alike)), n_alike)
    parameters = _maximiser(family, statistics, n_features, prior)
    if n_alike < n_components:
        parameters = components(parameters, np.zeros(n_components, dtype=np.intp), n_alike)
    parameters = family.diagonalised(parameters)
    per_feature = family.n_parameters(parameters) / (n_components * n_features)
    return family.own_statistics(parameters, np.full(n_components, _WIDE_SHARE * per_feature))


def warn_of_few(X, n_components):
    distinct = set()
    for key in _keys(X):
        distinct.add(key)
        if len(distinct) == n_components:
            return
    warn_user(
        f"There are fewer distinct rows ({len(distinct)}) than components ({n_components}).",
        ConvergenceWarning,
    )


def _keys(X):
    """Yield bytes of each row; those of CSR sort as the rows do."""
    if not sparse.issparse(X):
        for row in X:
            yield row.tobytes()
        return
    columns, data = X.indices.astype(">i4"), X.data.astype(">f8")
    for start, end in pairwise(X.indptr):
        yield columns[start:end].tobytes() + data[start:end].tobytes()


def distinct_rows(rows):
    """Return distinct rows, sorted, with their total weights, and the place of each row there."""
    X = rows.X
    if sparse.issparse(X):
        # scikit-learn's k-means takes such indices.
        parts = (X.data, X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32))
        X = sparse.csr_array(parts, shape=X.shape)
        keys = np.array([*_keys(X)], dtype=object)
    else:
        # Numbers from 0 up sort as their bytes do, the most significant first.
        numbers = np.ascontiguousarray(X - X.min(axis=0), dtype=X.dtype.newbyteorder(">"))
        keys = numbers.view(f"V{numbers.dtype.itemsize * X.shape[1]}").ravel()
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    is_new = np.append(True, keys[1:] != keys[:-1])
    group = np.empty(len(rows), dtype=np.intp)
    group[order] = np.cumsum(is_new) - 1
    weight = np.bincount(group, rows.sample_weight).astype(np.float64, copy=False)
    return Rows.unchecked(X[order[is_new]], weight, None, rows.n_threads), group


def _from_array(start, family, rows, n_components):
    if start.shape[0] == len(rows) and start.shape[1] == n_components:
        return start / start.sum(axis=1, keepdims=True)
    centres = sparse.csr_array(start) if sparse.issparse(rows.X) else start
    centres = centres.astype(rows.X.dtype)
    if family.is_nominal:  # Centres need not be codes.
        return pairwise_distances_argmin(rows.X, centres)
    to = family.start_coordinates(rows.X, rows.sample_weight)[0]
    return pairwise_distances_argmin(to(rows.X), to(centres))


def _k_means(family, rows, n_components, rng, likelihood_of):
    """Return the clusters of k-means in those coordinates whose clusters EM makes likeliest."""

    def clusters(X, sample_weight, k, init="k-means++", n_init=1):
        model = KMeans(k, init=init, n_init=n_init, random_state=rng)
        with warnings.catch_warnings():
            # Fewer distinct rows than components: the estimator warns of that itself.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X, sample_weight=sample_weight)

    few, best = some_of(rows, _COMPARED_ROWS, rng), None
    maps = family.start_coordinates(few.X, few.sample_weight)
    best_to = maps[0]
    if len(maps) > 1 and len(rows) >= _FEWEST_ROWS * n_components:
        k = min(n_components, _MANY_COMPONENTS)
        best_to, best = likeliest(
            [(to, clusters(to(few.X), few.sample_weight, k)) for to in maps],
            lambda start: likelihood_of(few, start[1].labels_, k), LEAST_GAIN,
        )  # fmt: skip
    if best is not None and few is rows and n_components == k:
        return best.labels_
    X = best_to(rows.X)
    is_wide = best is None and _MANY_COLUMNS <= X.shape[1] and len(rows) < 4 * X.shape[1]
    settings = {"n_init": 3 if is_wide else 1}
    if best is not None and n_components == k:
        settings = {"init": best.cluster_centers_}
    return clusters(X, rows.sample_weight, n_components, **settings).labels_


def some_of(rows, n_most, rng):
    """Return a sample of rows in order, or all if these are no more."""
    if len(rows) <= n_most:
        return rows
    return rows[np.sort(rng.choice(len(rows), n_most, replace=False))]


def _k_means_plus_plus(family, rows, n_components, rng, likelihood_of):
    """Return the rows nearest to seeds, in those coordinates where EM makes them likeliest."""
    weight, starts = rows.sample_weight, []
    maps = family.start_coordinates(rows.X, weight)
    if len(rows) < _FEWEST_ROWS * n_components or n_components > _MANY_COMPONENTS:
        maps = maps[:1]
    for to in maps:
        X = to(rows.X)
        _, chosen = kmeans_plusplus(X, n_components, sample_weight=weight, random_state=rng)
        starts.append(pairwise_distances_argmin(X, X[chosen]))
    if len(starts) == 1:
        return starts[0]
    few = some_of(np.arange(len(rows)), _COMPARED_ROWS, rng)
    return likeliest(
        starts, lambda labels: likelihood_of(rows[few], labels[few], n_components), LEAST_GAIN
    )


def _random(family, rows, n_components, rng, likelihood_of):
    responsibilities = rng.uniform(size=(len(rows), n_components))
    return responsibilities / responsibilities.sum(axis=1, keepdims=True)


def _random_rows(family, rows, n_components, rng, likelihood_of):
    X = family.start_coordinates(rows.X, rows.sample_weight)[0](rows.X)
    share = rows.sample_weight / rows.sample_weight.sum()
    chosen = rng.choice(len(rows), size=n_components, replace=False, p=share)
    return pairwise_distances_argmin(X, X[chosen])


def _with_labels(clusters, rows, n_components):
    """Match clusters to components by labelled rows, which get their labels."""
    known = np.flatnonzero(rows.labels >= 0)
    labels, agreement = rows.labels[known], np.zeros((n_components, n_components))
    if clusters.ndim == 1:
        np.add.at(agreement, (clusters[known], labels), 1.0)
    else:
        np.add.at(agreement.T, labels, clusters[known])
    _, numbers = linear_sum_assignment(agreement, maximize=True)
    if clusters.ndim == 1:
        clusters = numbers[clusters]
        clusters[known] = labels
    else:
        clusters = clusters[:, np.argsort(numbers)]
        clusters[known] = np.arange(n_components) == labels[:, None]
    return clusters


STARTS = {
    "k-means": _k_means,
    "kmeans": _k_means,
    "k-means++": _k_means_plus_plus,
    "random": _random,
    "random_from_data": _random_rows,
}

"""Products of families: rows with columns of several kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Self, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers, Maps
from sklearn_onlineem.data.rows import PLAIN, Rows, Wanted
from sklearn_onlineem.families._e_step import NOTHING, e_step_in_blocks
from sklearn_onlineem.families._family import Family, linear_e_step
from sklearn_onlineem.families._linear_factors import linear_factor
from sklearn_onlineem.families.capabilities import (
    ColumnDistributions,
    ConjugatePriors,
    Distribution,
    HiddenVariables,
    Marginals,
    Means,
    PosteriorMeans,
    require,
)
from sklearn_onlineem.statistics import Statistics, Sums, combine

# Rows of a block, and most features that are kept for the next pass, as few as kernels fuse.
_BLOCK, _MOST_FEATURES = 1 << 13, 64
# Parameters of each group.
Factors: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class ProductStatistics(Statistics):
    """Statistics of each factor of a product.

    Parameters
    ----------
    factors : tuple of Statistics
        In the order of the families.
    """

    factors: tuple[Statistics, ...]


@dataclass(frozen=True, eq=False)
class Product(
    HiddenVariables[Factors, ProductStatistics],
    Family[Factors, ProductStatistics],
    Means[Factors],
    PosteriorMeans[Factors, ProductStatistics],
    Marginals[Factors, ProductStatistics],
    ColumnDistributions[Factors],
):
    r"""Groups of columns, each of a family of its own, independent within a component.

    .. math:: p(x \mid \theta_k) = \prod_g p_g(x_g \mid \theta_{kg})

    Parameters and statistics are those of the families, side by side in tuples. Values of one group
    may be correlated, if its family has correlations. A group without values leaves its factor out;
    one with some values has the marginal distribution of its family.

    Parameters
    ----------
    families : sequence of Family
        One for each group.
    columns : sequence of int or of sequences of int
        The columns of each group, from 0 up; each column is in one group.
    names : sequence of str, default=None
        Names of the groups, in errors and as keys of priors. None: "0", "1", ...

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Bernoulli, Poisson, Product
    >>> family = Product([Poisson(), Bernoulli()], [0, [1, 2]])
    >>> parameters = np.array([[2.0]]), np.array([[0.5, 0.25]])
    >>> family.log_density(parameters, np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
    array([[-2.98082925],
           [-4.07944154]])
    """

    families: tuple[Family, ...]
    columns: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] | None = None

    def __post_init__(self):
        families = tuple(self.families)
        groups = [[c] if isinstance(c, Integral) else c for c in self.columns]
        columns = tuple(tuple(int(j) for j in group) for group in groups)
        names = self.names if self.names is not None else map(str, range(len(families)))
        values = {"families": families, "columns": columns, "names": tuple(names)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if not families or not len(families) == len(columns) == len(values["names"]):
            raise ValueError("A product needs families, and as many groups of columns, and names.")
        if not all(columns) or sorted(sum(columns, ())) != list(range(self.n_features)):
            raise ValueError(
                f"Each of the columns 0, 1, ... must be in one group of a product, got {columns}."
            )

    @property
    def n_features(self) -> int:
        """Number of columns of a row."""
        return sum(map(len, self.columns))

    # ----------------------------------------------------------------------------------- settings

    @property
    def determined_by_means(self) -> bool:
        return all(family.determined_by_means for family in self.families)

    @property
    def is_nominal(self) -> bool:
        return all(family.is_nominal for family in self.families)

    @property
    def has_symbols(self) -> bool:
        return any(family.has_symbols for family in self.families)

    @property
    def is_conjugate(self) -> bool:
        return all(family.is_conjugate for family in self.families)

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        bound = [family.bind(rows, sample_weight) for family, rows in self._groups(X)]
        return replace(self, families=tuple(bound))

    def with_symbols_of(self, X: Floats) -> Self:
        families = [family.with_symbols_of(rows) for family, rows in self._groups(X)]
        return replace(self, families=tuple(families))

    def with_gaps(self, X: Floats, sample_weight: Floats | None, n_components: int) -> Self:
        groups = self._groups(X)
        families = [family.with_gaps(rows, sample_weight, n_components) for family, rows in groups]
        return replace(self, families=tuple(families))

    def check(self, X: Floats) -> None:
        self._check_columns(X)
        for family, rows, name in self._groups(X, self.names):
            try:
                if not isinstance(family, Marginals):
                    rows = rows[_completeness(family, rows)]
                if len(rows):
                    family.check(rows)
            except ours(ValueError) as error:
                raise ValueError(f"column(s) {name}: {error}") from error

    def _check_columns(self, X):
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the groups of the family have {self.n_features}."
            )

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        # Distances of rows are sums over groups, each in the units of its own variance.
        maps = []
        for family, rows in self._groups(X):
            of_family = _to_numbers(family, rows, sample_weight)
            maps.append([_scaled(to, rows, sample_weight) for to in of_family])
        n = max(map(len, maps))
        chosen = [[to[min(i, len(to) - 1)] for to in maps] for i in range(n)]
        return tuple(partial(self._coordinates, maps=maps) for maps in chosen)

    def _coordinates(self, X, maps):
        return np.concatenate([to(rows) for _, rows, to in self._groups(X, maps)], axis=1)

    def sufficient_statistics(self, X: Floats) -> FloatsOrSparse:
        """Return the one-hot coding of all columns, if all families are nominal."""
        return sparse.hstack(
            [family.sufficient_statistics(rows) for family, rows in self._groups(X)], format="csr"
        )

    def _groups(self, X, *values) -> Iterator[tuple]:
        """Yield families with their columns of X, and with factors of parameters or statistics."""
        for family, columns, *own in self._each(self.columns, *values):
            yield family, np.ascontiguousarray(X[:, list(columns)]), *own

    def _each(self, *values):
        """Iterate over families, and over factors of parameters or statistics beside them."""
        return zip(self.families, *values, strict=True)

    # ---------------------------------------------------------------------------------- densities

    def log_density(self, parameters: Factors, X: Floats, n_threads: int = 1) -> Floats:
        self._check_columns(X)
        groups = self._groups(X, parameters)
        return sum(family.log_density(own, rows, n_threads) for family, rows, own in groups)

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> ProductStatistics:
        return _joint(
            family.expected_statistics(rows, responsibilities, n_threads)
            for family, rows in self._groups(X)
        )

    def posterior_statistics(
        self,
        parameters: Factors,
        X: Floats,
        posterior: Floats,
        n_threads: int = 1,
        rng: Generator | None = None,
    ) -> ProductStatistics:
        return _joint(
            family._statistics_given(rng)(own, rows, posterior, n_threads)
            for family, rows, own in self._groups(X, parameters)
        )

    def own_statistics(self, parameters: Factors, weights: Floats) -> ProductStatistics:
        return _joint(family.own_statistics(own, weights) for family, own in self._each(parameters))

    def m_step(self, statistics: ProductStatistics, previous: Factors | None = None) -> Factors:
        if previous is None:
            previous = (None,) * len(self.families)
        return tuple(
            family.m_step(factor, before)
            for family, factor, before in self._each(statistics.factors, previous)
        )

    def kl_divergence(self, p: Factors, q: Factors) -> Floats:
        return sum(family.kl_divergence(*both) for family, *both in self._each(p, q))

    def expected_log_density(self, parameters: Factors, statistics: ProductStatistics) -> float:
        return sum(
            family.expected_log_density(own, factor)
            for family, own, factor in self._each(parameters, statistics.factors)
        )

    def sample(self, parameters: Factors, components: Integers, rng: Generator) -> Floats:
        drawn = [family.sample(own, components, rng) for family, own in self._each(parameters)]
        return self._joined(drawn)

    def sample_like(
        self, parameters: Factors, components: Integers, X: Floats, rng: Generator
    ) -> Floats:
        drawn = []
        for family, rows, own in self._groups(X, parameters):
            known = rows[~np.isnan(rows).any(axis=1)]
            drawn.append(family.sample_like(own, components, known, rng))
        return self._joined(drawn)

    def _joined(self, parts):
        """Return columns of all groups in their places."""
        dtype = np.result_type(*parts)
        out = np.empty((len(parts[0]), self.n_features), dtype)
        for columns, part in zip(self.columns, parts, strict=True):
            out[:, list(columns)] = part
        return out

    def n_parameters(self, parameters: Factors) -> int:
        return sum(family.n_parameters(own) for family, own in self._each(parameters))

    def n_shared_parameters(self, parameters: Factors) -> int:
        return sum(family.n_shared_parameters(own) for family, own in self._each(parameters))

    def with_shared(self, parameters: Factors, shared: Factors) -> Factors:
        return tuple(
            family.with_shared(own, other) for family, own, other in self._each(parameters, shared)
        )

    def effective_counts(self, statistics: ProductStatistics) -> Floats:
        each = self._each(statistics.factors)
        return np.mean([family.effective_counts(factor) for family, factor in each], axis=0)

    def n_values(self, rows: Rows) -> float:
        groups = self._groups(rows.X)
        return sum(family.n_values(Rows.unchecked(X, rows.sample_weight)) for family, X in groups)

    def diagonalised(self, parameters: Factors) -> Factors:
        return tuple(family.diagonalised(own) for family, own in self._each(parameters))

    # -------------------------------------------------------------------------------------- means

    def check_means(self, means: Floats) -> None:
        for family, rows, name in self._groups(means, self.names):
            try:
                require(family, Means).check_means(rows)
            except ours(ValueError) as error:
                raise ValueError(f"column(s) {name}: {error}") from error

    def means(self, parameters: Factors) -> Floats:
        each = self._each(parameters)
        return self._joined([require(family, Means).means(own) for family, own in each])

    def with_means(self, parameters: Factors, means: Floats) -> Factors:
        groups = self._groups(means, parameters)
        return tuple(require(family, Means).with_means(own, rows) for family, rows, own in groups)

    def distribution(self, parameters: Factors, column: int) -> Distribution:
        for family, columns, own in self._each(self.columns, parameters):
            if column in columns:
                family = require(family, ColumnDistributions)
                return family.distribution(own, columns.index(column))
        raise IndexError(f"column must be one of {self.columns}, got {column!r:.60}.")

    def covariances(self, parameters: Factors) -> Floats:
        order, each = np.concatenate(self.columns), self._each(parameters)
        found = [require(family, ColumnDistributions).covariances(own) for family, own in each]
        out = np.empty((len(found[0]), len(order), len(order)))
        for k, matrix in enumerate(out):
            matrix[np.ix_(order, order)] = block_diag(*(blocks[k] for blocks in found))
        return out

    # ------------------------------------------------------------------------------------- priors

    @property
    def prior_keys(self) -> list[str]:
        return list(self.names)

    def smoothing(self, n_features: int) -> Mapping[str, object]:
        if not all(isinstance(family, ConjugatePriors) for family in self.families):
            return {}
        groups = self._each(self.names, self.columns)
        found = {name: family.smoothing(len(columns)) for family, name, columns in groups}
        return {name: hyperparameters for name, hyperparameters in found.items() if hyperparameters}

    def prior_statistics(
        self, n_components: int, *, n_features: int, **of_groups: Mapping[str, object]
    ) -> ProductStatistics:
        """Return the product of the priors of all groups.

        Parameters
        ----------
        **of_groups : dict
            By the names of groups, the arguments of their families' `prior_statistics`. Groups that
            are not named have no prior.
        """
        found = []
        for family, name, columns in self._each(self.names, self.columns):
            given, known = of_groups.get(name, {}), require(family, ConjugatePriors).prior_keys
            if not isinstance(given, Mapping):
                raise ValueError(f"{name} must be a dict of hyper-parameters, got {given!r}.")
            unknown = [key for key in given if known is not None and key not in known]
            if unknown:
                raise ValueError(f"{name} has the key {unknown[0]!r}; it may have {known}.")
            found.append(family.prior_statistics(n_components, n_features=len(columns), **given))
        return _joint(found)

    def mean_form(self, prior: ProductStatistics) -> ProductStatistics:
        each = self._each(prior.factors)
        return _joint(require(family, PosteriorMeans).mean_form(factor) for family, factor in each)

    # ------------------------------------------------------------------------------ missing values

    def marginal_log_density(self, parameters: Factors, X: Floats, n_threads: int = 1) -> Floats:
        self._check_columns(X)
        total = None
        for family, rows, own in self._groups(X, parameters):
            complete = _completeness(family, rows)
            if complete.all():
                found = family.log_density(own, rows, n_threads)
            else:
                n_components = len(family.kl_divergence(own, own))
                found = np.zeros((len(rows), n_components), X.dtype)
                if complete.any():
                    found[complete] = family.log_density(own, rows[complete], n_threads)
                if isinstance(family, Marginals):
                    incomplete = rows[~complete]
                    found[~complete] = family.marginal_log_density(own, incomplete, n_threads)
            total = found if total is None else total + found
        return total

    def marginal_statistics(
        self, parameters: Factors, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> ProductStatistics:
        factors = []
        for family, rows, own in self._groups(X, parameters):
            complete, terms = _completeness(family, rows), []
            if complete.any():
                args = rows[complete], posterior[complete], n_threads
                terms.append((1.0, family.posterior_statistics(own, *args)))
            if not complete.all():
                shares = posterior[~complete]
                if isinstance(family, Marginals):
                    found = family.marginal_statistics(own, rows[~complete], shares, n_threads)
                else:
                    found = family.own_statistics(own, shares.sum(axis=0, dtype=np.float64))
                terms.append((1.0, found))
            factors.append(combine(terms))
        return _joint(factors)

    def completed(self, parameters: Factors, X: Floats, posterior: Floats) -> Floats:
        parts = []
        for family, rows, own in self._groups(X, parameters):
            incomplete = ~_completeness(family, rows)
            if not incomplete.any():
                pass
            elif isinstance(family, Marginals):
                rows[incomplete] = family.completed(own, rows[incomplete], posterior[incomplete])
            else:
                rows[incomplete] = posterior[incomplete] @ require(family, Means).means(own)
            parts.append(rows)
        return self._joined(parts)

    def drawn(self, parameters: Factors, X: Floats, components: Integers, rng: Generator) -> Floats:
        parts = []
        for family, rows, own in self._groups(X, parameters):
            incomplete = ~_completeness(family, rows)
            chosen = components[incomplete]
            if isinstance(family, Marginals):
                rows[incomplete] = family.drawn(own, rows[incomplete], chosen, rng)
            else:
                rows[incomplete] = family.sample(own, chosen, rng)
            parts.append(rows)
        return self._joined(parts)

    # -------------------------------------------------------------------------------------- E-step

    def e_step(
        self, parameters: Factors, log_weights: Floats, rows: Rows, wanted: Wanted = PLAIN
    ) -> tuple[Floats, ProductStatistics, float]:
        how = parameters, log_weights, rows, wanted
        return self._joint_e_step(*how) or e_step_in_blocks(self, *how, n_rows=_BLOCK)

    def _joint_e_step(self, parameters, log_weights, rows, wanted):
        """Return the E-step by one matrix product of all factors, or None if they have none."""
        self._check_columns(rows.X)
        # The family is kept with the values, so that its id cannot be reused.
        _, factors, reals, digits, order, base = rows.remember(
            (id(self), "joint"), lambda: (self, *self._side_by_side(rows))
        )
        if factors is None:
            return None
        terms = [factor.terms(own) for factor, own in zip(factors, parameters, strict=True)]
        if any(term is None for term in terms):
            return None
        naturals, constants = zip(*terms, strict=True)
        offset = log_weights + sum(constants)
        natural = np.concatenate(naturals, axis=1).take(order, axis=1)
        counts, sums, log_likelihood = linear_e_step(
            reals, base, natural, offset, rows, wanted, digits
        )
        total = np.empty_like(sums.total)
        total[:, order] = sums.total
        ends = np.cumsum([natural.shape[1] for natural in naturals])
        totals = np.split(total, ends[:-1], axis=1)
        evidence = _joint(
            factor.evidence(own, Sums(counts, np.ascontiguousarray(total)))
            for factor, own, total in zip(factors, parameters, totals, strict=True)
        )
        return counts, evidence, log_likelihood

    def _side_by_side(self, rows):
        """Return factors of all families, features, digits, their order, and base measures.

        Digits are features that are whole numbers below 256. All are None if one factor is.
        """
        none = (None,) * 5
        factors, n_features = [], 0
        for family, X in self._groups(rows.X):
            factor = linear_factor(family, X, rows.n_threads)
            if factor is None:
                return none
            factors.append(factor)
            n_features += factor.features.shape[1]
            if n_features > _MOST_FEATURES:
                return none
        if n_features == 0:  # All columns have one category.
            return none
        features = np.concatenate([_dense(factor.features) for factor in factors], axis=1)
        bases = [factor.base for factor in factors if len(factor.base)]
        for factor in factors:
            del factor.features
        with np.errstate(invalid="ignore"):
            digits = features.astype(np.uint8)
        is_digit = (digits == features).all(axis=0)
        is_digit[: 1 if is_digit.all() else 0] = False  # Kernels need a real feature.
        order = np.argsort(is_digit, kind="stable")
        reals = np.ascontiguousarray(features[:, ~is_digit])
        digits = np.ascontiguousarray(digits[:, is_digit].T)
        return factors, reals, digits, order, sum(bases) if bases else NOTHING


def _joint(factors):
    return ProductStatistics(tuple(factors))


def _completeness(family, rows):
    """Return which rows are complete; ValueError if others have values that count for nothing."""
    missing = np.isnan(rows)
    complete = ~missing.any(axis=1)
    if not isinstance(family, Marginals) and not missing[~complete].all():
        raise ValueError(
            f"{type(family).__name__} {Marginals.lacking}: all columns of it must be missing in a"
            " row, or none."
        )
    return complete


def _to_numbers(family, X, sample_weight):
    """Return maps to coordinates in which distances make sense, also of rows between symbols."""
    if family.is_nominal:
        least, greatest = X.min(axis=0), X.max(axis=0)
        return [lambda rows: family.sufficient_statistics(np.clip(np.rint(rows), least, greatest))]
    if family.takes_sparse:
        maps = family.start_coordinates(sparse.csr_array(X), sample_weight)
        return [lambda rows, to=to: to(sparse.csr_array(rows)) for to in maps]
    return family.start_coordinates(X, sample_weight)


def _scaled(to, X, sample_weight):
    """Return a map to coordinates of which the variances add up to the number of columns."""
    Z = _dense(to(X)).astype(np.float64)
    mean = np.average(Z, axis=0, weights=sample_weight)
    variance = np.average((Z - mean) ** 2, axis=0, weights=sample_weight).sum()
    unit = np.sqrt(X.shape[1] / variance) if variance > 0.0 else 1.0
    return lambda rows: (unit * _dense(to(rows))).astype(rows.dtype)


def _dense(Z):
    return Z.toarray() if sparse.issparse(Z) else Z

"""Products of categorical distributions over integer codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import rel_entr

from sklearn_onlineem._checks import LEAST, REALS, above, check_setting, shares_as_given
from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._kernels._rows import are_codes
from sklearn_onlineem._python import cached_property, ours
from sklearn_onlineem._typing import Floats, Generator, Integers, Maps
from sklearn_onlineem.data.sparse import check_indexed
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._e_step import drawn_from, log_of
from sklearn_onlineem.families._family import normalised
from sklearn_onlineem.families._independent_columns import ExponentialColumns, filled
from sklearn_onlineem.families._start_coordinates import unchanged
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import Shares, ShareTangents
from sklearn_onlineem.statistics import Sums

# A stray code of 1e10 must be an error, not an allocation; nor are tables made for codes that are
# neither below this nor below the number of rows, unless their number is given.
_MOST_CATEGORIES, _MOST_UNASKED = 1 << 20, 1 << 12


class _Entries(NamedTuple):
    """One-hot rows in CSR: a matrix of scipy takes longer than the arithmetic on a few rows."""

    data: Floats
    indices: Integers
    indptr: Integers
    shape: tuple[int, int]
    dtype: np.dtype


class CategoricalTangents(ShareTangents):
    """Tangents of the probabilities of symbols in each column, which may have several numbers."""

    @cached_property
    def _places(self):
        """Which numbers of a table of columns by the most symbols are of symbols, (d, C)."""
        sizes = np.array([p.shape[1] for p in self.family.probabilities(self.parameters)])
        return np.arange(sizes.max()) < sizes[:, None]

    def _rows(self, flat):
        # Columns of equally many symbols have no places without one.
        if isinstance(self.family.n_categories, int):
            return flat.reshape(-1, self.family.n_categories)
        out = np.zeros((len(flat), *self._places.shape))
        out[:, self._places] = flat
        return out.reshape(-1, out.shape[2])

    @cached_property
    def _shares(self):
        return Shares(self._rows(self.parameters))

    def _flat(self, rows):
        if isinstance(self.family.n_categories, int):
            return super()._flat(rows)
        return rows.reshape(-1, *self._places.shape)[:, self._places]


def tables_of(values):
    """Return given probabilities as a list of arrays, one for each column."""
    if not isinstance(values, list | tuple | np.ndarray) or not len(values):
        raise ValueError("probabilities_ must be a list of arrays, one for each column.")
    try:
        tables = [np.asarray(table, dtype=np.float64) for table in values]
    except ours(TypeError, ValueError):
        raise ValueError("probabilities_ must be arrays of numbers.") from None
    if any(table.ndim != 2 or not table.size for table in tables):
        raise ValueError("probabilities_ must be arrays of shape (n_components, n_categories).")
    return tables


def _put_tables(family, parameters, values):
    sizes = [part.shape[1] for part in family.probabilities(parameters)]
    tables = tables_of(values)
    if [table.shape for table in tables] != [(len(parameters), size) for size in sizes]:
        found = [table.shape for table in tables]
        raise ValueError(
            f"probabilities_ must be arrays of {len(parameters)} rows and {sizes} columns, got"
            f" shapes {found}."
        )
    shares = [shares_as_given("probabilities_", table) for table in tables]
    return np.concatenate(shares, axis=1)


def _put_flat(family, parameters, values):
    by_column = values.reshape(len(values), -1, family.n_categories)
    return shares_as_given("emissionprob_", by_column).reshape(values.shape)


def _flat(family, parameters):
    return parameters


@dataclass(frozen=True)
class Categorical(ExponentialColumns, _collapsed.CollapsedCounts):
    r"""Independent symbols, :math:`p(x \mid p) = \prod_j p_{j, x_j}`, one code 0, 1, ... a column.

    :math:`\phi(x)` is the one-hot coding, :math:`\theta = \log p`,
    :math:`G(\theta) = \sum_j \log \sum_c e^{\theta_{jc}}`. Parameters are the probabilities of the
    codes of all columns, side by side, an ndarray of shape (K, n_features * n_categories), or (K,
    sum of n_categories) if columns have different numbers.

    Parameters
    ----------
    n_categories : int or array-like of int, default=None
        Number of codes of all columns, or of each one, kept as a tuple. None, also for one column:
        one more than the largest code of the column in the first data, which must then be below
        4096 or the number of rows.
    min_probability : float, default=1e-10
        Floor of the probabilities in M-steps, from 1e-100 to 1, so that all symbols have a
        probability.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Categorical
    >>> family = Categorical(n_categories=3)
    >>> np.exp(family.log_density(np.array([[0.2, 0.3, 0.5]]), np.array([[2.0], [0.0]])))
    array([[0.5],
           [0.2]])
    """

    tangents = CategoricalTangents

    n_categories: int | ArrayLike | None = None
    min_probability: float = 1e-10

    determined_by_means = False
    is_nominal = True
    parts = (
        means_part(),
        Part("probabilities", "probability", None, _flat, _put_tables, has_floor=True),
        Part("emissionprob", "probability", "ks", _flat, _put_flat, has_floor=True),
    )

    def __post_init__(self):
        check_setting("min_probability", self.min_probability, LEAST, 1.0)
        sizes = self.n_categories
        if isinstance(sizes, np.ndarray | list):
            sizes = tuple(np.asarray(sizes).tolist())
        each = sizes if isinstance(sizes, tuple) else (sizes,)
        known = [n for n in each if n is not None]
        if not each or not all(
            isinstance(n, Integral) and 1 <= n <= _MOST_CATEGORIES for n in known
        ):
            raise ValueError(
                f"n_categories must be whole numbers from 1 to {_MOST_CATEGORIES}, one of all"
                f" columns or one of each, got {self.n_categories!r}."
            )
        object.__setattr__(self, "n_categories", sizes)

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        return self.with_symbols_of(X)

    def with_symbols_of(self, X: Floats) -> Self:
        greatest = np.fmax.reduce(X, axis=0).tolist()
        return self.with_numbers([int(x) + 1 if x == x else None for x in greatest])

    def with_numbers(self, numbers: Sequence[int | None]) -> Self:
        """Return the family with numbers of categories, or None, for columns where it has none.

        Parameters
        ----------
        numbers : sequence of int or None
            One for each column; None: not known.
        """
        given = (None,) * len(numbers) if self.n_categories is None else self.n_categories
        if isinstance(given, Integral) or None not in given or len(given) != len(numbers):
            return self
        sizes = tuple(new if old is None else old for old, new in zip(given, numbers, strict=True))
        return replace(self, n_categories=sizes[0] if len(set(sizes)) == 1 else sizes)

    def _sizes(self, n_features):
        """Return the numbers of categories of columns; ValueError if they are of others."""
        sizes = self.n_categories
        if not isinstance(sizes, tuple):
            return np.full(n_features, sizes)
        if len(sizes) != n_features:
            raise ValueError(
                f"X has {n_features} columns, but there are numbers of categories of {len(sizes)}."
            )
        return np.array(sizes, dtype=object if None in sizes else None)

    def probabilities(self, parameters: Floats) -> list[Floats]:
        """Return probabilities of the codes of each column, arrays of shape (K, n_categories)."""
        sizes = self._sizes_of(parameters)
        return np.split(parameters, np.cumsum(sizes)[:-1], axis=1)

    def _sizes_of(self, flat):
        if not isinstance(self.n_categories, tuple):
            return np.full(flat.shape[1] // self.n_categories, self.n_categories)
        return np.array(self.n_categories)

    def check(self, X: Floats) -> None:
        self._check_codes(X, may_lack=True)

    def _check_codes(self, X, may_lack=False):
        if not isinstance(X, np.ndarray):
            raise ValueError("Categorical data must be dense codes.")
        sizes, unasked, where = self.n_categories, max(_MOST_UNASKED, len(X)), ""
        if isinstance(sizes, tuple):
            most = np.array([unasked if n is None else n for n in self._sizes(X.shape[1])])
            wrong = ~((X >= 0.0) & (most > X) & (np.floor(X) == X))
            if not wrong.any():
                return
            j = np.flatnonzero(wrong.any(axis=0))[0]
            given, most, where = sizes[j], most[j], f" in column {j}"
        else:
            given, most, reals = sizes, unasked if sizes is None else sizes, X
            if not X.flags.carray or X.dtype not in REALS:
                reals = np.require(X, None if X.dtype in REALS else np.float64, "AC")
            if are_codes(reals, most):
                return
        if may_lack and np.isnan(X).any():
            return self._check_codes(filled(X, 0.0))
        if given is None:
            why = (
                f" ({_MOST_UNASKED} codes, or as many as rows) if n_categories is not given. Number"
                " categories anew, for instance by sklearn.preprocessing.OrdinalEncoder, or declare"
                " them in the types of a data frame."
            )
        else:
            why = (
                f", as n_categories={given} (n_features of a hidden Markov model); if not given it"
                " is what the first data show."
            )
        raise ValueError(f"Categorical data must be integer codes in 0..{most - 1}{where}{why}")

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        # Between codes there are no distances, but a single column has nothing else.
        return (self.sufficient_statistics if X.shape[1] > 1 else unchanged,)

    def sufficient_statistics(self, X: Floats) -> Floats:
        phi = self._features(X)
        # Scikit-learn, which finds the first clusters, takes no pointers of 64 bits.
        indptr = phi.indptr.astype(np.int32 if X.size < 1 << 31 else np.int64)
        return sparse.csr_array((phi.data, phi.indices, indptr), shape=phi.shape)

    def _features(self, X):
        # Codes become columns, which kernels do not check, and another thread may write to X.
        X = X.copy()
        self._check_codes(X)
        n_features, sizes = X.shape[1], self.n_categories
        # Few calls of NumPy, as updates of streams are as short as these.
        ends = np.cumsum(self._sizes(n_features)) if isinstance(sizes, tuple) else None
        n_columns = int(n_features * sizes if ends is None else ends[-1])
        check_indexed(n_columns)
        columns = X.astype(np.int32)
        if ends is not None:
            columns[:, 1:] += ends[:-1].astype(np.int32)
        elif n_features > 1:
            columns += sizes * np.arange(n_features, dtype=np.int32)
        indptr = np.arange(0, X.size + 1, n_features)
        ones = np.empty(X.size, dtype=X.dtype)
        ones.fill(1.0)  # `np.ones` takes three times as long.
        return _Entries(ones, columns.ravel(), indptr, (len(X), n_columns), X.dtype)

    def _terms(self, parameters, n_statistics):
        return self.to_natural(parameters), np.zeros(len(parameters))  # They add up to 1.

    def kl_divergence(self, p: Floats, q: Floats) -> Floats:
        return rel_entr(p, q).sum(axis=1)

    def to_natural(self, parameters: Floats) -> Floats:
        # Probabilities that are fixed may be 0.
        return log_of(parameters)

    def from_natural(self, natural: Floats) -> Floats:
        return self._normalised(np.exp(natural))

    def means(self, parameters: Floats) -> Floats:
        # Means of the codes.
        codes = np.concatenate([np.arange(n, dtype=float) for n in self._sizes_of(parameters)])
        return self._sums(parameters * codes)

    def with_means(self, parameters: Floats, means: Floats) -> Floats:
        raise ValueError("The means of codes do not determine their probabilities.")

    def log_partitions(self, natural: Floats) -> Floats:
        return np.log(self._sums(np.exp(natural)))

    def _columns(self, n_statistics, n_features):
        return np.repeat(np.arange(n_features), self._sizes(n_features))

    def _typical(self, parameters, column, posterior):
        return np.argmax(posterior @ self.probabilities(parameters)[column], axis=1)

    def _drawn_values(self, parameters, components, columns, n_features, rng):
        cumulated = self._cumulative(parameters)[components, columns]
        return drawn_from(cumulated, rng).astype(np.float64)

    def _sums(self, flat):
        """Return the sums of each column's numbers, (K, n_features)."""
        if not isinstance(self.n_categories, tuple):
            return flat.reshape(len(flat), -1, self.n_categories).sum(axis=2)
        starts = np.cumsum((0, *self.n_categories[:-1]))
        return np.add.reduceat(flat, starts, axis=1)

    def _normalised(self, flat):
        """Return numbers divided by the sums of each column."""
        if not isinstance(self.n_categories, tuple):
            return normalised(flat, self.n_categories)
        return flat / np.repeat(self._sums(flat), self._sizes_of(flat), axis=1)

    def _cumulative(self, flat):
        """Return cumulative sums over the codes of each column, the last ones repeated."""
        parts, most = self.probabilities(flat), self._sizes_of(flat).max()
        sums = [np.cumsum(part, axis=1) for part in parts]
        padded = [np.pad(part, ((0, 0), (0, most - part.shape[1])), "edge") for part in sums]
        return np.stack(padded, axis=1)

    def regularise(self, mean: Floats) -> Floats:
        return self._normalised(np.maximum(mean, self.min_probability))

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        return drawn_from(self._cumulative(parameters)[components], rng).astype(np.float64)

    def n_parameters(self, parameters: Floats) -> int:
        return parameters.size - len(parameters) * len(self._sizes_of(parameters))

    def smoothing(self, n_features: int) -> Mapping[str, float]:
        return {"concentration": 1.5}

    def prior_statistics(
        self, n_components: int, *, n_features: int, concentration: ArrayLike = 1.0
    ) -> Sums:
        """Return a Dirichlet prior on the probabilities.

        Parameters
        ----------
        concentration : array broadcasting to (n_components, n_features * n_categories), default=1.0
            Above 0; pseudo-counts of the categories are one less.
        """
        shape = (n_components, int(self._sizes(n_features).sum()))
        total = above("concentration", concentration, 0.0, shape) - 1.0
        return Sums(total.sum(axis=1) / n_features, total)

    def mean_form(self, prior: Sums) -> Sums:
        return Sums(prior.weight + self._sizes_of(prior.total).mean(), prior.total + 1.0)

    def predictive_log_density(self, statistics: Sums, X: Floats, n_threads: int = 1) -> Floats:
        concentration = _collapsed.concentration_of(self, statistics)
        sums = self._sums(concentration)
        log_density = self.sufficient_statistics(X) @ np.log(concentration.T)
        return log_density - np.log(sums).sum(axis=1)

    def draw_from_posterior(self, statistics: Sums, rng: Generator) -> Floats:
        parts = self.probabilities(_collapsed.concentration_of(self, statistics))
        drawn = [_collapsed.drawn_proportions(concentration, rng) for concentration in parts]
        return self.regularise(np.concatenate(drawn, axis=1))

    def _swept(self, prior, X):
        symbols = _collapsed.concentration_of(self, prior)
        further = {"second_prior": self._sums(symbols)}
        return _collapsed_counts.CATEGORICAL, self.sufficient_statistics(X), symbols, further

"""Tables of words and components; small batches of documents change few of their rows.

A step of online EM scales all numbers of a component by one factor, adds the same pseudo-count to
each of its words, and adds evidence to the words of the batch. So a `WordTable` is rows that stay,
with a factor and an addend for each component, and a step writes only the rows of its words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels._topic_tables import (
    column_divergences,
    inverse_powers,
    shift_divergences,
)
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Integers
from sklearn_onlineem._values import Rebuilt, frozen
from sklearn_onlineem.statistics import Sums

# Smaller tables are fast enough as arrays, and so are those of which a batch may change much.
_LEAST_NUMBERS, _LEAST_WORDS_PER_VALUE = 1 << 17, 4
# Below it, factors could underflow, and tables are written anew; what is nothing beside an addend.
_LEAST_SCALE, _TINY = 1e-100, 1e-20
_NO_WORDS = np.empty(0, dtype=np.int64)
# Terms of a series, and up to which relative distance from its anchor those left out are rounding
# errors; the largest relative change of a step after which a series is worth a pass over the table.
_N_POWERS, _REACH, _SMALL_STEP = 12, 0.125, 0.05


@dataclass(frozen=True, eq=False)
class WordTable:
    """A table of numbers ``scale * x + shift`` with a row for each word.

    `rows` (n_rows, n_components) are x, not below 0, with room for more; later tables share them.
    The first is 0, and is that of all words whose x are; `places` are the rows of words. Rows to
    `end` are in use by this table and those it came from. `claims` says which tables write rows
    from some `end` on; others copy the rows first. `sums` are those of the numbers over the words.
    A factor is 0 if x are. A step began with the scale `before`, and `changed` words. `anchor` are
    numbers a near ``shift / scale``, and `powers` sums over the rows of ``(a / (x + a))**j``, j =
    1, ...; both may be None.
    """

    rows: Floats
    places: Integers
    end: int
    claims: dict[int, object]
    scale: Floats
    shift: Floats
    sums: Floats
    before: Floats | None = None
    changed: Integers | None = None
    anchor: Floats | None = None
    powers: Floats | None = None

    # Later tables write to the array of rows, so `frozen` leaves it as it is.
    _arrays_grow = True

    @classmethod
    def of(cls, table: Floats) -> Self:
        """Return the table of an array (n_words, n_components)."""
        shift = table.min(axis=0)
        above = table - shift
        scale = np.sign(above.max(axis=0))
        return cls(*_packed(above, above.any(axis=1)), {}, scale, shift, table.sum(axis=0))

    def at(self, words: Integers | slice) -> Floats:
        """Return the numbers of some words, (n, n_components)."""
        values = self.rows[self.places[words]]
        values *= self.scale
        values += self.shift
        return values

    @cached_property
    def array(self) -> Floats:
        """The table as an array, (n_words, n_components)."""
        return frozen(self.at(slice(None)))

    @cached_property
    def array_T(self) -> Floats:
        """The transpose, (n_components, n_words)."""
        return frozen(np.ascontiguousarray(self.at(slice(None)).T))

    def stepped(
        self, factors: Floats, constants: Floats, words: Integers, values: Floats
    ) -> WordTable:
        """Return the table times factors, plus constants, both (K,), plus values of some words."""
        scale, shift = self.scale * factors, self.shift * factors + constants
        is_flat = scale < _LEAST_SCALE
        if is_flat.any():
            kept = is_flat & (self.scale == 0.0) & (values.max(axis=0, initial=0.0) < _TINY * shift)
            if (kept != is_flat).any():
                table = self.at(slice(None)) * factors + constants
                table[words] += values
                return WordTable.of(table)
        sums = self.sums * factors + len(self.places) * constants + values.sum(axis=0)
        rows, places, end, claims, claim = self.rows, self.places, self.end, self.claims, object()
        new = rows[places[words]]
        new += np.divide(values, scale, out=np.zeros_like(values), where=~is_flat)
        if end + len(words) > len(rows) or claims.setdefault(end, claim) is not claim:
            rows, places, end = _packed(rows[places], places > 0, len(words))
            claims = {end: claim}
        else:
            places = places.copy()
        rows[end : end + len(words)] = new
        places[words] = np.arange(end, end + len(words))
        anchor, powers = self.anchor, self.powers
        after, before = _ratio(shift, scale), _ratio(self.shift, self.scale)
        if _reaches(anchor, after):
            powers = powers + _powers(rows, places[words], anchor)
            powers -= _powers(self.rows, self.places[words], anchor)
        elif (np.abs(after - before) <= _SMALL_STEP * before).all() and after.all():
            anchor = np.where(after < before, 0.9, 1.1) * after
            powers = _powers(rows, places, anchor)
        else:
            anchor = powers = None
        end += len(words)
        return WordTable(
            rows, places, end, claims, scale, shift, sums, self.scale, words, anchor, powers
        )

    def __dask_tokenize__(self):
        return sorted(self.__getstate__().items())

    def __getstate__(self):
        # The rows in use: other tables may share the array.
        rows, places, end = _packed(self.rows[self.places], self.places > 0)
        names = "scale", "shift", "sums", "anchor", "powers"
        state = {name: getattr(self, name) for name in names}
        return state | {"rows": rows[:end], "places": places, "end": end, "claims": {}}


def _packed(table, is_stored, n_more=0):
    """Return rows after one of zeros, with as much room again, places, and the end of the rows."""
    end = 1 + np.count_nonzero(is_stored)
    rows, places = np.empty((2 * (end + n_more), table.shape[1])), np.cumsum(is_stored)
    rows[0] = 0.0
    np.compress(is_stored, table, axis=0, out=rows[1:end])
    return rows, np.where(is_stored, places, 0), end


def _ratio(numbers, scale):
    """Return numbers over a scale, and 1 where it is 0."""
    return np.divide(numbers, scale, out=np.ones_like(numbers), where=scale > 0.0)


def _reaches(anchor, relative):
    return anchor is not None and bool((np.abs(relative - anchor) <= _REACH * anchor).all())


def _powers(rows, places, anchor):
    sums = np.empty((_N_POWERS, len(anchor)))
    inverse_powers(rows, places, anchor, sums)
    return sums


def word_divergences(p: WordTable, q: WordTable, n_threads: int = 1) -> Floats:
    r"""Return :math:`\sum_v p_v \log(p_v / q_v)` of each component, an ndarray (n_components,).

    After a step from q to p, words that it left have :math:`p = s_p (x + r_p)` and
    :math:`q = s_q (x + r_q)` with the same x, so that only their ratios need a logarithm; and if
    both r are near an anchor a, their sums are a series in those of the powers of 1 / (x + a).
    """
    out = np.empty(len(p.sums))
    if p.before is not q.scale:
        column_divergences(p.at(slice(None)), q.at(slice(None)), out, n_threads)
        return out
    # Scales are 0 after a step where they were before it.
    after, before, factor = (
        _ratio(*pair) for pair in ((p.shift, p.scale), (q.shift, q.scale), (p.scale, q.scale))
    )
    n_zeros = np.count_nonzero(q.places == 0)
    # The sum as if all words had been left, less the words that were not.
    if _reaches(q.anchor, after) and _reaches(q.anchor, before):
        a, b, j = after / q.anchor - 1.0, before / q.anchor - 1.0, np.arange(_N_POWERS)[:, None] + 1
        terms = a ** (j + 1) / (j * (j + 1)) + b ** (j + 1) / (j + 1) - a * b**j / j
        terms *= np.where(j % 2, 1.0, -1.0) * q.powers
        out = q.anchor * ((len(q.places) - n_zeros) * (a - b) + terms.sum(axis=0))
    else:
        shift_divergences(q.rows, q.places, after, before, out, n_threads)
    left = q.rows[q.places[p.changed]] * p.scale + p.shift
    new, old = p.at(p.changed), q.at(p.changed)
    total = (p.sums - (new - left).sum(axis=0)) * np.log(factor)
    total += p.scale * (out + n_zeros * after * np.log(after / before))
    for sign, values in ((1.0, new), (-1.0, left)):
        if len(values):
            column_divergences(values, old, out, 1)
            total += sign * out
    return np.where(p.scale == 0.0, p.sums * np.log(p.shift / q.shift), total)


@dataclass(frozen=True, eq=False)
class WordSum:
    """A sum that is not yet made: a table times factors, plus constants, plus values of some words.

    It has `n_words` rows. Without a table, that is 0; `factors` are of the table, and `constants`,
    one a component, of all words. `values` (n, n_components) are added to the rows of `words`,
    ascending.
    """

    n_words: int
    table: WordTable | None
    factors: Floats
    constants: Floats
    words: Integers
    values: Floats

    @classmethod
    def of_table(cls, table: WordTable, factors: Floats) -> Self:
        none = np.empty((0, len(factors)))
        return cls(len(table.places), table, factors, np.zeros(len(factors)), _NO_WORDS, none)

    @classmethod
    def of_words(cls, n_words: int, words: Integers, values: Floats) -> Self:
        zeros = np.zeros(values.shape[1])
        return cls(n_words, None, zeros, zeros, words, values)

    @classmethod
    def of_constants(cls, n_words: int, constants: Floats) -> Self:
        none = np.empty((0, len(constants)))
        return cls(n_words, None, np.zeros(len(constants)), constants, _NO_WORDS, none)

    @classmethod
    def of_array(cls, array: Floats) -> Self:
        return cls.of_table(WordTable.of(array), np.ones(array.shape[1]))

    @property
    def is_constant(self) -> bool:
        """Whether all words have the same numbers."""
        return self.table is None and not len(self.words)

    @property
    def array(self) -> Floats:
        """The sum, (n_words, n_components)."""
        if self.is_constant:
            return np.broadcast_to(self.constants, (self.n_words, len(self.constants)))
        if self.table is None:
            array = np.zeros((self.n_words, len(self.constants)))
        else:
            array = self.table.at(slice(None)) * self.factors
        array += self.constants
        array[self.words] += self.values
        return array

    @property
    def sums(self) -> Floats:
        """Sums over the words, (n_components,)."""
        sums = self.constants * self.n_words + self.values.sum(axis=0)
        return sums if self.table is None else sums + self.factors * self.table.sums

    def scaled(self, a: float) -> WordSum:
        """Return a times the sum; a may be one number for each component."""
        return replace(
            self, factors=a * self.factors, constants=a * self.constants, values=a * self.values
        )

    def plus(self, other: WordSum) -> WordSum:
        """Return the sum of two."""
        if self.table is not None and other.table is not None:
            return WordSum.of_array(self.array + other.array)
        of_table = other if self.table is None else self
        words, values = self.words, self.values
        if not len(words):
            words, values = other.words, other.values
        elif len(other.words):
            words = np.union1d(self.words, other.words)
            values = np.zeros((len(words), len(self.constants)))
            for part in (self, other):
                values[np.searchsorted(words, part.words)] += part.values
        constants = self.constants + other.constants
        return WordSum(self.n_words, of_table.table, of_table.factors, constants, words, values)

    def divided(self, weight: Floats) -> WordTable | None:
        """Return the sum over weights (n_components,) as a table, if a table is part of it."""
        if self.table is None:
            return None
        inverse = 1.0 / weight
        return self.table.stepped(
            self.factors * inverse, self.constants * inverse, self.words, self.values * inverse
        )


class TableField:
    """Descriptor of a field of a dataclass that shows a `WordTable` or `WordSum` as an array.

    `vars` has what it holds.
    """

    def __init__(self, shown: str = "array") -> None:
        self._shown = shown

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            raise AttributeError(self._name)  # So the field has no default.
        held = vars(instance)[self._name]
        return getattr(held, self._shown) if isinstance(held, WordTable | WordSum) else held

    def __set__(self, instance, value):
        vars(instance)[self._name] = value


class WordSums(Rebuilt, Sums):
    """`Sums` whose total is a `WordSum`, as long as nobody looks at it."""

    def __init__(self, weight: Floats, total: Floats | WordSum) -> None:
        vars(self).update(weight=weight, sum=total)

    def __getstate__(self):
        return {"weight": self.weight, "total": self.sum}

    @property
    def total(self):
        """The total as an array, (n_components, n_words)."""
        held = self.sum
        if not isinstance(held, WordSum):
            return held
        # Constants take no memory, as they are.
        return held.array.T if held.is_constant else np.ascontiguousarray(held.array.T)

    def merge(self, a: float, other: Sums, b: float) -> Sums:
        added = other.sum if isinstance(other, WordSums) else other.total
        is_table = isinstance(added, WordSum)
        if not isinstance(self.sum, WordSum) or (self.sum.is_constant and not is_table):
            return Sums(self.weight, self.total).merge(a, other, b)
        weight = float(a) * self.weight + float(b) * other.weight
        if not is_table:
            added = WordSum.of_array(np.ascontiguousarray(added.T))
        return WordSums(weight, self.sum.scaled(float(a)).plus(added.scaled(float(b))))

    def __add__(self, other: Sums) -> Sums:
        return self.merge(1.0, other, 1.0)

    __radd__ = __add__

    def scale(self, a: float) -> Sums:
        total = self.sum.scaled(float(a)) if isinstance(self.sum, WordSum) else float(a) * self.sum
        return WordSums(float(a) * self.weight, total)


def few_words(X: FloatsOrSparse, n_components: int) -> tuple[Integers, sparse.csr_array] | None:
    """Return the words of CSR rows and the rows with these words alone, if they are few."""
    n_words = X.shape[1]
    if (
        not sparse.issparse(X)
        or n_words * n_components < _LEAST_NUMBERS
        or not 0 < X.nnz * _LEAST_WORDS_PER_VALUE < n_words
    ):
        return None
    words, indices = np.unique(X.indices, return_inverse=True)
    parts = X.data, indices.astype(X.indices.dtype), X.indptr
    return words, sparse.csr_array(parts, shape=(X.shape[0], len(words)))

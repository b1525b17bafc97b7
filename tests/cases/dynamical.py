"""The linear dynamical systems that the laws of models run over."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from cases import kalman
from cases.random_rows import positive_definite
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences, with_inputs_before
from sklearn_onlineem.families import Diagonal, Full, Spherical
from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
from sklearn_onlineem.models.fixed import FixedEntries
from sklearn_onlineem.models.kalman.linear_dynamical import (
    LinearDynamicalModel,
    LinearDynamicalStatistics,
)
from sklearn_onlineem.models.kalman.regression import Regression

# Parts of the model, and their parameters.
PARAMETERS = (
    "initial__offset", "initial__covariance", "transitions__matrix", "transitions__offset",
    "transitions__covariance", "emissions__matrix", "emissions__offset", "emissions__covariance",
)  # fmt: skip
ALL = frozenset(PARAMETERS)


def value(model, name):
    """A parameter of the model."""
    part, parameter = name.split("__")
    return getattr(getattr(model, part), parameter)


def changed(model, learnt=None, **values):
    """The model with other values of parameters, or other parameters that are learnt."""
    parts = {}
    for part in ("initial", "transitions", "emissions"):
        known = getattr(model, part)
        arrays = {name: getattr(known, name) for name in ("matrix", "offset", "covariance")}
        arrays |= _of_part(part, values)
        parameters = AffineGaussian.single(**arrays)
        names = known.learnt if learnt is None else _of_part(part, dict.fromkeys(learnt))
        names = tuple(name for name in arrays if name in names)
        parts[part] = Regression(known.family, parameters, names, known.fixed)
    known = {"varying": model.varying, "diffuse": model.diffuse, "seen": model.seen}
    return LinearDynamicalModel(**parts, **known)


def _of_part(part, values):
    names = {name: name.split("__") for name in values}
    return {names[name][1]: value for name, value in values.items() if names[name][0] == part}


def draw_model(rng, k, d, shape=None, learnt=ALL, n_inputs=0):
    """A stable model, whose noise has the given shape."""
    shape = Full() if shape is None else shape
    A = 0.9 * np.linalg.qr(rng.standard_normal((k, k)))[0]
    V, Q, R = (positive_definite(rng, 1, side)[0] for side in (k, k, d))
    m, b = rng.standard_normal(k), rng.standard_normal(k)
    C, offset = rng.standard_normal((d, k)), rng.standard_normal(d)
    if n_inputs:
        B, D = (rng.standard_normal((side, n_inputs)) for side in (k, d))
        A, C = np.hstack([A, B]), np.hstack([C, D])
    noisy = LinearGaussian(shape)
    model = LinearDynamicalModel(
        Regression(LinearGaussian(), AffineGaussian.single(np.empty((k, 0)), m, V)),
        Regression(noisy, AffineGaussian.single(A, b, shape.nearest(Q))),
        Regression(noisy, AffineGaussian.single(C, offset, shape.nearest(R))),
    )
    return changed(model, learnt)


def draw_data(rng, lengths, d, missing=0.0, n_inputs=0):
    lengths = np.asarray(lengths)
    X = 2.0 * rng.standard_normal((lengths.sum(), d))
    X[rng.random(X.shape) < missing] = np.nan
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    if n_inputs:
        return with_inputs_before(X, rng.standard_normal((len(X), n_inputs)), offsets)
    return Sequences(Rows(X), offsets)


@dataclass(frozen=True)
class DynamicalCase:
    """A linear dynamical system whose data are sequences of 1 to 5 rows."""

    shape: object
    missing: float = 0.0
    is_quick: bool = False
    # Which entries are fixed, by a function of the model; see `masked`.
    fixed: Callable | None = None
    n_inputs: int = 0

    is_mixture = False
    has_labels = False
    has_time = True
    regular = False

    def __repr__(self):
        gaps = ", gaps" if self.missing else ""
        gaps += f", {self.fixed.__name__}" if self.fixed else ""
        gaps += ", inputs" if self.n_inputs else ""
        return f"LinearDynamicalModel({type(self.shape).__name__}{gaps})"

    def draw(self, rng, n_components=3, d=2):
        model = draw_model(rng, n_components, d, self.shape, n_inputs=self.n_inputs)
        model = model if self.fixed is None else self.fixed(model)
        return model.seeing(self.data(rng, 20, d))

    def data(self, rng, n, d=2, n_threads=1):
        data = draw_data(rng, rng.integers(1, 6, n), d, self.missing, self.n_inputs)
        return replace(data, rows=replace(data.rows, n_threads=n_threads))

    rich_data = data

    def with_gaps(self, data, rng):
        X = data.X.copy()
        outputs = X[:, 2 * self.n_inputs :]
        outputs[rng.random(outputs.shape) < 0.3] = np.nan
        return replace(data, rows=replace(data.rows, X=X))

    def before(self, model, rng):
        """Moments of a state that a sequence continues from."""
        k = model.n_components
        return rng.standard_normal(k), positive_definite(rng, 1, k)[0]

    def single(self, data):
        return replace(data, rows=Rows(data.X.astype(np.float32)))

    def mean_log_likelihood(self, model, data):
        inputs, X = np.split(data.X, [2 * self.n_inputs], axis=1)
        found = kalman.filtered(model, X, data.offsets, inputs)
        return found.log_likelihood.sum() / len(data)

    def prior(self, model, n_features, concentration):
        k, d = model.n_components, model.n_features
        start = {"n_features": k, "offset": 0.3, "offset_precision": 2.0}
        moves = {"n_features": k, "n_inputs": k + self.n_inputs, "matrix_precision": 1.5}
        rows = {"n_features": d, "n_inputs": k + self.n_inputs, "matrix_precision": 2.5}
        parts = {
            "initial": start | {"covariance": 1.5, "degrees_of_freedom": k + 2.0},
            "transitions": moves
            | {"matrix": 0.2, "covariance": 0.7, "degrees_of_freedom": k + 3.0},
            "emissions": rows | {"covariance": 0.9, "degrees_of_freedom": 5.0},
        }
        return LinearDynamicalStatistics(*(
            getattr(model, part).family.prior_statistics(1, **values)
            for part, values in parts.items()
        ))  # fmt: skip

    def log_prior(self, model, concentration):
        k, d, q = model.n_components, model.n_features, model.n_components + self.n_inputs
        start = stats.multivariate_normal(np.full(k, 0.3), model.initial.covariance / 2.0)
        wishart = stats.invwishart(k + 2.0, 1.5 * np.eye(k))
        # States without noise have known transitions.
        noisy = np.diag(model.transitions.covariance) > 0.0
        n, Q = noisy.sum(), model.transitions.covariance[np.ix_(noisy, noisy)]
        move = stats.matrix_normal(np.full((n, q), 0.2), Q, np.eye(q) / 1.5)
        emission = stats.matrix_normal(
            np.zeros((d, q)), model.emissions.covariance, np.eye(q) / 2.5
        )
        return (
            start.logpdf(model.initial.offset)
            + wishart.logpdf(model.initial.covariance)
            + move.logpdf(model.transitions.matrix[noisy])
            + stats.invwishart(2 * k - n + 3.0, 0.7 * np.eye(n)).logpdf(Q)
            + emission.logpdf(model.emissions.matrix)
            + stats.invwishart(5.0, 0.9 * np.eye(d)).logpdf(model.emissions.covariance)
        )

    def occupancies(self, evidence):
        parts = evidence.initial, evidence.transitions, evidence.emissions
        return np.concatenate([part.weight for part in parts])


def masked(model, **masks):
    """The model with entries that are fixed, by the names of `PARAMETERS`: True where fixed."""
    for part, known in _of_regressions(model).items():
        shapes = {name: getattr(known, name).shape for name in ("matrix", "offset", "covariance")}
        own = _of_part(part, masks)
        if own:
            fixed = FixedEntries(**{
                name: np.broadcast_to(own.get(name, False), shape) for name, shape in shapes.items()
            })  # fmt: skip
            model = replace(model, **{part: replace(known, fixed=fixed)})
    return model


def _of_regressions(model):
    return {part: getattr(model, part) for part in ("initial", "transitions", "emissions")}


def first_entries(model):
    """Coefficients that differ by row, with correlated noise, and the noise of first variables."""
    k, d = model.n_components, model.n_features
    matrix = np.arange(model.transitions.matrix.size).reshape(k, -1) % 4 == 0
    offset, first = np.arange(d) == 0, np.eye(k, dtype=bool)
    first[1:] = False
    read = np.arange(model.emissions.matrix.size).reshape(d, -1) % 3 == 1
    return masked(
        model, transitions__matrix=matrix, transitions__covariance=first, emissions__matrix=read,
        emissions__offset=offset,
    )  # fmt: skip


def zeros(model):
    """A state that moves without noise, as is known, and one whose variance is known."""
    k = model.n_components
    matrix = np.arange(k)[:, None] == 0
    variances = np.where(np.arange(k) == 0, 0.0, np.diag(model.transitions.covariance))
    known = changed(model, transitions__covariance=np.diag(variances))
    is_fixed = ~np.eye(k, dtype=bool)
    is_fixed[-1, -1] = True
    return masked(known, transitions__matrix=matrix, transitions__covariance=is_fixed)


def turned(model):
    """Two states that turn by an angle that is learnt, with one variance."""
    A, variances = model.transitions.matrix.copy(), model.transitions.covariance.diagonal().copy()
    if len(A) < 2:
        return model
    A[1, :2], variances[1] = [-A[0, 1], A[0, 0]], variances[0]
    tied = np.zeros((2, *A.shape))
    tied[0, :2, :2], tied[1, :2, :2] = np.eye(2), [[0.0, 1.0], [-1.0, 0.0]]
    model = changed(model, transitions__matrix=A, transitions__covariance=np.diag(variances))
    moves = masked(model, transitions__matrix=False).transitions
    return replace(model, transitions=replace(moves, fixed=replace(moves.fixed, tied=tied)))


DYNAMICAL = [
    DynamicalCase(Full()),
    DynamicalCase(Full(), missing=0.3),
    DynamicalCase(Diagonal()),
    DynamicalCase(Spherical(), is_quick=True),
    DynamicalCase(Full(), fixed=first_entries),
    DynamicalCase(Diagonal(), missing=0.3, fixed=zeros),
    DynamicalCase(Diagonal(), fixed=turned),
    DynamicalCase(Full(), missing=0.3, n_inputs=2),
    DynamicalCase(Full(), fixed=first_entries, n_inputs=1),
]

"""The list of families that the laws run over, each with what is known of it elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import expit, gammaln, logit, logsumexp, psi, softmax

from cases.random_rows import (
    SIDE,
    bit_rows,
    chain_rows,
    code_rows,
    count_rows,
    document_rows,
    matrix_rows,
    normal_rows,
    positive_definite,
    positive_rows,
)
from sklearn_onlineem.families import (
    Bernoulli,
    BernoulliRegression,
    Categorical,
    CompoundDirichlet,
    Diagonal,
    Exponential,
    Family,
    Full,
    Gamma,
    Gaussian,
    GaussianRegression,
    Gaussians,
    Laplace,
    MarkovChain,
    MixtureOf,
    Multinomial,
    Poisson,
    PoissonRegression,
    Product,
    Spherical,
    StudentT,
    Tied,
    Wishart,
)
from sklearn_onlineem.families.capabilities import ConjugatePriors
from sklearn_onlineem.families.compound_dirichlet import Dirichlets
from sklearn_onlineem.families.gamma import FixedShapeGamma
from sklearn_onlineem.families.gaussian_regression import Regressions
from sklearn_onlineem.families.laplace import Laplaces
from sklearn_onlineem.families.mixture_emissions import Submixtures
from sklearn_onlineem.families.responses import BernoulliRegressions
from sklearn_onlineem.families.student_t import StudentTs
from sklearn_onlineem.families.wishart import FixedDegreesWishart
from sklearn_onlineem.families.working_responses import WorkingRegressions


@dataclass(frozen=True)
class FamilyCase:
    """A family with random parameters, data, and its formulas by other means than its own.

    Parameters
    ----------
    draw : callable (rng, n_components, d) -> parameters
    rows : callable (rng, n_rows, d) -> X
    log_density : callable (family, parameters, k) -> (callable X -> log p(X | theta_k)), by scipy
    encode, decode : callables between parameters and unconstrained vectors
    prior : callable d -> hyper-parameters of the conjugate prior
    log_prior : callable (family, parameters) -> log density of that prior, up to a constant
    counts : bool
        Whether the family takes sparse data.
    is_gaussian : bool
    matrix : {"of each component", "shared", None}
        Whether the last natural parameters are a symmetric matrix.
    n_redundant : callable d -> int
        Directions in which a component's vector may move and change nothing.
    is_quick : bool
        Whether minimising over the parameters of its models numerically takes little time.
    complete_log_density : callable (old, new, X) -> ndarray of shape (n_rows, K), default=None
        Where components have hidden variables of their own: the log density of these and of X
        under new parameters, in expectation under the old ones, up to a constant.
    """

    family: Family
    draw: Callable
    rows: Callable
    log_density: Callable
    encode: Callable
    decode: Callable
    prior: Callable
    log_prior: Callable
    counts: bool = False
    is_gaussian: bool = False
    matrix: str | None = None
    n_redundant: Callable = lambda d: 0
    is_quick: bool = False
    complete_log_density: Callable | None = None
    # The part of parameters that is learnt.
    learnt: Callable = lambda parameters: parameters
    # Whether densities are smooth functions of the parameters, as a minimiser by slopes needs.
    is_smooth: bool = True
    # Whether the statistics of any data are those of some parameters.
    regular: bool = True
    # Whether steps of EM are a part of the way to the maximum of their statistics.
    is_shortened: bool = False
    # First columns that are known, and no features of a density.
    n_inputs: int = 0
    # The case of the family that a family is made of.
    inner: FamilyCase | None = None

    def __repr__(self):
        return name_of(self.family)

    def expected_log_density(self, old, new, X):
        """What the bound of EM has in the place of the log density."""
        if self.complete_log_density is None:
            return self.family.log_density(new, X)
        return self.complete_log_density(old, new, X)

    def identified(self, parameters):
        """What the log densities depend on."""
        if isinstance(self.family, Multinomial | MarkovChain):
            return self.family.probabilities(parameters)
        if isinstance(parameters, WorkingRegressions):
            return parameters.matrix, parameters.offset
        if isinstance(parameters, Submixtures):
            return parameters.weights, self.inner.identified(parameters.inner)
        return parameters.alpha if isinstance(parameters, Dirichlets) else parameters


def name_of(family):
    """The name of a family: of its class and, for a Gaussian, of its covariance."""
    covariance, sizes = getattr(family, "covariance", None), getattr(family, "n_categories", None)
    if isinstance(sizes, tuple):
        return f"{type(family).__name__}{sizes}"
    if isinstance(family, Product):
        return f"Product({', '.join(map(name_of, family.families))})"
    if isinstance(family, MixtureOf):
        return f"MixtureOf({name_of(family.family)}{', tied' * family.tied})"
    return ("" if covariance is None else type(covariance).__name__) + type(family).__name__


def _gaussian_case(
    family, draw_covariance, covariance_of, encode, decode, prior, log_prior, **capabilities
):
    def draw(rng, n_components, d):
        mean = 2.0 * rng.standard_normal((n_components, d))
        return Gaussians(mean, draw_covariance(rng, n_components, d))

    def log_density(family, parameters, k):
        covariance = covariance_of(parameters.covariance, k, parameters.mean.shape[1])
        return stats.multivariate_normal(parameters.mean[k], covariance).logpdf

    def encode_all(parameters):
        return np.concatenate([parameters.mean.ravel(), encode(parameters.covariance)])

    def decode_all(vector, like):
        size = like.mean.size
        mean = vector[:size].reshape(like.mean.shape)
        return Gaussians(mean, decode(vector[size:], like.covariance.shape))

    return FamilyCase(
        family,
        draw,
        normal_rows,
        log_density,
        encode_all,
        decode_all,
        prior,
        log_prior,
        is_gaussian=True,
        **capabilities,
    )


def _encode_matrices(covariance):
    roots = np.linalg.cholesky(covariance)
    rows, columns = np.tril_indices(roots.shape[1])
    entries = roots[:, rows, columns]
    entries[:, rows == columns] = np.log(entries[:, rows == columns])
    return entries.ravel()


def _decode_matrices(vector, shape):
    rows, columns = np.tril_indices(shape[1])
    roots, entries = np.zeros(shape), vector.reshape(shape[0], -1)
    roots[:, rows, columns] = np.where(rows == columns, np.exp(entries), entries)
    return roots @ roots.transpose(0, 2, 1)


def _encode_logs(values):
    return np.log(values).ravel()


def _decode_logs(vector, shape):
    return np.exp(vector).reshape(shape)


def _normal_log_prior(parameters, variances):
    """Of means around 0.5, with 2 pseudo-observations; variances (K, d, d)."""
    return sum(
        stats.multivariate_normal(np.full(len(mean), 0.5), variance / 2.0).logpdf(mean)
        for mean, variance in zip(parameters.mean, variances, strict=True)
    )


def _matrix_log_prior(family, parameters):
    d = parameters.mean.shape[1]
    covariances = np.broadcast_to(parameters.covariance, (len(parameters.mean), d, d))
    inverse_wishart = stats.invwishart(df=d + 3.0, scale=1.5 * np.eye(d))
    return _normal_log_prior(parameters, covariances) + sum(
        inverse_wishart.logpdf(covariance) for covariance in parameters.covariance
    )


def _axis_log_prior(family, parameters):
    variances = np.broadcast_to(parameters.covariance, parameters.mean.shape)
    matrices = variances[:, :, None] * np.eye(variances.shape[1])
    inverse_gamma = stats.invgamma(3.0, scale=1.5)
    return (
        _normal_log_prior(parameters, matrices) + inverse_gamma.logpdf(parameters.covariance).sum()
    )


def _vector_case(family, draw, rows, log_density, encode, decode, prior, log_prior, **capabilities):
    return FamilyCase(
        family,
        draw,
        rows,
        log_density,
        lambda parameters: encode(parameters).ravel(),
        lambda vector, like: decode(vector.reshape(encode(like).shape)),
        prior,
        log_prior,
        **capabilities,
    )


def _product(distribution):
    """Log densities of independent features; `distribution` gives that of each."""
    return lambda family, parameters, k: (
        lambda X: distribution(family, parameters, k)(X).sum(axis=1)
    )


def _gamma_log_density(family, parameters, k):
    shapes, rates = family.shapes_and_rates(parameters)
    return stats.gamma(shapes[k], scale=1.0 / rates[k]).logpdf


def _categorical_log_density(family, parameters, k):
    sizes = family.n_categories
    if not isinstance(sizes, tuple):
        sizes = (sizes,) * (len(parameters[k]) // sizes)
    logs = np.split(np.log(parameters[k]), np.cumsum(sizes)[:-1])
    return lambda X: sum(log[x] for log, x in zip(logs, X.T.astype(int), strict=True))


# Numbers of symbols of columns, whatever number of columns is asked for.
SIZES = (2, 4, 3, 1)


def _by_sizes(function, values):
    parts = np.split(values, np.cumsum(SIZES)[:-1], axis=1)
    return np.concatenate([function(part) for part in parts], axis=1)


def _draw_by_sizes(rng, n_components, d):
    return np.hstack([rng.dirichlet(np.ones(size), n_components) for size in SIZES])


def _multinomial_log_density(family, parameters, k):
    p = parameters[k] / parameters[k].sum()
    return lambda X: np.array([stats.multinomial(int(x.sum()), p).logpmf(x) for x in X])


def expected_counts(start, moves, length):
    """Of first symbols and transitions of chains of some length, one row for each component."""
    visits = start
    transitions = np.zeros_like(moves)
    for _ in range(length - 1):
        transitions += visits[:, :, None] * moves
        visits = np.einsum("ki,kij->kj", visits, moves)
    return np.concatenate([start[:, None], transitions], axis=1).reshape(len(start), -1)


def _draw_chains(rng, n_components, d):
    """What chains have on average, so that the visits of each symbol are those of samples.

    All are of one length, which says nothing of the component, as models have it.
    """
    start = rng.dirichlet(np.full(d, 2.0), n_components)
    moves = rng.dirichlet(np.full(d, 2.0), (n_components, d))
    return expected_counts(start, moves, rng.integers(3, 20))


def _chain_groups(parameters):
    """Probabilities of the first symbol and of transitions, an ndarray of shape (K, S + 1, S)."""
    groups = parameters.reshape(len(parameters), -1, math.isqrt(parameters.shape[1]))
    return groups / groups.sum(axis=2, keepdims=True)


def _chain_log_density(family, parameters, k):
    """Of multinomials, without the coefficients: a chain comes in one order."""
    groups = _chain_groups(parameters)[k]

    def log_density(row):
        counts = row.reshape(groups.shape).astype(int)
        return sum(
            stats.multinomial(n.sum(), p).logpmf(n) - gammaln(n.sum() + 1) + gammaln(n + 1).sum()
            for n, p in zip(counts, groups, strict=True)
        )

    return lambda X: np.array([log_density(row) for row in X])


def _chains_decode(logs):
    groups = logs.reshape(len(logs), -1, math.isqrt(logs.shape[1]))
    return softmax(groups, axis=2).reshape(logs.shape)


def _chain_log_prior(family, parameters):
    logs = np.log(_chain_groups(parameters))
    return 0.5 * logs[:, 0].sum() + 1.5 * logs[:, 1:].sum()


def _wishart_log_density(family, parameters, k):
    degrees, scales = family.degrees_and_scales(parameters)
    wishart = stats.wishart(degrees[k], scales[k])
    return lambda X: np.array([wishart.logpdf(x) for x in X.reshape(len(X), SIDE, SIDE)])


def _dirichlet_log_prior(concentration, n_categories):
    def log_prior(family, parameters):
        p = parameters.reshape(-1, n_categories)
        p = p / p.sum(axis=1, keepdims=True)
        return (concentration - 1.0) * np.log(p).sum()

    return log_prior


def _conjugate_log_prior(pseudo_count, mean_of):
    """Log density over natural parameters, exp(pseudo_count (mean . theta - G))."""

    def log_prior(family, parameters):
        natural = family.to_natural(parameters)
        mean = mean_of(natural.shape[1])
        return pseudo_count * (natural @ mean - family.log_partition(natural)).sum()

    return log_prior


def _gamma_parameters(shapes, rates):
    return Gamma().from_natural(np.hstack([shapes - 1.0, -rates]))


def _wishart_parameters(degrees, scales):
    flat = -0.5 * np.linalg.inv(scales).reshape(len(scales), -1)
    return Wishart().from_natural(np.column_stack([degrees / 2.0, flat]))


def _wishart_encode(parameters):
    degrees, scales = Wishart().degrees_and_scales(parameters)
    scales = _encode_matrices(scales).reshape(len(scales), -1)
    return np.column_stack([np.log(degrees - SIDE + 1.0), scales])


def _wishart_decode(vectors):
    scales = _decode_matrices(vectors[:, 1:], (len(vectors), SIDE, SIDE))
    return _wishart_parameters(np.exp(vectors[:, 0]) + SIDE - 1.0, scales)


def _fixed_degrees_encode(parameters):
    return _encode_matrices(parameters.reshape(-1, SIDE, SIDE)).reshape(len(parameters), -1)


def _fixed_degrees_decode(vectors):
    return _decode_matrices(vectors, (len(vectors), SIDE, SIDE)).reshape(len(vectors), -1)


def _fixed_degrees_log_prior(family, parameters):
    scales = parameters.reshape(-1, SIDE, SIDE) / family.degrees
    prior = stats.wishart(5.0, np.linalg.inv(2.0 * np.eye(SIDE)))
    return sum(prior.logpdf(np.linalg.inv(scale)) for scale in scales)


_MATRIX_PRIOR = {"mean": 0.5, "mean_precision": 2.0}
_AXIS_PRIOR = {"mean": 0.5, "mean_precision": 2.0, "shape": 3.0, "scale": 1.5}

FAMILIES = [
    _gaussian_case(
        Gaussian(reg_covar=0.0),
        positive_definite,
        lambda covariance, k, d: covariance[k],
        _encode_matrices,
        _decode_matrices,
        lambda d: {**_MATRIX_PRIOR, "covariance": 1.5 * np.eye(d), "degrees_of_freedom": d + 3.0},
        _matrix_log_prior,
        matrix="of each component",
        is_quick=True,
    ),
    _gaussian_case(
        Gaussian(Tied(), reg_covar=0.0),
        lambda rng, n_components, d: positive_definite(rng, 1, d),
        lambda covariance, k, d: covariance[0],
        _encode_matrices,
        _decode_matrices,
        lambda d: {**_MATRIX_PRIOR, "covariance": 1.5 * np.eye(d), "degrees_of_freedom": d + 3.0},
        _matrix_log_prior,
        matrix="shared",
        is_quick=True,
    ),
    _gaussian_case(
        Gaussian(Diagonal(), reg_covar=0.0),
        lambda rng, n_components, d: rng.uniform(0.3, 3.0, (n_components, d)),
        lambda covariance, k, d: np.diag(covariance[k]),
        _encode_logs,
        _decode_logs,
        lambda d: _AXIS_PRIOR,
        _axis_log_prior,
    ),
    _gaussian_case(
        Gaussian(Spherical(), reg_covar=0.0),
        lambda rng, n_components, d: rng.uniform(0.3, 3.0, (n_components, 1)),
        lambda covariance, k, d: covariance[k] * np.eye(d),
        _encode_logs,
        _decode_logs,
        lambda d: _AXIS_PRIOR,
        _axis_log_prior,
    ),
    _vector_case(
        Poisson(),
        lambda rng, n_components, d: rng.uniform(0.5, 8.0, (n_components, d)),
        count_rows,
        _product(lambda family, rates, k: stats.poisson(rates[k]).logpmf),
        np.log,
        np.exp,
        lambda d: {"shape": 2.5, "rate": 1.5},
        lambda family, rates: stats.gamma(2.5, scale=1 / 1.5).logpdf(rates).sum(),
        counts=True,
        is_quick=True,
    ),
    _vector_case(
        Bernoulli(),
        lambda rng, n_components, d: rng.uniform(0.05, 0.95, (n_components, d)),
        bit_rows,
        _product(lambda family, p, k: stats.bernoulli(p[k]).logpmf),
        logit,
        expit,
        lambda d: {"alpha": 2.5, "beta": 1.5},
        lambda family, p: stats.beta(2.5, 1.5).logpdf(p).sum(),
        counts=True,
    ),
    _vector_case(
        Categorical(n_categories=3),
        lambda rng, n_components, d: rng.dirichlet(np.ones(3), (n_components, d)).reshape(
            n_components, -1
        ),
        code_rows,
        _categorical_log_density,
        np.log,
        lambda logs: softmax(logs.reshape(len(logs), -1, 3), axis=2).reshape(logs.shape),
        lambda d: {"concentration": 2.5},
        _dirichlet_log_prior(2.5, 3),
        n_redundant=lambda d: d,
        is_quick=True,
    ),
    _vector_case(
        Categorical(n_categories=SIZES),
        _draw_by_sizes,
        lambda rng, n, d: rng.integers(0, SIZES, (n, len(SIZES))).astype(float),
        _categorical_log_density,
        np.log,
        lambda logs: _by_sizes(lambda part: softmax(part, axis=1), logs),
        lambda d: {"concentration": 2.5},
        lambda family, p: 1.5 * np.log(_by_sizes(lambda x: x / x.sum(1, keepdims=True), p)).sum(),
        n_redundant=lambda d: len(SIZES),
        is_quick=True,
    ),
    _vector_case(
        Multinomial(),
        # Whole mean lengths, because `sample` draws documents of these lengths.
        lambda rng, n_components, d: (
            rng.integers(3, 20, (n_components, 1)) * rng.dirichlet(np.full(d, 2.0), n_components)
        ),
        document_rows,
        _multinomial_log_density,
        np.log,
        lambda logs: softmax(logs, axis=1),
        lambda d: {"concentration": 2.5},
        lambda family, means: _dirichlet_log_prior(2.5, means.shape[1])(family, means),
        counts=True,
        n_redundant=lambda d: 1,
    ),
    _vector_case(
        MarkovChain(),
        _draw_chains,
        chain_rows,
        _chain_log_density,
        np.log,
        _chains_decode,
        # 4 columns are the transitions of two symbols, without starts.
        lambda d: {"concentration": 2.5, **({"start_concentration": 1.5} if d != 4 else {})},
        _chain_log_prior,
        counts=True,
        n_redundant=lambda d: d + 1,
    ),
    _vector_case(
        Exponential(),
        lambda rng, n_components, d: rng.uniform(0.5, 5.0, (n_components, d)),
        positive_rows,
        _product(lambda family, means, k: stats.expon(scale=means[k]).logpdf),
        np.log,
        np.exp,
        lambda d: {"shape": 2.5, "rate": 1.5},
        lambda family, means: stats.gamma(2.5, scale=1 / 1.5).logpdf(1 / means).sum(),
    ),
    _vector_case(
        FixedShapeGamma(shape=2.5),
        lambda rng, n_components, d: rng.uniform(0.5, 5.0, (n_components, d)),
        positive_rows,
        _product(lambda family, means, k: stats.gamma(2.5, scale=means[k] / 2.5).logpdf),
        np.log,
        np.exp,
        lambda d: {"shape": 2.5, "rate": 1.5},
        lambda family, means: stats.gamma(2.5, scale=1 / 1.5).logpdf(2.5 / means).sum(),
    ),
    _vector_case(
        Gamma(),
        lambda rng, n_components, d: _gamma_parameters(
            rng.uniform(0.5, 8.0, (n_components, d)), rng.uniform(0.3, 3.0, (n_components, d))
        ),
        positive_rows,
        _product(_gamma_log_density),
        lambda parameters: np.log(np.hstack(Gamma().shapes_and_rates(parameters))),
        lambda logs: _gamma_parameters(*np.split(np.exp(logs), 2, axis=1)),
        lambda d: {"pseudo_count": 2.0, "mean_log": 0.2, "mean": 1.8},
        _conjugate_log_prior(2.0, lambda p: np.repeat([0.2, 1.8], p // 2)),
    ),
    _vector_case(
        FixedDegreesWishart(degrees=5.5),
        lambda rng, n_components, d: (
            5.5 * positive_definite(rng, n_components, SIDE).reshape(n_components, -1)
        ),
        lambda rng, n, d: matrix_rows(rng, n, SIDE),
        _wishart_log_density,
        _fixed_degrees_encode,
        _fixed_degrees_decode,
        lambda d: {"degrees": 5.0, "inverse_scale": 2.0 * np.eye(SIDE)},
        _fixed_degrees_log_prior,
        matrix="of each component",
    ),
    _vector_case(
        Wishart(),
        lambda rng, n_components, d: _wishart_parameters(
            rng.uniform(3.0, 9.0, n_components), positive_definite(rng, n_components, SIDE)
        ),
        lambda rng, n, d: matrix_rows(rng, n, SIDE),
        _wishart_log_density,
        _wishart_encode,
        _wishart_decode,
        lambda d: {"pseudo_count": 2.0, "mean_log_det": 0.3, "mean": 2.0 * np.eye(SIDE)},
        _conjugate_log_prior(2.0, lambda p: np.array([0.3, 2.0, 0.0, 0.0, 2.0])),
        matrix="of each component",
    ),
]


def _compound_log_density(family, parameters, k):
    compound = stats.dirichlet_multinomial
    return lambda X: np.array(
        [compound(parameters.alpha[k], int(x.sum())).logpmf(x.astype(int)) for x in X]
    )


def _compound_log_prior(family, parameters):
    """Log-likelihood of two sets of proportions with the prior's mean logarithms."""
    alpha, concentration = parameters.alpha, 1.5
    mean_log = psi(concentration) - psi(alpha.shape[1] * concentration)
    log_normaliser = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)
    return 2.0 * (log_normaliser + alpha.sum(axis=1) * mean_log).sum()


def _compound_complete_log_density(old, new, X):
    """Of a Dirichlet's variable whose posterior is another Dirichlet."""
    counts = X[:, None] + old.alpha
    mean_logs = psi(counts) - psi(counts.sum(axis=2, keepdims=True))
    log_normaliser = gammaln(new.alpha.sum(axis=1)) - gammaln(new.alpha).sum(axis=1)
    return log_normaliser + (new.alpha * mean_logs).sum(axis=2)


# Values of hyper-parameters that make no prior, in any family that has them; rows have 4 features.
IMPROPER = {
    "shape": [0.0, -1.0], "rate": [-1e9], "alpha": [0.0, -500.0], "beta": [0.0, -500.0],
    "concentration": [0.0, -1.0], "start_concentration": [0.0, -1.0], "pseudo_count": [-5.0],
    "mean_precision": [-1.0], "scale": [-1.0],
    "covariance": [-np.eye(4), np.triu(np.ones((4, 4))), np.eye(3)],
    "degrees_of_freedom": [3.0, -50.0], "degrees": [SIDE - 1.0, -50.0],
    "inverse_scale": [-np.eye(SIDE), np.triu(np.ones((SIDE, SIDE)))], "mean_log": [9.0],
    "mean_log_det": [9.0],
}  # fmt: skip
# Values that make one in the limit, or one whose mode may be at a floor.
LIMITS = {
    "shape": [0.5], "rate": [0.0], "alpha": [0.5], "beta": [0.5], "concentration": [0.5],
    "pseudo_count": [0.0], "mean_precision": [0.0], "scale": [0.0],
    "covariance": [np.zeros((4, 4))], "degrees_of_freedom": [3.5], "degrees": [SIDE - 0.5],
    "inverse_scale": [np.zeros((SIDE, SIDE))],
}  # fmt: skip


def hyperparameters(family):
    """Names of what the family's prior takes."""
    return (family.prior_keys or []) if isinstance(family, ConjugatePriors) else []


def _laplace_log_prior(family, parameters):
    """Of pseudo-rows of one component, in expectation: minus its divergence to these."""
    m, b = parameters
    gap = np.abs(m - 0.5)
    return -2.0 * (np.log(b) + (gap + 1.5 * np.exp(-gap / 1.5)) / b).sum()


def _laplace_decode(vector, like):
    location, log_scale = vector.reshape(2, *like.location.shape)
    return Laplaces(location, np.exp(log_scale))


def regression_codes(shape):
    """Covariances (K, p, p) of noise to unconstrained vectors, and back."""
    if isinstance(shape, Full):
        return _encode_matrices, _decode_matrices
    n = 1 if isinstance(shape, Spherical) else None

    def decode(vector, shape):
        variances = np.exp(vector).reshape(shape[0], -1, 1)
        return variances * np.eye(shape[1])

    return lambda covariance: np.log(np.einsum("kii->ki", covariance)[:, :n]).ravel(), decode


def _regression_log_prior(family, parameters):
    """Of matrix-normal coefficients, normal offsets, and inverse Wishart covariances."""
    total, p = 0.0, parameters.covariance.shape[1]
    for B, c, R in zip(parameters.matrix, parameters.offset, parameters.covariance, strict=True):
        inverse, log_det = np.linalg.inv(R), np.linalg.slogdet(R)[1]
        squares = 2.0 * (B - 0.3) @ (B - 0.3).T + 2.0 * np.outer(c - 0.5, c - 0.5)
        degrees = B.shape[1] + 1.0 + (p + 3.0) + p + 1.0
        total -= 0.5 * (degrees * log_det + np.trace(inverse @ (squares + 1.5 * np.eye(p))))
    return total


@dataclass(frozen=True)
class _RegressionCase(FamilyCase):
    def __repr__(self):
        return f"{type(self.family.noise).__name__}GaussianRegression"

    def identified(self, parameters):
        return parameters.matrix, parameters.offset, parameters.covariance


def regression_log_density(family, parameters, k):
    """Of rows of one input, the first column, and of outputs."""
    B, c = parameters.matrix[k], parameters.offset[k]
    noise = stats.multivariate_normal(np.zeros(len(c)), parameters.covariance[k])
    return lambda X: noise.logpdf(X[:, 1:] - X[:, :1] @ B.T - c)


def _regression_case(shape, **capabilities):
    """Of one input, which is the first column of the rows."""
    encode_noise, decode_noise = regression_codes(shape)

    def draw(rng, n_components, d):
        p = d - 1
        return Regressions(
            rng.standard_normal((n_components, d)),
            rng.standard_normal((n_components, p, 1)),
            np.array([shape.nearest(R) for R in positive_definite(rng, n_components, p)]),
            rng.uniform(0.3, 3.0, (n_components, 1, 1)),
        )

    def encode(parameters):
        linear = parameters.matrix.ravel(), parameters.offset.ravel()
        return np.concatenate([*linear, encode_noise(parameters.covariance)])

    def decode(vector, like):
        B, c, R = np.split(vector, np.cumsum([like.matrix.size, like.offset.size]))
        B, inputs = B.reshape(like.matrix.shape), like.mean[:, :1]
        outputs = c.reshape(like.offset.shape) + np.einsum("kpq,kq->kp", B, inputs)
        R = decode_noise(R, like.covariance.shape)
        return Regressions(np.hstack([inputs, outputs]), B, R, like.input_covariance)

    prior = {"matrix": 0.3, "matrix_precision": 2.0, "offset": 0.5, "offset_precision": 2.0}
    return _RegressionCase(
        GaussianRegression(1, shape, reg_covar=0.0),
        draw,
        normal_rows,
        regression_log_density,
        encode,
        decode,
        lambda d: {**prior, "covariance": 1.5 * np.eye(d - 1), "degrees_of_freedom": d + 2.0},
        _regression_log_prior,
        n_inputs=1,
        **capabilities,
    )


# No sums suffice for them, or their inputs have no model.
OTHER_FAMILIES = [
    _regression_case(Full(), is_quick=True),
    _regression_case(Diagonal()),
    _regression_case(Spherical()),
    FamilyCase(
        Laplace(min_scale=0.0),
        lambda rng, n_components, d: Laplaces(
            2.0 * rng.standard_normal((n_components, d)), rng.uniform(0.3, 3.0, (n_components, d))
        ),
        normal_rows,
        _product(lambda family, p, k: stats.laplace(p.location[k], p.scale[k]).logpdf),
        lambda parameters: np.append(parameters.location, np.log(parameters.scale)),
        _laplace_decode,
        lambda d: {"pseudo_count": 2.0, "location": 0.5, "scale": 1.5},
        _laplace_log_prior,
        is_smooth=False,
        regular=False,
    ),
]


def _log_density_given(distribution):
    """Of rows of one input, the first column, and of outputs."""

    def log_density(family, parameters, k):
        B, c = parameters.matrix[k], parameters.offset[k]
        return lambda X: distribution(X[:, :1] @ B.T + c).logpmf(X[:, 1:]).sum(axis=1)

    return log_density


def _bits_precision(odds):
    """Expectations of hidden precisions, given log odds."""
    return np.tanh(odds / 2.0) / (2.0 * odds)


def _predictors(parameters, X):
    return np.einsum("n,kp->nkp", X[:, 0], parameters.matrix[..., 0]) + parameters.offset


def _bits_complete_log_density(old, new, X):
    """Of bits and of their precisions, whose expectation the old parameters determine."""
    now, precisions = _predictors(new, X), _bits_precision(_predictors(old, X))
    return ((X[:, None, 1:] - 0.5) * now - 0.5 * precisions * now**2).sum(axis=2)


def _counts_quadratic_log_density(old, new, X):
    """Of counts, to second order about the old log rates."""
    now, before = _predictors(new, X), _predictors(old, X)
    u, y = now - before, X[:, None, 1:]
    rates = np.exp(before)
    return (y * now - rates * (1.0 + u + 0.5 * u**2) - gammaln(y + 1.0)).sum(axis=2)


def _working_case(
    family, parameters_of, distribution, weights_of, draw_outputs, scale=1.0, **capabilities
):
    """Of one input, which is the first column of the rows."""

    def draw(rng, n_components, d):
        """Of normal inputs, whose moments weighted by precisions are sums over quantiles."""
        mean, variance = rng.standard_normal(n_components), rng.uniform(0.3, 3.0, n_components)
        B, c = scale * rng.standard_normal((2, n_components, d - 1, 1))
        quantiles = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
        x = (mean[:, None] + np.sqrt(variance)[:, None] * quantiles)[:, None]
        predictors = B * x + c
        weights = weights_of(predictors)
        centre = np.average(np.broadcast_to(x, weights.shape), axis=2, weights=weights)
        spread = np.average((x - centre[:, :, None]) ** 2, axis=2, weights=weights)
        return parameters_of(
            mean[:, None], variance[:, None, None], B, B[..., 0] * centre + c[..., 0],
            weights.mean(axis=2), centre[..., None], spread[..., None, None],
        )  # fmt: skip

    def rows(rng, n, d):
        return np.hstack([rng.standard_normal((n, 1)), draw_outputs(rng, (n, d - 1))])

    def decode(vector, like):
        known = dict(zip(("coef", "intercept"), np.split(vector, 2), strict=True))
        for part in family.parts:
            shape = part.get(family, like).shape
            like = part.put(family, like, known[part.name].reshape(shape))
        return like

    def log_prior(family, parameters):
        squares = 2.0 * (parameters.matrix**2).sum() + 1.5 * (parameters.offset**2).sum()
        return -0.5 * squares

    return FamilyCase(
        family, draw, rows, _log_density_given(distribution),
        lambda parameters: np.append(parameters.matrix.ravel(), parameters.offset.ravel()),
        decode, lambda d: {"matrix_precision": 2.0, "offset_precision": 1.5}, log_prior,
        regular=False, n_inputs=1, **capabilities,
    )  # fmt: skip


def _student_t_log_density(family, parameters, k):
    mean, covariances = parameters.gaussians.mean[k], parameters.gaussians.covariance_matrices
    degrees = np.broadcast_to(parameters.degrees_of_freedom, len(covariances))[k]
    return stats.multivariate_t(mean, covariances[k], degrees).logpdf


def _student_t_complete_log_density(old, new, X):
    """Of Gaussian rows and gamma precisions whose posterior is another gamma distribution."""

    def squares(parameters):
        deviation = X[:, None] - parameters.gaussians.mean
        precisions = np.linalg.inv(parameters.gaussians.covariance_matrices)
        return np.einsum("nki,kij,nkj->nk", deviation, precisions, deviation)

    shape = 0.5 * (old.degrees_of_freedom + X.shape[1])
    rate = 0.5 * (old.degrees_of_freedom + squares(old))
    u, log_u = shape / rate, psi(shape) - np.log(rate)
    log_det = np.linalg.slogdet(new.gaussians.covariance_matrices)[1]
    half = 0.5 * new.degrees_of_freedom
    log_gamma = half * np.log(half) - gammaln(half) + half * (log_u - u)
    return log_gamma - 0.5 * (log_det + u * squares(new))


def _student_t_case(covariance, degrees_of_freedom):
    gaussian = next(
        case for case in FAMILIES if case.is_gaussian and case.family.covariance == covariance
    )
    family = StudentT(covariance, degrees_of_freedom, reg_covar=0.0)
    is_given = not isinstance(degrees_of_freedom, str)

    def draw(rng, n_components, d):
        degrees = rng.uniform(2.5, 12.0, n_components if degrees_of_freedom == "each" else 1)
        if is_given:
            degrees = np.array([degrees_of_freedom])
        return StudentTs(gaussian.draw(rng, n_components, d), degrees)

    def encode(parameters):
        degrees = [] if is_given else np.log(parameters.degrees_of_freedom)
        return np.concatenate([gaussian.encode(parameters.gaussians), degrees])

    def decode(vector, like):
        if is_given:
            return StudentTs(gaussian.decode(vector, like.gaussians), like.degrees_of_freedom)
        n = len(like.degrees_of_freedom)
        degrees = np.clip(np.exp(vector[-n:]), *StudentT.range_of_degrees)
        return StudentTs(gaussian.decode(vector[:-n], like.gaussians), degrees)

    return FamilyCase(
        family, draw, normal_rows, _student_t_log_density, encode, decode, gaussian.prior,
        lambda family, parameters: gaussian.log_prior(gaussian.family, parameters.gaussians),
        complete_log_density=_student_t_complete_log_density,
        regular=False,
        is_quick=isinstance(covariance, Diagonal),
        learnt=lambda parameters: parameters.gaussians if is_given else parameters,
    )  # fmt: skip


def _product_case(cases, columns):
    """Of families of these cases, which have so many columns, whatever is asked for."""
    family, sizes = Product([case.family for case in cases], columns), [len(c) for c in columns]
    places = np.argsort(np.concatenate(columns))

    def each(*values):
        return zip(cases, *values, strict=True)

    def rows(rng, n, d):
        parts = np.hstack([case.rows(rng, n, size) for case, size in each(sizes)])
        return np.ascontiguousarray(parts[:, places])

    def log_density(family, parameters, k):
        parts = [case.log_density(case.family, p, k) for case, p in each(parameters)]
        groups = list(zip(parts, columns, strict=True))
        return lambda X: sum(part(X[:, own]) for part, own in groups)

    def decode(vector, like):
        lengths = [case.encode(p).size for case, p in each(like)]
        vectors = np.split(vector, np.cumsum(lengths)[:-1])
        return tuple(case.decode(v, p) for case, v, p in each(vectors, like))

    def log_prior(family, parameters):
        return sum(case.log_prior(case.family, p) for case, p in each(parameters))

    return FamilyCase(
        family,
        lambda rng, n_components, d: tuple(
            case.draw(rng, n_components, size) for case, size in each(sizes)
        ),
        rows,
        log_density,
        lambda parameters: np.concatenate([case.encode(p) for case, p in each(parameters)]),
        decode,
        lambda d: {str(g): case.prior(size) for g, (case, size) in enumerate(each(sizes))},
        log_prior,
        n_redundant=lambda d: sum(case.n_redundant(size) for case, size in each(sizes)),
        is_smooth=all(case.is_smooth for case in cases),
        regular=all(case.regular for case in cases),
    )


def _mixture_of_case(case, n=2, tied=False):
    """Of mixtures of `n` components of the family of a case."""
    family = MixtureOf(case.family, n, tied=tied)

    def draw(rng, n_components, d):
        weights = rng.dirichlet(np.full(n, 5.0), n_components)
        inner = case.draw(rng, n if tied else n * n_components, d)
        return Submixtures(weights, family._repeated(inner, n_components))

    def log_density(family, parameters, k):
        parts = [case.log_density(family.family, parameters.inner, n * k + j) for j in range(n)]
        logs = np.log(parameters.weights[k])
        return lambda X: logsumexp([logs[j] + part(X) for j, part in enumerate(parts)], axis=0)

    def joint(parameters, X):
        logs = case.family.log_density(parameters.inner, X).reshape(len(X), -1, n)
        return logs + np.log(parameters.weights)

    def encode(parameters):
        odds = np.log(parameters.weights[:, :-1] / parameters.weights[:, -1:])
        inner = family._parts(parameters.inner, len(odds))
        return np.append(odds.ravel(), case.encode(inner))

    def decode(vector, like):
        odds, inner = np.split(vector, [like.weights[:, 1:].size])
        k = len(like.weights)
        odds = np.pad(odds.reshape(k, -1), ((0, 0), (0, 1)))
        inner = case.decode(inner, family._parts(like.inner, k))
        return Submixtures(softmax(odds, axis=1), family._repeated(inner, k))

    def log_prior(family, parameters):
        of_weights = np.log(parameters.weights).sum()
        inner = family._parts(parameters.inner, len(parameters.weights))
        return of_weights + case.log_prior(case.family, inner)

    return FamilyCase(
        family, draw, case.rows, log_density, encode, decode,
        lambda d: {"weight_concentration": 2.0, **case.prior(d)}, log_prior,
        n_redundant=lambda d: n * case.n_redundant(d),
        complete_log_density=lambda old, new, X: (
            softmax(joint(old, X), axis=2) * joint(new, X)
        ).sum(axis=2),
        inner=case,
        regular=False,
        is_quick=isinstance(case.family, Poisson),
    )  # fmt: skip


_BY_NAME = {repr(case): case for case in FAMILIES}
OTHER_FAMILIES += [
    _product_case(
        [_BY_NAME[name] for name in ("TiedGaussian", "Poisson", "Categorical")], [[3, 0], [1], [2]]
    ),
    _product_case(
        [_BY_NAME[name] for name in ("SphericalGaussian", "Gamma", "Bernoulli")], [[1, 2], [3], [0]]
    ),
    _product_case(
        [_BY_NAME[name] for name in ("DiagonalGaussian", "Exponential", "FullGaussian")],
        [[1, 2], [3], [0]],
    ),
]

# Whose components have hidden variables of their own: statistics depend on the old parameters.
HIDDEN_FAMILIES = [
    FamilyCase(
        CompoundDirichlet(),
        lambda rng, n_components, d: Dirichlets(
            rng.uniform(0.3, 4.0, (n_components, d)), rng.integers(3, 20, n_components) * 1.0
        ),
        document_rows,
        _compound_log_density,
        lambda parameters: np.log(parameters.alpha).ravel(),
        lambda vector, like: Dirichlets(np.exp(vector).reshape(like.alpha.shape), like.length),
        lambda d: {"pseudo_count": 2.0, "concentration": 1.5},
        _compound_log_prior,
        counts=True,
        complete_log_density=_compound_complete_log_density,
        is_quick=True,
    ),
    _working_case(
        BernoulliRegression(1),
        BernoulliRegressions,
        lambda odds: stats.bernoulli(expit(odds)),
        _bits_precision,
        lambda rng, shape: rng.integers(0, 2, shape),
        complete_log_density=_bits_complete_log_density,
    ),
    _working_case(
        PoissonRegression(1),
        WorkingRegressions,
        lambda rates: stats.poisson(np.exp(rates)),
        np.exp,
        lambda rng, shape: rng.poisson(1.0, shape),
        scale=0.3,
        is_shortened=True,
        complete_log_density=_counts_quadratic_log_density,
    ),
    _student_t_case(Full(), "each"),
    _student_t_case(Tied(), "shared"),
    _student_t_case(Diagonal(), "each"),
    _student_t_case(Spherical(), 5.0),
    *(
        _mixture_of_case(_BY_NAME[name], n, tied)
        for name, n, tied in (
            ("TiedGaussian", 3, False),
            ("DiagonalGaussian", 3, False),
            ("Poisson", 2, False),
            ("Categorical", 2, False),
            ("FullGaussian", 3, True),
            ("Poisson", 2, True),
        )
    ),
]


def case_of(kind):
    """The case of a family, of a class of families, or of Gaussians with a class of covariances."""
    if isinstance(kind, MixtureOf):
        return _mixture_of_case(case_of(kind.family), kind.n_mix, kind.tied)
    if isinstance(kind, Family):
        kind = type(getattr(kind, "covariance", kind))
    return next(
        case
        for case in (*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES)
        if kind in (type(case.family), type(getattr(case.family, "covariance", None)))
    )

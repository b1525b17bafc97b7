"""Mixtures and hidden Markov models as graphs of ONNX; importing this registers them at skl2onnx.

Graphs compute in double precision, as log densities are small differences of large terms, and
answer in the precision of their input. As elsewhere, a row of NaN is one that was not observed.
Results are NaN, and labels -1 or empty, for rows with some missing or impossible values.
"""

from __future__ import annotations

from functools import partial, singledispatch
from numbers import Real

import numpy as np
from scipy.special import gammaln
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem import estimators
from sklearn_onlineem.estimators.fitted import scorer_of
from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    Gaussian,
    MixtureOf,
    Multinomial,
    Poisson,
    Product,
    StudentT,
)
from sklearn_onlineem.models.hidden_markov.semi_markov import HiddenSemiMarkovModel
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

try:
    from onnx import TensorProto, helper, numpy_helper
    from skl2onnx import update_registered_converter
    from skl2onnx.common.data_types import (
        Int64TensorType,
        StringTensorType,
        guess_proto_type,
        guess_tensor_type,
    )
    from skl2onnx.helpers.integration import add_onnx_graph
except ImportError as error:
    what = "sklearn_onlineem.interop.onnx needs skl2onnx: pip install skl2onnx"
    raise ImportError(what) from error

# Reductions take their axes as inputs since then.
_OPSET = 18
# Stands for the logarithm of 0, of which 0 times is NaN.
_IMPOSSIBLE = -1e300
# Coefficients of Stirling's series, which has all digits of a logarithm of Gamma from 8 on.
_SHIFTS = np.arange(1.0, 8.0)
_STIRLING = 1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188
_MIXTURES = (
    estimators.BernoulliMixture,
    estimators.CategoricalMixture,
    estimators.GaussianMixture,
    estimators.Mixture,
    estimators.MultinomialMixture,
    estimators.PoissonMixture,
    estimators.StudentTMixture,
)
_CHAINS = (
    estimators.CategoricalHMM,
    estimators.GaussianHMM,
    estimators.GMMHMM,
    estimators.HMM,
    estimators.MultinomialHMM,
    estimators.PoissonHMM,
)


class _Graph:
    """A graph: ``graph.Add(a, b)`` adds an operator, and returns the name of its result.

    Arrays and numbers become constants, of integers or in double precision.
    """

    def __init__(self):
        self.nodes, self.constants = [], []

    def __getattr__(self, operator):
        return partial(self._add, operator)

    def _add(self, operator, *inputs, n_outputs=1, **attributes):
        names = [x if isinstance(x, str) else self._constant(np.asarray(x)) for x in inputs]
        results = [f"{operator}_{len(self.nodes)}_{i}" for i in range(n_outputs)]
        self.nodes.append(helper.make_node(operator, names, results, results[0], **attributes))
        return results[-1]

    def _constant(self, value):
        kind = {"i": np.int64, "O": object}.get(value.dtype.kind, float)
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value.astype(kind), name))
        return name

    def proto(self, inputs, outputs):
        """Return the graph; its inputs and outputs are tensors."""
        values = [
            [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in names]
            for names in (inputs, outputs)
        ]
        return helper.make_graph(self.nodes, "sklearn_onlineem", *values, self.constants)


@singledispatch
def _log_densities(family, parameters, x, graph):
    """Add log p(x_n | theta_k), (n_rows, K), of complete rows to a graph; return its name."""
    raise NotImplementedError(f"ONNX: there is no graph of {type(family).__name__}.")


@_log_densities.register
def _of_gaussians(family: Gaussian, parameters, x, graph):
    d = parameters.mean.shape[1]
    offsets = -0.5 * (parameters.log_det + d * np.log(2.0 * np.pi))
    return graph.Add(graph.Mul(_squares(parameters, x, graph), -0.5), offsets)


@_log_densities.register
def _of_students(family: StudentT, parameters, x, graph):
    (gaussians, degrees), d = parameters, parameters.gaussians.mean.shape[1]
    offsets = gammaln(0.5 * (degrees + d)) - gammaln(0.5 * degrees)
    offsets = offsets - 0.5 * (gaussians.log_det + d * np.log(degrees * np.pi))
    ratios = graph.Add(graph.Div(_squares(gaussians, x, graph), degrees), 1.0)
    return graph.Add(graph.Mul(graph.Log(ratios), -0.5 * (degrees + d)), offsets)


def _squares(gaussians, x, graph):
    """Add the squared Mahalanobis distances of rows from the means, (n_rows, K)."""
    factors = gaussians.precision_factor
    deviations = graph.Sub(graph.Unsqueeze(x, [0]), gaussians.mean[:, None])
    if factors.ndim == 3:
        scaled = graph.MatMul(deviations, factors)
    else:
        scaled = graph.Mul(deviations, factors[:, None])
    return graph.Transpose(graph.ReduceSumSquare(scaled, [2], keepdims=0), perm=[1, 0])


@_log_densities.register(Poisson)
@_log_densities.register(Multinomial)
@_log_densities.register(Bernoulli)
def _of_counts(family, parameters, x, graph):
    natural = family.to_natural(parameters)
    offsets = -family.log_partition(natural)
    is_possible = graph.GreaterOrEqual(x, 0.0)
    if isinstance(family, Bernoulli):
        is_possible = graph.And(is_possible, graph.LessOrEqual(x, 1.0))
    x = graph.Where(is_possible, x, np.nan)
    linear = graph.Add(graph.MatMul(x, np.maximum(natural.T, _IMPOSSIBLE)), offsets)
    if not isinstance(family, Bernoulli):
        linear = graph.Sub(linear, graph.ReduceSum(_log_factorials(x, graph), [1]))
    if isinstance(family, Multinomial):
        linear = graph.Add(linear, _log_factorials(graph.ReduceSum(x, [1]), graph))
    return graph.Where(graph.Less(linear, 1e-100 * _IMPOSSIBLE), -np.inf, linear)


def _log_factorials(x, graph):
    """Add log Gamma(x + 1)."""
    shifted = graph.Add(x, 1.0 + len(_SHIFTS))
    inverse = graph.Reciprocal(shifted)
    square, series = graph.Mul(inverse, inverse), _STIRLING[-1]
    for coefficient in _STIRLING[-2::-1]:
        series = graph.Add(graph.Mul(series, square), coefficient)
    large = graph.Mul(graph.Sub(shifted, 0.5), graph.Log(shifted))
    large = graph.Add(graph.Sub(large, shifted), 0.5 * np.log(2.0 * np.pi))
    factors = graph.Log(graph.Add(graph.Unsqueeze(x, [-1]), _SHIFTS))
    small = graph.ReduceSum(factors, [-1], keepdims=0)
    return graph.Sub(graph.Add(large, graph.Mul(series, inverse)), small)


@_log_densities.register
def _of_symbols(family: Categorical, parameters, x, graph):
    sizes = np.array([table.shape[1] for table in family.probabilities(parameters)])
    natural = family.to_natural(parameters)
    # Values that are no codes have a row of NaN.
    logs = np.vstack([natural.T, np.full(len(natural), np.nan)])
    is_code = graph.And(graph.GreaterOrEqual(x, 0.0), graph.Less(x, sizes.astype(float)))
    is_code = graph.And(is_code, graph.Equal(graph.Floor(x), x))
    places = graph.Add(x, np.cumsum(sizes) - sizes + 0.0)
    places = graph.Where(is_code, places, len(logs) - 1.0)
    found = graph.Gather(logs, graph.Cast(places, to=TensorProto.INT64))
    return graph.Sub(graph.ReduceSum(found, [1], keepdims=0), family.log_partition(natural))


@_log_densities.register
def _of_products(family: Product, parameters, x, graph):
    groups = zip(family.families, parameters, family.columns, strict=True)
    return graph.Sum(*(
        _log_densities(one, own, graph.Gather(x, np.array(columns), axis=1), graph)
        for one, own, columns in groups
    ))  # fmt: skip


@_log_densities.register
def _of_mixtures(family: MixtureOf, parameters, x, graph):
    with np.errstate(divide="ignore"):
        log_weights = np.log(parameters.weights)
    joint = _log_densities(family.family, parameters.inner, x, graph)
    joint = graph.Add(graph.Reshape(joint, [-1, *log_weights.shape]), log_weights)
    return graph.ReduceLogSumExp(joint, [2], keepdims=0)


def _labels(estimator):
    """Return the labels of components, followed by that of rows that have none."""
    labels = getattr(estimator, "classes_", np.arange(estimator.model_.n_components)).tolist()
    if all(isinstance(label, str) for label in labels):
        return np.array([*labels, ""], dtype=object)
    if all(isinstance(label, Real) and label == int(label) for label in labels):
        return np.array([*labels, -1], dtype=np.int64)
    name = type(estimator).__name__
    raise ValueError(f"ONNX: labels of {name} must be texts or whole numbers, got {labels!s:.60}.")


def _outputs(estimator, model, log_densities, graph):
    """Add the results of an estimator, in the order in which `_parse` declares them."""
    if isinstance(estimator, _CHAINS):
        step = _Graph()
        joint = step.Add(step.Log("predicted"), "row")
        is_impossible = step.Equal(step.ReduceMax(joint), -np.inf)
        filtered = step.Where(is_impossible, 0.0, step.Softmax(joint))
        predicted = step.MatMul(filtered, model.termination.transitions(model.transmat))
        body = step.proto(["predicted", "row"], [predicted, filtered])
        return [graph.Scan(model.start, log_densities, n_outputs=2, body=body, num_scan_inputs=1)]
    joint = graph.Add(log_densities, model.log_weights)
    log_likelihoods = graph.ReduceLogSumExp(joint, [1], keepdims=0)
    labels, best = _labels(estimator), graph.ArgMax(joint, axis=1, keepdims=0)
    best = graph.Where(graph.IsNaN(log_likelihoods), len(labels) - 1, best)
    # Components have equal shares of rows that are impossible.
    finite = graph.Max(joint, np.finfo(float).min)
    return [graph.Gather(labels, best), graph.Softmax(finite, axis=1), log_likelihoods]


def _parse(scope, estimator, inputs, custom_parsers=None):
    """Declare the results of an estimator."""
    check_is_fitted(estimator)
    operator = scope.declare_local_operator(_alias(type(estimator)), estimator)
    operator.inputs = inputs
    real, n = type(guess_tensor_type(inputs[0].type)), estimator.model_.n_components
    if isinstance(estimator, _CHAINS):
        results = {"filtered": real([None, n])}
    else:
        kind = Int64TensorType if _labels(estimator).dtype == np.int64 else StringTensorType
        results = {
            "label": kind([None]),
            "probabilities": real([None, n]),
            "score_samples": real([None]),
        }
    operator.outputs.extend(scope.declare_local_variable(*result) for result in results.items())
    return operator.outputs


def _check(operator):
    """Raise ValueError if the input of an estimator is not what it was fitted to."""
    estimator, inputs = operator.raw_operator, operator.inputs
    n_features = sum(value.type.shape[1] or 0 for value in inputs)
    if len(inputs) > 1 or n_features != estimator.n_features_in_:
        raise ValueError(
            f"ONNX: {type(estimator).__name__} takes one array of {estimator.n_features_in_}"
            f" columns, got {len(inputs)} of {n_features}."
        )


def _convert(scope, operator, container):
    """Add the graph of an estimator."""
    estimator, graph = operator.raw_operator, _Graph()
    name, model = type(estimator).__name__, estimator.model_
    if container.target_opset < _OPSET:
        raise ValueError(f"ONNX: {name} needs a target_opset of {_OPSET} or more.")
    if isinstance(model, HiddenSemiMarkovModel):
        raise NotImplementedError(f"ONNX: there is no graph of {name} with durations.")
    scores = scorer_of(estimator)
    if isinstance(estimator, _MIXTURES) and not isinstance(scores, MixtureModel):
        raise NotImplementedError(f"ONNX: there is no graph of {name} with several models.")
    for categories in getattr(estimator, "categories_", []):
        if not np.array_equal(categories, np.arange(len(categories))):
            raise ValueError(
                f"ONNX: {name} has learnt the categories {categories.tolist()!s:.60}. Fit it to"
                " codes from 0 on, as those of sklearn.preprocessing.OrdinalEncoder in a pipeline."
            )
    x = graph.Cast("X", to=TensorProto.DOUBLE)
    is_missing = graph.IsNaN(x)
    if getattr(estimator, "binarize", None) is not None:
        bits = graph.Cast(graph.Greater(x, estimator.binarize), to=TensorProto.DOUBLE)
        x = graph.Where(is_missing, x, bits)
    log_densities = _log_densities(model.family, model.parameters, x, graph)
    n_missing = graph.ReduceSum(graph.Cast(is_missing, to=TensorProto.INT64), [1])
    is_observed = graph.Less(n_missing, estimator.n_features_in_)
    log_densities = graph.Where(is_observed, log_densities, 0.0)
    results = _outputs(estimator, model, log_densities, graph)
    kind = guess_proto_type(operator.outputs[-1].type)
    results[-2:] = [graph.Cast(x, to=kind) for x in results[-2:]]
    opset = [helper.make_opsetid("", container.target_opset)]
    proto = helper.make_model(graph.proto(["X"], results), opset_imports=opset)
    add_onnx_graph(scope, operator, container, proto)


def _alias(kind):
    return f"sklearn_onlineem.{kind.__name__}"


for _kind in _MIXTURES + _CHAINS:
    update_registered_converter(_kind, _alias(_kind), _check, _convert, parser=_parse)

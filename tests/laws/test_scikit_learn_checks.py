"""scikit-learn's own checks of estimators."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from scipy.sparse import hstack, issparse
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from sklearn_onlineem import (
    HMM,
    AnomalyDetector,
    BernoulliMixture,
    CategoricalHMM,
    CategoricalMixture,
    CompoundDirichlet,
    CompoundDirichletMixture,
    ExponentialMixture,
    GammaMixture,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MarkovChainMixture,
    Mixture,
    MixtureRegressor,
    MultinomialHMM,
    MultinomialMixture,
    PerSequence,
    PoissonHMM,
    PoissonMixture,
    PrequentialSearch,
    RegressionHMM,
    RegressionMixture,
    StreamPipeline,
    StudentTMixture,
    WishartMixture,
)
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Online, Stochastic
from sklearn_onlineem.em.step import Sampled
from sklearn_onlineem.estimators._rows import RowsInput
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.sequences import SequenceEstimator
from sklearn_onlineem.families import Categorical


class WishartMixtureOfAnyRows(WishartMixture):
    """Takes x as the matrix I + u u', u = x / (1 + |x|), so that scikit-learn's checks apply."""

    def _prepared(self, X):
        u = X / (1.0 + np.abs(X))
        matrices = np.eye(X.shape[1], dtype=X.dtype) + u[:, :, None] * u[:, None, :]
        return matrices.reshape(len(X), -1)


class SymbolsOfAnyRows(Categorical):
    """Takes x as one of four symbols in each column, so that scikit-learn's checks apply."""

    def bind(self, X, sample_weight=None):
        return replace(self, n_categories=4)

    def check(self, X):
        pass

    def _features(self, X):
        return super()._features(np.floor(np.abs(X)) % 4)


class _OfAnyRows:
    def _family(self, known=None):
        return SymbolsOfAnyRows()

    _given_family = _family

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False
        return tags


class CategoricalHMMOfAnyRows(_OfAnyRows, CategoricalHMM):
    pass


class CategoricalMixtureOfAnyRows(_OfAnyRows, CategoricalMixture):
    pass


class MarkovChainMixtureOfAnyRows(MarkovChainMixture):
    """Takes x as the first transitions of as few symbols as have so many."""

    def _input(self, fresh=False):
        reader = super()._input(fresh)
        reader._converted = lambda X: RowsInput._converted(reader, X)
        reader._batch = lambda X, *more: RowsInput._batch(reader, square(X), *more)
        return reader

    def _prior(self, model, n_features):
        return super()._prior(model, model.parameters.shape[1])


def square(X):
    n_columns = math.isqrt(X.shape[1] - 1) + 1
    zeros = np.zeros((X.shape[0], n_columns**2 - X.shape[1]), X.dtype)
    return hstack([X, zeros], format="csr") if issparse(X) else np.hstack([X, zeros])


class LatentDirichletAllocationOfAnyCounts(LatentDirichletAllocation):
    """Rounds fractions, which cannot be drawn, up, so that scikit-learn's checks apply."""

    def _input(self, fresh=False):
        return rounding(super()._input(fresh))


def rounding(reader):
    read = reader._batch
    reader._batch = lambda X, *more: read(X.ceil() if issparse(X) else np.ceil(X), *more)
    return reader


# To hidden Markov models and Kalman filters a 2-D array is one sequence.
ROWS_ARE_NO_SAMPLES = {
    "check_methods_subset_invariance": "states of a row depend on the rows around it, and"
    " score_samples returns one value for a sequence",
    "check_methods_sample_order_invariance": "the order of rows is what a sequence is about, and"
    " score_samples returns one value for a sequence",
    "check_sample_weights_not_overwritten": "rows of a sequence have one weight",
    "check_sample_weight_equivalence_on_dense_data": "rows of a sequence have one weight",
    "check_classifiers_one_label_sample_weights": "rows of a sequence have one weight",
}


# Other draws for a row that is there twice than for one of weight 2.
DRAWN = {
    "check_sample_weight_equivalence_on_dense_data": "what is drawn for repeated rows differs",
    "check_sample_weight_equivalence_on_sparse_data": "what is drawn for repeated rows differs",
}


# Collapsed Gibbs sampling.
DRAWN_IN_TURN = {
    **DRAWN,
    "check_sample_weights_list": "rows that are drawn together take no weights",
    "check_sample_weights_not_overwritten": "rows that are drawn together take no weights",
    "check_estimators_nan_inf": "gaps are refused by fit alone",
}


# Stochastic EM of topics, and collapsed Gibbs sampling of them.
DRAWN_TOGETHER = {
    **DRAWN,
    "check_sample_weights_list": "documents that are drawn together take no weights",
    "check_sample_weights_not_overwritten": "documents that are drawn together take no weights",
}


# With labels. Scikit-learn sets n_components to 1 where it is a parameter, and has two classes.
AS_CLASSIFIERS = {
    **dict.fromkeys(
        [
            "check_dont_overwrite_parameters",
            "check_fit2d_1feature",
            "check_fit2d_predict1d",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
        ],
        "one component has one class",
    ),
    "check_classifier_not_supporting_multiclass": "the message names n_components",
    "check_classifiers_classes": "-1 is unknown, not a class",
    "check_supervised_y_2d": "a column of labels is taken without a warning",
    "check_supervised_y_no_nan": "NaN is an unknown label",
}


CUTS_MOVE = {
    f"check_sample_weight_equivalence_on_{form}_data": "repeated rows move the cuts between shards,"
    " of which the first provides the start"
    for form in ("dense", "sparse")
}


# As in scikit-learn's own pipelines.
IN_PLACE = {
    name: "the steps of a pipeline learn in place"
    for name in ("check_estimators_overwrite_params", "check_dont_overwrite_parameters")
}


def scaled(last):
    return StreamPipeline([("scaler", StandardScaler()), ("last", last)])


def draws(solver):
    return solver == "stochastic" or (
        not isinstance(solver, str) and (solver.draws or solver.inertia.draws)
    )


def expected_failures(estimator):
    if getattr(estimator, "semi_supervised", False):
        of_sequences = ROWS_ARE_NO_SAMPLES if isinstance(estimator, SequenceEstimator) else {}
        return AS_CLASSIFIERS | of_sequences
    if isinstance(estimator, StreamPipeline):
        return IN_PLACE
    if isinstance(estimator, DistributedEM):
        return CUTS_MOVE if estimator.n_shards == 2 else {}
    if isinstance(estimator, AnomalyDetector):
        return expected_failures(estimator.estimator)
    if isinstance(estimator, MixtureRegressor):
        return {"check_estimators_nan_inf": "features that are missing are integrated out"}
    if isinstance(estimator, SequenceEstimator):
        return ROWS_ARE_NO_SAMPLES
    if isinstance(estimator, BaseMixture) and estimator.solver == "gibbs":
        return DRAWN_IN_TURN
    if isinstance(estimator, LatentDirichletAllocation):
        return DRAWN_TOGETHER if estimator.solver in ("gibbs", "stochastic") else DRAWN
    counts = isinstance(estimator, CompoundDirichlet | CompoundDirichletMixture)
    return DRAWN if counts and draws(estimator.solver) else {}


@pytest.mark.filterwarnings("ignore:.* zeros were replaced by:UserWarning")
@parametrize_with_checks(
    [
        GaussianMixture(),
        GaussianMixture(4, covariance_type="diag", solver=Stochastic(average_from=2), max_iter=5),
        # `check_estimator_sparse_*` expect a column of `predict_proba` for each of four classes.
        PoissonMixture(4),
        MultinomialMixture(4),
        MarkovChainMixtureOfAnyRows(4),
        PoissonMixture(
            4, solver="gibbs", prior={"rate": 0.5}, weight_concentration_prior=1.5, max_iter=5
        ),
        CompoundDirichletMixture(4, solver=Online(inertia=Sampled(20)), max_iter=5),
        CompoundDirichlet(solver="newton"),
        CompoundDirichlet(solver="stochastic", max_iter=5),
        LatentDirichletAllocation(e_step="map", max_iter=5),
        LatentDirichletAllocationOfAnyCounts(max_iter=5),
        LatentDirichletAllocationOfAnyCounts(solver="gibbs", max_iter=5),
        BernoulliMixture(4),
        GaussianMixture(2, semi_supervised=True),
        GaussianHMM(2, algorithm="map", semi_supervised=True),
        ExponentialMixture(),
        GammaMixture(),
        WishartMixtureOfAnyRows(max_iter=20),
        Mixture(),
        StudentTMixture(),
        CategoricalMixtureOfAnyRows(),
        RegressionMixture(),
        RegressionMixture(3),
        GaussianHMM(),
        CategoricalHMMOfAnyRows(),
        MultinomialHMM(),
        PoissonHMM(),
        HMM(termination="end_state"),
        RegressionHMM(lags=1),
        KalmanFilter(2, observation_covariance_type="diag", solver="stochastic", max_iter=5),
        PerSequence(StandardScaler()),
        AnomalyDetector(GaussianMixture(2, random_state=0)),
        AnomalyDetector(GaussianHMM(2, random_state=0)),
        AnomalyDetector(KalmanFilter(2, max_iter=10, random_state=0)),
        MixtureRegressor(),
        MixtureRegressor(GaussianMixture(2, covariance_type="diag", random_state=0)),
        PrequentialSearch(GaussianMixture(random_state=0), {"beta": [0.6, 0.8]}, batch_size=10),
        PrequentialSearch(scaled(GaussianMixture(random_state=0)), {"last__beta": [0.6, 0.8]}),
        scaled(GaussianMixture(2, random_state=0)),
        scaled(SGDClassifier(random_state=0)),
        DistributedEM(GaussianMixture()),
        DistributedEM(GaussianMixture(), mode="asynchronous"),
        # Data of ten rows need shards of enough rows to start from.
        DistributedEM(PoissonMixture(4, random_state=0), n_shards=2),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_arrays_of_the_array_api():
    """The checks that `SCIPY_ARRAY_API` switches on, in a process that begins with it."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "check_array_api", __file__],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    # 5: scikit-learn has such checks from 1.9 on.
    assert run.returncode in (0, 5), run.stdout
    assert run.returncode == 0 or parse_version(sklearn.__version__) < parse_version("1.9")
    assert "skipped" not in run.stdout

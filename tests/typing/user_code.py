"""Typical code of users, whose types mypy is to find; nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, assert_type

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem import (
    AnomalyDetector,
    CategoricalHMM,
    CategoricalMixture,
    CompoundDirichlet,
    EditDistance,
    EditDistanceClassifier,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MarkovChainMixture,
    Mixture,
    MixtureRegressor,
    PerSequence,
    PoissonMixture,
    PrequentialSearch,
    RegressionHMM,
    RegressionMixture,
    StreamPipeline,
    StudentTMixture,
    combine_estimators,
)
from sklearn_onlineem.data import Batch
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.diagnostics import (
    DriftWatch,
    EarlyStopping,
    StreamCertificate,
    convergence_certificate,
    missing_information,
    standard_errors,
)
from sklearn_onlineem.diagnostics.drift import Drift
from sklearn_onlineem.diagnostics.standard_errors import StandardErrors
from sklearn_onlineem.displays import (
    ForecastDisplay,
    LearningCurveDisplay,
    MixtureDisplay,
    TransitionDisplay,
)
from sklearn_onlineem.distributed import DistributedEM, Round
from sklearn_onlineem.em import Constant, Gibbs, Online, PowerDecay, Restart
from sklearn_onlineem.em.schedules import named_schedule, rate_of
from sklearn_onlineem.em.state import Step
from sklearn_onlineem.em.step import Sampled
from sklearn_onlineem.families import (
    Diagonal,
    ExponentialFamily,
    Gaussian,
    Laplace,
    Poisson,
    StudentT,
)
from sklearn_onlineem.models.mixtures.conditional import ConditionalMixture
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, MixtureStatistics
from sklearn_onlineem.statistics import Sums, combine

Floats = NDArray[np.floating]
Integers = NDArray[np.integer]

X = np.zeros((100, 2))
y = [0] * 100

mixture = GaussianMixture(2, covariance_type="diag", eta0=1.0, random_state=0)
assert_type(mixture, GaussianMixture)
assert_type(mixture.fit(X), GaussianMixture)
assert_type(mixture.partial_fit(X, sample_weight=np.ones(100)), GaussianMixture)
assert_type(mixture.set_params(eta0=2.0), GaussianMixture)
assert_type(mixture.get_params(), dict[str, object])
assert_type(mixture.predict(X), Integers)
assert_type(mixture.fit_predict(X), Integers)
assert_type(mixture.predict_proba(X), Floats)
assert_type(mixture.score_samples([[0.0, 1.0]]), Floats)
assert_type(mixture.score(X), float)
assert_type(mixture.bic(X), float)
assert_type(mixture.sample(3), tuple[Floats, Integers])
assert_type(mixture.means_, Floats)
assert_type(mixture.covariances_, Floats)
assert_type(mixture.n_features_in_, int)
assert_type(mixture.n_steps_, int)
assert_type(mixture.converged_, bool)
assert_type(mixture.lower_bounds_, list[float])
assert_type(mixture.eta0, float | str)
assert_type(combine_estimators([mixture, mixture], weights=[1.0, 2.0]), GaussianMixture)
PoissonMixture(2, prior=mixture.as_prior(10.0))

assert_type(CompoundDirichlet().fit(X).alpha_, Floats)

regressions = RegressionMixture(2, covariance_type="diag").fit(X, y).partial_fit(X, y)
assert_type(regressions, RegressionMixture)
assert_type(regressions.predict(X), Floats)
assert_type(regressions.predict(X, return_std=True), tuple[Floats, Floats])
assert_type(regressions.log_density(X, y), Floats)
assert_type(regressions.sample(X), tuple[Floats, Integers])
assert_type(regressions.coef_, Floats)

detector = AnomalyDetector(mixture, contamination=0.1)
assert_type(detector.partial_fit(X), AnomalyDetector[GaussianMixture])
assert_type(detector.decision_function(X), Floats | list[Floats])
assert_type(detector.predict(X), Integers | list[Integers])
assert_type(detector.offset_, float)
assert_type(detector.estimator_, GaussianMixture)

regressor = MixtureRegressor(mixture).fit(X, y)
assert_type(regressor.partial_fit(X, y), MixtureRegressor[GaussianMixture])
assert_type(regressor.predict_interval(X, level=0.8), tuple[Floats, Floats])
assert_type(regressor.score_samples(X, y), Floats)
assert_type(regressor.mixture_, GaussianMixture)
assert_type(regressor.conditional(X).quantile(0.5), Floats)
assert_type(mixture.conditional(X), ConditionalMixture)
assert_type(mixture.conditional(X, features=[0]).sample(0), Floats)

hmm = GaussianHMM(2, random_state=0).fit([X, X]).partial_fit(X, continues=True)
assert_type(hmm, GaussianHMM)
assert_type(hmm.predict(X), Integers | list[Integers])
assert_type(hmm.decode([X, X]), tuple[float, Integers | list[Integers]])
assert_type(hmm.transmat_, Floats)
regimes = RegressionHMM(2, lags=1).fit(X, inputs=y).partial_fit(X, inputs=y, continues=True)
assert_type(regimes.predict([X, X], inputs=[y, y]), Integers | list[Integers])
assert_type(regimes.live_filter().update([0.0], inputs=[1.0]), Floats)
assert_type(CategoricalHMM(3).fit([[0], [1]], lengths=[1, 1]).emissionprob_, Floats)

kalman = KalmanFilter(1).fit(X)
assert_type(kalman.transform(X), Floats | list[Floats])
assert_type(kalman.score_rows(X, continues=True), Floats | list[Floats])
assert_type(kalman.impute(X), Floats | list[Floats])
assert_type(kalman.transition_matrices_, Floats)
assert_type(kalman.observation_covariance_, Floats)

topics = LatentDirichletAllocation(3).fit(X)
assert_type(topics.components_, Floats)
assert_type(topics.perplexity(X), float)
assert_type(topics.top_words(n=3), list[list[str]])

chains = MarkovChainMixture(2).fit([[[0], [1]], [[1], [0], [1]]])
assert_type(chains.predict([[[0], [1]]]), Integers)

pairs = [("colour", "color")]
distance = EditDistance().fit(pairs)
assert_type(distance, EditDistance)
assert_type(distance.distance("a", "b"), float)
assert_type(distance.pairwise(["a"], ["b"]), Floats)
assert_type(EditDistanceClassifier(distance).fit(["a"], ["b"]), EditDistanceClassifier)
assert_type(PerSequence(object()).fit([X]), PerSequence)
pipeline = StreamPipeline([("mixture", GaussianMixture(2))]).fit_stream([X])
assert_type(pipeline.partial_fit(X), StreamPipeline)
search = PrequentialSearch(pipeline, {"mixture__beta": [0.6, 0.8]}, n_jobs=2).fit_stream([X])
assert_type(search, PrequentialSearch)
assert_type(search.best_score_, float)

schedule = PowerDecay(eta0=2.0, beta=0.7)
assert_type(schedule(4.0), float)
assert_type(schedule.with_params(beta=0.6), PowerDecay)
assert_type(named_schedule("constant", 0.5, 0.6, 10.0)(2), float)
assert_type(rate_of(lambda t: 1.0 / t, n_seen=300, n_rows=100), float)
solver = Online(average_from=3, inertia=Sampled(500))
GaussianMixture(2, solver=solver, schedule=schedule).fit(X)
GaussianMixture(2, solver=Gibbs(n_chains=2), schedule=lambda t: 1.0 / t)


def surprised(step: Step) -> Restart | None:
    return Restart(10) if step.log_likelihood < -5.0 and step.certificate > 1.0 else None


def slower(drift: Drift) -> None:
    mixture.set_params(schedule=Constant(1.0 / drift.n_rows))


stopping, certificate = EarlyStopping(X, patience=2), StreamCertificate(half_life=20)
mixture = GaussianMixture(2, callbacks=[surprised, DriftWatch(slower), stopping, certificate]).fit(
    X
)
assert_type(mixture.history_[-1].eta, float)
assert_type(certificate.mean, float)
assert_type(stopping.scores, list[tuple[int, float]])
assert_type(convergence_certificate(mixture, X, sample_weight=np.ones(100)).gain, float)
assert_type(missing_information(mixture, X).directions[0].shares, Floats)
assert_type(standard_errors(mixture, X), StandardErrors)
assert_type(standard_errors(mixture, X).intervals(0.9), dict[str, Floats])

display = MixtureDisplay.from_estimator(mixture, X, features=[0, 1]).plot(scatter_kw={"s": 4})
assert_type(display, MixtureDisplay)
display.figure_.savefig("mixture.png")
TransitionDisplay.from_estimator(hmm, kind="graph").ax_.set_title("states")
ForecastDisplay.from_estimator(kalman, X, n_steps=5).plot(kinds=["filtered"], mass=0.9)
LearningCurveDisplay.from_estimator({"one": mixture, "other": mixture.history_})

learner = DistributedEM(mixture, mode="synchronous", n_shards=4, n_jobs=2).fit(X, validation=X)
assert_type(learner, DistributedEM[GaussianMixture])
assert_type(learner.estimator_.means_, Floats)
assert_type(learner.history_, list[Round])
assert_type(learner.score(X), float)

rows = Rows(X, sample_weight=np.ones(100))
assert_type(rows[10:20].total_weight, float)
assert_type(Rows.concatenate([rows[:50], rows[50:]]), Rows)
batch: Batch = Sequences(rows, np.array([0, 40, 100]))
assert_type(batch.n_rows, int)


@dataclass(frozen=True)
class Geometric(ExponentialFamily[Floats, Sums]):
    """A family of one's own, as the guide has one."""

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        return self

    def to_natural(self, parameters: Floats) -> Floats:
        return np.log(parameters / (1.0 + parameters))

    def from_natural(self, natural: Floats) -> Floats:
        return 1.0 / np.expm1(-natural)

    def log_partition(self, natural: Floats) -> Floats:
        return -np.log(-np.expm1(natural)).sum(axis=1)

    def sample(self, parameters: Floats, components: Integers, rng: np.random.Generator) -> Floats:
        return rng.geometric(1.0 / (1.0 + parameters[components])) - 1.0


family = Geometric()
weights, rates, rng = np.array([0.5, 0.5]), np.array([[1.0], [9.0]]), np.random.default_rng(0)
statistics = family.expected_statistics(X, np.ones((100, 2)))
assert_type(statistics, Sums)
assert_type(combine([(1.0, statistics), (2.0, family.own_statistics(rates, weights))]), Sums)
assert_type(family.m_step(statistics), Floats)
assert_type(family.bind(X), Geometric)
assert_type(Poisson().kl_divergence(rates, rates), Floats)
assert_type(Gaussian(Diagonal()).prior_statistics(2, n_features=2, shape=1.0).mean, Floats)
laplaces = Laplace().m_step(Laplace().expected_statistics(X, np.ones((100, 1))))
assert_type(laplaces.location, Floats)
students = StudentT(Diagonal(), 5.0).m_step(StudentT().expected_statistics(X, np.ones((100, 1))))
assert_type(students.gaussians.mean, Floats)
assert_type(StudentTMixture(degrees_of_freedom="shared").fit(X).degrees_of_freedom_, Floats)
assert_type(Mixture(2, family=family).fit(X).means_, Floats)
classes = CategoricalMixture(2, n_categories=[2, 3]).fit(X)
assert_type(classes, CategoricalMixture)
assert_type(classes.probabilities_, list[Floats])
Mixture(2, family={("age", "income"): "gaussian", 2: family}).fit(X)

model = MixtureModel(family, weights, rates)
assert_type(model.posterior(rows), Floats)
assert_type(model.e_step(rows), tuple[MixtureStatistics, float])
assert_type(model.m_step(model.own_statistics()), MixtureModel)
assert_type(model.sample(3, rng), tuple[Floats, Integers])

family.m_step(rates)  # type: ignore[arg-type]
model.log_likelihood(X)  # type: ignore[arg-type]
GaussianMixture(covariance_type=3)  # type: ignore[arg-type]
mixture.fit(X, weight=3)  # type: ignore[call-arg]
mixture.sample("three")  # type: ignore[arg-type]
DistributedEM(object())  # type: ignore[type-var]
PowerDecay(rate=1.0)  # type: ignore[call-arg]
Restart("ten")  # type: ignore[arg-type]
display.plot(mass=0.9)  # type: ignore[call-arg]

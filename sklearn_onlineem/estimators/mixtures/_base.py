"""Base of the mixtures; the estimators add established names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem._checks import check_bool, finite_start, relative_shares
from sklearn_onlineem._typing import Cut, Floats, Integers, RowData, Where
from sklearn_onlineem.em.solvers import RunningStatistics, Solver, solvers_for
from sklearn_onlineem.estimators._known import (
    Settable,
    fixed_entries,
    learnt_parts,
    with_masks,
    with_start_values,
)
from sklearn_onlineem.estimators._labels import LearnsClasses
from sklearn_onlineem.estimators._rows import RowEstimator
from sklearn_onlineem.estimators._start import (
    PRIOR,
    STARTS,
    ClusterInitialiser,
    LearntPrior,
    TakesPrior,
    bound,
)
from sklearn_onlineem.estimators.fitted import fitted_property, rollback
from sklearn_onlineem.estimators.learning import generator
from sklearn_onlineem.estimators.parameters import AUTO, COUNT, available_if, estimator, parameter
from sklearn_onlineem.estimators.sequence_forms import in_container
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.models.fixed import Fixed
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, MixtureStatistics


@dataclass(frozen=True)
class MixtureInitialiser(ClusterInitialiser):
    """Clusters of rows or responsibilities, and start values."""

    # Seeds differ more than clusters of k-means, and EM from them is as likely on average.
    other = "k-means++"

    def _model(self, mixture, data):
        mixture = replace(mixture, fixed=self.estimator._fixed())
        return with_start_values(self.estimator, mixture, data)

    def _pseudo_statistics(self, model, emissions):
        return MixtureStatistics(np.zeros(self.n_components), emissions)

    def _first(self, family, rows, random_state):
        shape = len(rows), self.n_components
        if not isinstance(self.init, str) and np.shape(self.init) == shape:
            return relative_shares("init", self.init, shape)
        return super()._first(family, rows, random_state)


def _handles_missing(mixture):
    return mixture._handles_missing


@estimator
class MixtureParameters(TakesPrior):
    """Mixin of the estimators of mixtures, whatever their data are.

    Parameters
    ----------
    solver : str or Solver, default="auto"
        How `fit` learns. "auto", "online", "batch", "stochastic" and "bayesian" as for all
        estimators. "gibbs": `max_iter` sweeps of collapsed Gibbs sampling, recorded in `chains_`,
        for families whose posterior predictive has a closed form, under a `prior` that is proper
        (see :ref:`sampling`). "componentwise": generalised EM, which refreshes one component at a
        time (see :ref:`componentwise`).
    n_components : int, default=1
        Number of components.
    n_init : int or "auto", default="auto"
        Number of starts of `fit`; the best result is kept. "auto": two for few rows and several
        components, and the better one goes on after some passes, see
        :class:`~sklearn_onlineem.em.Auto`; else one.
    weights_init : array-like of shape (n_components,), default=None
        Weights to start from.
    weight_concentration_prior : float or array-like of shape (n_components,), default=None
        Concentrations of a Dirichlet prior on the weights; a number is that of all. None: no prior.
        Below 1 the prior is sparse: of the components with fewer rows than 1 minus the
        concentration, each step removes one for good. It is improper at 0 and below; see
        :ref:`number_of_components`.
    prior : dict, "auto", LearntPrior or None, default="auto"
        Hyper-parameters of the family's conjugate prior, the arguments of its `prior_statistics`;
        or the result of `as_prior` of a fitted estimator. None: maximum likelihood. "auto": half a
        pseudo-count of each word, count, symbol, transition, zero and one in each component, so
        that what no row has shown has a probability. Pseudo-counts of words, counts and transitions
        come in rows of the first data's mean sum. Matrices of covariances, if the first data have
        missing values, have a prior that makes up for these, see :ref:`few_values`. Else "auto" is
        no prior.
    params : str or dict, default="wp"
        What is learnt: "w", the weights, and "p", the parameters of the components; the rest stays
        as it starts, or as it was set. Or a dict of masks, True where an entry is learnt:
        "weights", and "parameters" of all of a component, of shape (n_components,). Parts without a
        mask are learnt. See :ref:`known_models`.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Weights of the components.
    n_components_ : int
        Components whose weight is not 0.
    """

    solver: str | Solver = parameter(
        default="auto", valid=[StrOptions(solvers_for(MixtureModel) - {"newton"}), Solver]
    )
    n_components: int = parameter(default=1, valid=[COUNT], structural=True, kw_only=False)
    n_init: int | str = parameter(default="auto", valid=[COUNT, AUTO])
    weights_init: object = parameter(default=None, valid=[None, "array-like"])
    weight_concentration_prior: float | ArrayLike | None = parameter(
        default=None, valid=[None, Interval(Real, None, None, closed="neither"), "array-like"]
    )
    prior: Mapping[str, object] | LearntPrior | str | None = parameter(default="auto", valid=PRIOR)
    params: str | Mapping[str, object] = parameter(default="wp", valid=[str, dict], structural=True)

    _whole = ("parameters", "p")

    def _fixed(self):
        """Return what is fixed, as models take it, or None."""
        learnt = learnt_parts(self)
        if all(value is True for value in learnt.values()):
            return None
        parts = {"weights": learnt["weights"], "components": learnt["parameters"]}
        fixed = fixed_entries(self.n_components, **parts)
        # Families know the others.
        return Fixed() if fixed is None else fixed

    def _learning(self, model):
        family = with_masks(model.family, self._family())
        return replace(model, family=family, fixed=self._fixed())

    def _prior(self, model, n_features):
        name, n_components = "weight_concentration_prior", self.n_components
        concentration = getattr(self, name)
        emissions = self._emission_prior(model.family, n_features)
        if emissions is None and concentration is None:
            return None
        if emissions is None:
            emissions = model.family.own_statistics(model.parameters, np.zeros(n_components))
        excess = 0.0
        if concentration is not None:
            shape = () if isinstance(concentration, Real) else (n_components,)
            excess = finite_start(name, concentration, shape, np.inf) - 1.0
        return MixtureStatistics(np.full(n_components, excess), emissions)

    def _blank(self, sizes, n_features, given):
        family, n_components = self._family(), self.n_components
        uniform = np.full(n_components, 1.0 / n_components)
        parameters = self._standard(family, n_components, n_features)
        return MixtureModel(family, uniform, parameters, self._fixed())

    def _parts(self, family=None):
        return MixtureModel._parts_of(family or self._family())

    def _bound(self, model, data):
        return replace(model, family=bound(model.family, data, self.n_components))

    weights_ = Settable[Floats](letters="w", masks="k")

    @fitted_property
    def n_components_(self) -> int:
        return self.model_.n_active


@estimator
class BaseMixture(LearnsClasses, ClassNamePrefixFeaturesOutMixin, MixtureParameters, RowEstimator):
    """Base of the mixtures that cluster rows: they say which family, and name its parameters.

    Parameters
    ----------
    init : str or array-like, default="k-means"
        Start: "k-means", "k-means++", "random" (responsibilities), "random_from_data" (rows as
        centres), centres of shape (n_components, n_features), or responsibilities of shape
        (n_samples, n_components). Distances do not depend on the units of columns; see
        :ref:`starts`.
    means_init : array-like of shape (n_components, n_features), default=None
        Means to start from.

    Attributes
    ----------
    means_ : ndarray of shape (n_components, n_features)
        Means of the components.

    References
    ----------
    Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden Variable
    Models", UAI 2020, section 4.
    """

    init: object = parameter(default="k-means", valid=[StrOptions(set(STARTS)), "array-like"])
    means_init: object = parameter(default=None, valid=[None, "array-like"])

    def _initialiser(self):
        return MixtureInitialiser.of(self)

    means_ = Settable[Floats]()

    def predict_proba(self, X: RowData, *cut: Cut, **where: Unpack[Where]) -> Floats:
        """Return the responsibility of each component for each sample.

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_components)
            Rows add up to 1.
        """
        return self._infer("posterior", X, *cut, **where)

    def predict(self, X: RowData, *cut: Cut, **where: Unpack[Where]) -> Integers:
        """Return the most probable component of each sample, or its label in `classes_`.

        Returns
        -------
        components : ndarray of shape (n_samples,)
            Numbers, or labels with ``semi_supervised=True``.
        """
        seen = self._seen() if self.semi_supervised else self
        return seen._as_classes(seen._infer("most_probable", X, *cut, **where))

    def fit_predict(
        self,
        X: RowData,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        **where: Unpack[Where],
    ) -> Integers:
        """Fit, and return the most probable component of each sample, as `predict` does.

        Returns
        -------
        components : ndarray of shape (n_samples,)
        """
        with rollback(self):
            return self.fit(X, y, sample_weight, **where).predict(X, **where)

    def score_samples(self, X: RowData, predictive: bool = False, **where: Unpack[Where]) -> Floats:
        """Return the log-likelihood of each sample.

        After `partial_fit` with ``solver="adaptive"`` it is that of the mixture of its models.

        Parameters
        ----------
        predictive : bool, default=False
            Whether to use the posterior predictive distribution, which accounts for the uncertainty
            of the parameters, instead of the model. It requires ``solver="bayesian"``, and a family
            that has it in closed form: Student's t for Gaussians, negative binomials for Poisson
            rates, Polya's for multinomials, ...

        Returns
        -------
        log_likelihoods : ndarray of shape (n_samples,)
            In nats.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import GaussianMixture
        >>> X = np.array([[-1.0], [0.0], [1.0], [0.5]])
        >>> prior = {"mean_precision": 0.1, "covariance": 1.0, "degrees_of_freedom": 2.0}
        >>> mixture = GaussianMixture(prior=prior, solver="bayesian").partial_fit(X)
        >>> outlier = [[5.0]]
        >>> mixture.score_samples(outlier).round(1), mixture.score_samples(outlier, True).round(1)
        (array([-34.]), array([-7.6]))
        """
        check_bool(f"predictive of {type(self).__name__}.score_samples", predictive)
        if not predictive:
            return super().score_samples(X, **where)
        seen = self._seen()
        with error_context(self):
            statistics = seen._posterior_statistics()
            return seen._infer("predictive_log_likelihood", X, given=(statistics,), **where)

    def _posterior_statistics(self):
        """Return statistics of all data seen, as sums over rows, and of the prior."""
        state = self._fitted.state
        running, prior = state.carry.get(RunningStatistics.name), state.prior
        if running is None:
            raise ValueError("predictive=True requires running statistics: solver='bayesian'.")
        total = running.statistics.scale(running.mass)
        return total if prior is None else total + prior

    def transform(self, X: RowData, *cut: Cut, **where: Unpack[Where]) -> Floats:
        """Return the responsibilities, as `predict_proba` does.

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_components)
            Rows add up to 1.
        """
        return self.predict_proba(X, *cut, **where)

    @available_if(_handles_missing)
    def impute(self, X: RowData) -> Floats:
        """Return X with missing values replaced by their expectations given the others.

        Expectations are averaged over the components; a nominal value is replaced by the most
        probable one. Columns of texts and categories have these, not codes. The output follows
        `set_output`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows; NaN is missing.

        Returns
        -------
        X : array-like of shape (n_samples, n_features)
            Without missing values.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import GaussianMixture
        >>> x = np.arange(100.0)
        >>> X = np.column_stack([x, np.where(x == 3.0, np.nan, 2.0 * x + 1.0)])
        >>> GaussianMixture().fit(X).impute(X)[3].round(2)
        array([3., 7.])
        """
        return self._in_container(self._infer("completed", X), X)

    @available_if(_handles_missing)
    def sample_missing(self, X: RowData) -> Floats:
        """Return X with missing values drawn, given the others.

        A component is drawn for each row from its posterior, then what is missing in the row.
        Several draws show what imputation leaves open (multiple imputation). They depend on
        `random_state`: draws are the same at each call if it is a number. The output follows
        `set_output`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows; NaN is missing.

        Returns
        -------
        X : array-like of shape (n_samples, n_features)
            Without missing values.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import GaussianMixture
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 1)) + [0.0, 5.0]
        >>> mixture = GaussianMixture(random_state=0).fit(X)
        >>> drawn = mixture.sample_missing(np.column_stack([X[:, 0], np.full(500, np.nan)]))
        >>> bool(abs(np.corrcoef(drawn.T)[0, 1] - np.corrcoef(X.T)[0, 1]) < 0.1)
        True
        """
        return self._in_container(self._infer("drawn", X, given=(generator(self),)), X)

    def _in_container(self, rows, X):
        return in_container(self, rows, X)

    def sample(self, n_samples: int = 1) -> tuple[Floats, Integers]:
        """Draw rows from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            How many rows to draw, at least 1.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Columns of texts and categories have these, not codes.
        y : ndarray of shape (n_samples,)
            The component of each row.
        """
        seen = self._seen()
        seen._check_n_samples(n_samples)
        with single_threaded_blas(n_samples):
            X, y = seen.model_.sample(n_samples, generator(self))
        return seen._as_given(X), y

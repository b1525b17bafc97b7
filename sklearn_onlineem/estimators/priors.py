"""Priors: hyper-parameters of conjugate ones, and fitted models, as pseudo-statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sklearn_onlineem._errors import ours
from sklearn_onlineem.em.settings import check_number
from sklearn_onlineem.estimators._start import Initialiser
from sklearn_onlineem.estimators.parameters import are_same
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.families.capabilities import ConjugatePriors
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics


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
        for name in estimator._start_parameters():
            if not are_same(estimator._defaults[name], getattr(estimator, name)):
                raise ValueError(
                    f"{name} cannot be combined with a LearntPrior, which sets the initial model."
                )

    def __repr__(self):
        return f"LearntPrior({self.made_by}, weight={self.weight:g})"


@dataclass(frozen=True)
class LearntStart(Initialiser):
    """The model of a learnt prior as the start, bound to the first data."""

    prior: LearntPrior
    bound: Callable

    def given(self, data):
        if data.n_features != self.prior.n_features:
            raise ValueError(
                f"X has {data.n_features} features, but prior was learnt from"
                f" {self.prior.n_features}."
            )
        return self.bound(self.prior.model, data)

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
    """Mixin of estimators with a parameter `prior`: hyper-parameters, or a fitted model."""

    @property
    def _learnt_prior(self):
        return self.prior if isinstance(self.prior, LearntPrior) else None

    @property
    def _hyperparameters(self):
        return None if self._learnt_prior is not None else self.prior

    def _start(self):
        learnt = self._learnt_prior
        return super()._start() if learnt is None else LearntStart(learnt, self._bound)

    def _pseudo_statistics(self, model, n_features):
        prior, learnt = super()._pseudo_statistics(model, n_features), self._learnt_prior
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
            fitted, starts = seen._fitted, self._start_parameters()
            shape = zip(self._structural_parameters, fitted.structure, strict=True)
            return LearntPrior(
                type(self).__name__, {name: x for name, x in shape if name not in starts},
                seen.n_features_in_, fitted.state.model, fitted.state.own_statistics, float(weight),
            )  # fmt: skip

    def log_posterior(self, X: object, y: object = None, **where: object) -> float:
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
        **where
            Further data of `fit`: `sample_weight`, `lengths` or `groups`.

        Returns
        -------
        log_posterior : float

        Raises
        ------
        NotFittedError, ValueError, TypeError
            If the estimator is not fitted, or X or the further data are invalid.

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
            where = where if y is None else {"y": y, **where}
            data, model = seen._input().read(X, **where), seen.model_
            prior = seen._resumed().prior
            with single_threaded_blas(data.n_rows):
                log_likelihood = data.total_weight * model.e_step(data)[1]
                log_prior = 0.0 if prior is None else model.expected_log_likelihood(prior)
            return float(log_likelihood + log_prior)

"""A wide background in the scores of estimators of real numbers."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real

from sklearn.utils._param_validation import Interval

from sklearn_onlineem.em.settings import check_number
from sklearn_onlineem.estimators._parameters import estimator, parameter
from sklearn_onlineem.families._background import WithBackground

__all__ = ["BackgroundScores"]


@estimator
class BackgroundScores:
    """Mixin of estimators whose rows are real numbers.

    Parameters
    ----------
    background : float, default=0.0
        Share b of a wide density in scores, from 0 to below 1. Densities of rows are
        ``(1 - b) p_k(x) + b t(x)`` for each component or state k, where t is the multivariate t
        density with 3 degrees of freedom about the mean and covariance of all rows so far, in
        scores, posteriors and predictions only: steps, `model_` and `sample` do not have it. .01 is
        a good value for streams that drift, or have outliers; see :ref:`background`. The moments
        are collected while it is above 0, from rows without missing values.
    """

    background: float = parameter(default=0.0, valid=[Interval(Real, 0, 1, closed="left")])

    def _scoring(self, model):
        share, name = self.background, type(self).__name__
        if share == 0.0:
            return model
        check_number(f"background of {name}", share, 0.0, 1.0)
        moments = self._fitted_at_once.state.moments
        if moments is None:
            raise ValueError(
                f"{name}: background={share} needs rows without missing values that were learnt"
                " while it was above 0: set it before fit or partial_fit."
            )
        return replace(model, family=WithBackground.of_moments(model.family, share, moments))

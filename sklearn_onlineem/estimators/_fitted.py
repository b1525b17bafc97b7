"""What a fitted estimator shows of its training, and how it is pickled."""

from __future__ import annotations

import math
import warnings

from sklearn.exceptions import InconsistentVersionWarning

from sklearn_onlineem._version import __version__

__all__ = ["FittedValues"]


class FittedValues:
    """Read-only views of the one attribute that fitting sets, `_training`."""

    def __sklearn_is_fitted__(self):
        return "_training" in self.__dict__

    @property
    def _fitted(self):
        """The training of a fitted estimator; an AttributeError, as for any attribute, before."""
        try:
            return self.__dict__["_training"]
        except KeyError:
            raise AttributeError(
                f"This {type(self).__name__} instance is not fitted yet, so it has no such"
                " attribute."
            ) from None

    @property
    def model_(self):
        """The fitted model, a frozen value."""
        return self._fitted.progress.model

    @property
    def n_steps_(self):
        """Number of updates so far."""
        return self._fitted.progress.n_steps

    @property
    def n_samples_seen_(self):
        """Number of rows (their total weight) that the model has learnt from."""
        seen = self._fitted.progress.n_seen
        return int(seen) if float(seen).is_integer() else seen

    @property
    def history_(self):
        """The latest updates, a list of (eta, log_likelihood, kl_divergence)."""
        return self._fitted.history

    @property
    def n_iter_(self):
        """Number of passes of the last `fit` over its data."""
        return self._fitted.n_iter

    @property
    def converged_(self):
        """Whether the last `fit` stopped because of `tol`."""
        return self._fitted.converged

    @property
    def lower_bounds_(self):
        """Mean log-likelihood of each pass of the last `fit`, before or during its updates."""
        return self._fitted.lower_bounds

    @property
    def lower_bound_(self):
        """The last of `lower_bounds_`; NaN of what was merged and has learnt nothing since."""
        bounds, step = self._fitted.lower_bounds, self._fitted.progress.step
        if bounds:
            return bounds[-1]
        return math.nan if step is None else step.log_likelihood

    def __getstate__(self):
        state = {**super().__getstate__(), "_sklearn_onlineem_version": __version__}
        state.pop("_mutex", None)  # a lock can't be pickled or copied
        return state

    def __setstate__(self, state):
        saved = state.pop("_sklearn_onlineem_version", None)
        if saved != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=f"sklearn_onlineem {__version__}",
                    original_sklearn_version=f"sklearn_onlineem {saved}",
                ),
                stacklevel=2,
            )
        super().__setstate__(state)

"""Mixtures of any family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem.estimators._columns import FAMILIES, ColumnFamilies
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.parameters import estimator, parameter
from sklearn_onlineem.families import Family


@estimator
class Mixture(ColumnFamilies, BaseMixture):
    """Mixture of any family of distributions, also of your own.

    Parameters
    ----------
    family : str, Family or dict, default="gaussian_full"
        "gaussian_full", "gaussian_tied", "gaussian_diag", "gaussian_spherical", "poisson",
        "multinomial", "compound_dirichlet", "bernoulli", "categorical", "exponential", "gamma",
        "laplace", "student_t_full", "student_t_tied", "student_t_diag", "student_t_spherical",
        "wishart", or an instance of a :class:`~sklearn_onlineem.families.Family`. A dict has such
        families of groups of columns, which are independent within a component: its keys are names
        of columns, positions, ranges of them (from Python 3.12 also slices), or tuples of these,
        and each column is in one group;
        "gaussian" is short for "gaussian_full". The keys of `prior` are then those groups.

    Attributes
    ----------
    parameters_ : object
        The family's parameters of all components.

    See Also
    --------
    GaussianMixture : With the names of scikit-learn's.
    HMM : The same for rows that follow each other in time.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import Mixture
    >>> from sklearn_onlineem.families import Categorical
    >>> X = np.array([[0, 1], [0, 1], [2, 0], [2, 0]])
    >>> labels = Mixture(2, family=Categorical(n_categories=3), random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    family: str | Family | Mapping[object, str | Family] = parameter(
        default="gaussian_full", valid=[StrOptions(set(FAMILIES)), Family, dict], structural=True
    )

    means_ = replace(BaseMixture.means_, can_be_set=False)

"""Hidden Markov models over any family."""

from __future__ import annotations

from collections.abc import Mapping

from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem.estimators._columns import FAMILIES, ColumnFamilies
from sklearn_onlineem.estimators.hidden_markov._base import BaseHMM
from sklearn_onlineem.estimators.parameters import estimator, parameter
from sklearn_onlineem.families import Family
from sklearn_onlineem.families.capabilities import Marginals


@estimator
class HMM(ColumnFamilies, BaseHMM):
    r"""Hidden Markov model whose states emit rows of any family, also of your own.

    .. math:: p(v, h) = \pi_{h_1} p(v_1 \mid h_1) \prod_{t > 1} a_{h_{t-1} h_t} p(v_t \mid h_t)

    Each step minimises the EM bound of a batch of sequences plus 1/eta times the joint KL
    divergence to the old model. With expected starts g, transitions X and emission sums F of the
    batch (averages per sequence), and expected occupancies u of the states under the old model,

    .. math::
        \tilde\pi_h &= \frac{\pi_h / \eta + g_h}{1 / \eta + 1}, \qquad
        \tilde a_{hh'} = \frac{u^{tr}_h a_{hh'} / \eta + X_{hh'}}
        {u^{tr}_h / \eta + \sum_{h''} X_{hh''}} \\
        \tilde\mu_h &= \frac{u^{em}_h \mu_h / \eta + F_h}{u^{em}_h / \eta + E_h}

    Parameters
    ----------
    family : str, Family or dict, default="gaussian_diag"
        "gaussian_full", "gaussian_tied", "gaussian_diag", "gaussian_spherical", "poisson",
        "multinomial", "bernoulli", "categorical", "exponential", "gamma", "laplace",
        "student_t_full", "student_t_tied", "student_t_diag", "student_t_spherical", "wishart", or
        an instance of a :class:`~sklearn_onlineem.families.Family`. A dict has such families of
        groups of columns, as that of :class:`Mixture`.

    Attributes
    ----------
    parameters_ : object
        The family's parameters of all states.

    See Also
    --------
    GaussianHMM : With the names of hmmlearn's.
    Mixture : The same for rows without order.
    KalmanFilter : States that are vectors.
    PerSequence : Transformers of rows before it in a pipeline.

    References
    ----------
    .. [1] Rabiner, "A tutorial on hidden Markov models and selected applications in speech
       recognition", Proc. IEEE 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import HMM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(np.repeat([[1.0], [50.0]] * 10, 100, axis=0))
    >>> states = HMM(2, family="exponential", random_state=0).fit(X).predict(X)
    >>> changes = np.flatnonzero(np.diff(states))
    >>> bool(abs(len(changes) - 19) <= 2)
    True
    """

    family: str | Family | Mapping[object, str | Family] = parameter(
        default="gaussian_diag", valid=[StrOptions(set(FAMILIES)), Family, dict], structural=True
    )

    @property
    def _takes(self):
        family = FAMILIES.get(self.family) if isinstance(self.family, str) else self.family
        return frozenset({"missing"} if isinstance(family, Marginals | dict) else ())

"""Bursty counts: words that, once used in a document, are used again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem._checks import finite_start
from sklearn_onlineem._typing import Floats, Integers, RowData
from sklearn_onlineem.em.solvers import Solver, solvers_for
from sklearn_onlineem.estimators._known import Settable, with_start_values
from sklearn_onlineem.estimators._rows import RowEstimator
from sklearn_onlineem.estimators._start import Initialiser, LearntPrior, TakesPrior
from sklearn_onlineem.estimators.fitted import exposed
from sklearn_onlineem.estimators.learning import generator
from sklearn_onlineem.estimators.mixtures._base import BaseMixture, MixtureInitialiser
from sklearn_onlineem.estimators.parameters import estimator, parameter
from sklearn_onlineem.estimators.validation import checked_lengths
from sklearn_onlineem.families import CompoundDirichlet as Family
from sklearn_onlineem.families.compound_dirichlet import Dirichlets
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, MixtureStatistics


def _start_alpha(estimator, name, alpha, model):
    """Return start values of alpha, which may be one for all components."""
    shape = model.parameters.alpha.shape
    return np.broadcast_to(finite_start(name, alpha, shape[2 - np.ndim(alpha) :]), shape)


@estimator
class CompoundDirichlet(OneToOneFeatureMixin, TakesPrior, RowEstimator):
    r"""Compound Dirichlet (Dirichlet-multinomial, Polya) counts, learnt online or in batch.

    .. math:: h \sim \mathrm{Dir}(\alpha), \quad v \mid h \sim \mathrm{Mult}(L, h)

    Each document has its own proportions h. Lengths L are given, not modelled. Takes dense arrays
    and CSR; `transform` returns a dense array. Counts may be fractions, such as tf-idf, but not
    negative: factorials are continued by the gamma function. Scores then compare models only on the
    same data.

    Parameters
    ----------
    solver : str or Solver, default="auto"
        How `fit` learns. "auto", "online", "batch", "stochastic" and "bayesian" as for all
        estimators. "newton": Newton's method on the likelihood, which needs a few passes where EM
        needs hundreds. It and batch EM read the documents once, to count them, for all passes. The
        inertia of online steps is exact: the divergence between two models is that of their
        Dirichlet distributions.
    prior : dict or LearntPrior, default=None
        ``pseudo_count`` further documents whose proportions come from a Dirichlet distribution with
        all parameters equal to ``concentration``; or the result of `as_prior` of a fitted
        estimator. None: maximum likelihood.
    alpha_init : array-like of shape (n_features,), default=None
        Start. None: mean proportions, times the precision that the data's moments give.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_features,)
        Its sum is the precision: the smaller, the burstier. That of a word that never occurs falls
        from pass to pass, and with ``solver="newton"`` to 1e-10 at once.

    See Also
    --------
    CompoundDirichletMixture : Clusters of such documents.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden
       Variable Models", UAI 2020, section 5, whose inertia is not in closed form.
    .. [2] Minka, "Estimating a Dirichlet distribution", 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import CompoundDirichlet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.multinomial(50, rng.dirichlet([0.5, 1.0, 2.5], size=5000))
    >>> CompoundDirichlet(random_state=0).fit(X).alpha_.round(1)
    array([0.5, 1. , 2.5])
    """

    solver: str | Solver = parameter(
        default="auto",
        valid=[StrOptions(solvers_for(MixtureModel) - {"gibbs", "componentwise"}), Solver],
    )
    prior: Mapping[str, object] | LearntPrior | None = parameter(
        default=None, valid=[None, dict, LearntPrior]
    )
    alpha_init: object = parameter(default=None, valid=[None, "array-like"])

    _takes = frozenset({"sparse", "positive"})

    def _family(self):
        return Family()

    def _initialiser(self):
        return SingleInitialiser.of(self)

    def _prior(self, model, n_features):
        emissions = self._emission_prior(model.family, n_features)
        return None if emissions is None else MixtureStatistics(np.zeros(1), emissions)

    _sizes = {}

    def _blank(self, sizes, n_features, given):
        return MixtureModel(Family(), np.ones(1), self._standard(Family(), 1, n_features))

    def _standard(self, family, n_components, n_features):
        return Dirichlets(np.ones((n_components, n_features)), np.ones(n_components))

    alpha_ = Settable[Floats](
        read=lambda self: exposed(self, self.model_.parameters.alpha[0]),
        axes="d",
        start=_start_alpha,
    )

    def transform(self, X: RowData) -> Floats:
        """Return the posterior mean proportions, (v + alpha) / (L + alpha_0), a dense array.

        Returns
        -------
        proportions : ndarray of shape (n_samples, n_features)
            Rows add up to 1.
        """
        seen = self._seen()
        data, model = seen._input().read(X), seen.model_
        return model.family.posterior_mean(model.parameters, data.X)

    def sample(self, n_samples: int = 1, lengths: ArrayLike | None = None) -> Floats:
        """Draw documents.

        Parameters
        ----------
        n_samples : int, default=1
            Number of documents.
        lengths : int or array-like of shape (n_samples,), default=None
            Words in each. None: the mean length of the data, rounded.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        seen = self._seen()
        seen._check_n_samples(n_samples)
        return exposed(seen, _sampled(seen, n_samples, lengths)[0])


@estimator
class CompoundDirichletMixture(BaseMixture):
    r"""Mixture of compound Dirichlets: clusters of bursty documents, learnt online or in batch.

    .. math::
        p(v \mid L) = \sum_k w_k \frac{L! \, \Gamma(\alpha_{k0})}{\Gamma(\alpha_{k0} + L)}
        \prod_j \frac{\Gamma(\alpha_{kj} + v_j)}{v_j! \, \Gamma(\alpha_{kj})}

    The first use of a word is more informative than the next ones, unlike in
    :class:`MultinomialMixture`. Documents may have any length; their lengths are not modelled.
    Takes dense arrays and CSR, which is never made dense. Counts may be fractions, such as tf-idf,
    but not negative: factorials are continued by the gamma function. Scores then compare models
    only on the same data.

    Parameters
    ----------
    prior : dict, "auto", LearntPrior or None, default="auto"
        ``pseudo_count`` further documents whose proportions come from a Dirichlet distribution with
        all parameters equal to ``concentration``; or the result of `as_prior` of a fitted
        estimator. "auto" and None are maximum likelihood: `alpha_` is a prior of words already.
    alpha_init : array-like of shape (n_components, n_features), default=None
        Start. None: mean proportions of the components of `init`, times the precisions that their
        moments give.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_components, n_features)
        Sums of rows are precisions: the smaller, the burstier.
    means_ : ndarray of shape (n_components, n_features)
        Expected counts: mean proportions times each component's mean document length.

    See Also
    --------
    CompoundDirichlet : One component, with Newton's method.
    MultinomialMixture : Where words do not come in bursts.

    References
    ----------
    .. [1] Amid & Warmuth, as below, section 5, whose inertia is not in closed form.
    .. [2] Minka, "Estimating a Dirichlet distribution", 2000.
    .. [3] Madsen, Kauchak & Elkan, "Modeling word burstiness using the Dirichlet distribution",
       ICML 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import CompoundDirichletMixture
    >>> X = np.array([[8, 2, 0], [9, 1, 0], [0, 1, 4], [0, 2, 8]])
    >>> labels = CompoundDirichletMixture(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    alpha_init: object = parameter(default=None, valid=[None, "array-like"])

    _takes = frozenset({"sparse", "positive"})

    def _family(self):
        return Family()

    means_ = replace(BaseMixture.means_, parts="lengths")

    _standard = CompoundDirichlet._standard

    alpha_ = Settable[Floats](start=_start_alpha)

    def sample(
        self, n_samples: int = 1, lengths: ArrayLike | None = None
    ) -> tuple[Floats, Integers]:
        """Draw documents from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of documents.
        lengths : int or array-like of shape (n_samples,), default=None
            Words in each. None: the mean length of its component, rounded.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
            The component of each row.
        """
        seen = self._seen()
        seen._check_n_samples(n_samples)
        X, components = _sampled(seen, n_samples, lengths)
        return exposed(seen, X), components


@dataclass(frozen=True)
class SingleInitialiser(MixtureInitialiser):
    """A single component: the given one, or that of the moments of the documents."""

    def _model(self, mixture, data):
        return with_start_values(self.estimator, mixture, data)

    def estimated(self, data, random_state):
        return MixtureModel(self.family, np.ones(1), self.family.of_moments(data))

    stream_model = Initialiser.stream_model


def _sampled(estimator, n_samples, lengths):
    model, rng = estimator.model_, generator(estimator)
    components = rng.choice(model.n_components, size=n_samples, p=model.weights)
    if lengths is not None:
        lengths = checked_lengths(f"lengths of {type(estimator).__name__}", lengths, n_samples)
    return model.family.sample(model.parameters, components, rng, lengths), components

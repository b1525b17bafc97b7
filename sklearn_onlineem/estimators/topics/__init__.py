"""Topics of documents."""

from sklearn_onlineem.estimators.topics.latent_dirichlet_allocation import (
    LatentDirichletAllocation,
)

__all__ = ["LatentDirichletAllocation"]

"""Learning on many machines, or from shards that are anywhere."""

from sklearn_onlineem.distributed._executors import DistributionError
from sklearn_onlineem.distributed._modes import Round
from sklearn_onlineem.distributed.estimator import DistributedEM

__all__ = ["DistributedEM", "DistributionError", "Round"]

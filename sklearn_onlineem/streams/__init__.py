"""Estimators that read streams of chunks: a pipeline that learns, and a search over settings."""

from sklearn_onlineem.streams.pipeline import StreamPipeline
from sklearn_onlineem.streams.search import PrequentialSearch

__all__ = ["PrequentialSearch", "StreamPipeline"]

"""Adapters to other libraries, one module each; none is imported unless asked for."""

__all__ = []

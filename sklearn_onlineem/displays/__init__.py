"""Pictures of estimators and of what they have learnt; matplotlib is imported when one is drawn."""

__all__ = []

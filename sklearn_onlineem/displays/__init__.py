"""Pictures of estimators and of what they have learnt; matplotlib is imported when one is drawn."""

from sklearn_onlineem.displays.merge import MergeDisplay
from sklearn_onlineem.displays.mixture import MixtureDisplay
from sklearn_onlineem.displays.model_selection import ModelSelectionDisplay
from sklearn_onlineem.displays.responsibility import ResponsibilityDisplay
from sklearn_onlineem.displays.topics import TopicsDisplay

__all__ = [
    "MergeDisplay",
    "MixtureDisplay",
    "ModelSelectionDisplay",
    "ResponsibilityDisplay",
    "TopicsDisplay",
]

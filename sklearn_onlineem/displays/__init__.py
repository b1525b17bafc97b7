"""Pictures of fitted estimators; matplotlib is imported when one is drawn."""

from sklearn_onlineem.displays.alignments import AlignmentDisplay
from sklearn_onlineem.displays.forecasts import ForecastDisplay, StructureDisplay
from sklearn_onlineem.displays.learning_curves import LearningCurveDisplay
from sklearn_onlineem.displays.mixture import MergeDisplay, MixtureDisplay, ResponsibilityDisplay
from sklearn_onlineem.displays.model_selection import ModelSelectionDisplay
from sklearn_onlineem.displays.state_paths import StatePathDisplay
from sklearn_onlineem.displays.topics import TopicsDisplay
from sklearn_onlineem.displays.transitions import TransitionDisplay

__all__ = [
    "AlignmentDisplay", "ForecastDisplay", "LearningCurveDisplay", "MergeDisplay",
    "MixtureDisplay", "ModelSelectionDisplay", "ResponsibilityDisplay", "StatePathDisplay",
    "StructureDisplay", "TopicsDisplay", "TransitionDisplay",
]  # fmt: skip

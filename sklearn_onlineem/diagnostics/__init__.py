"""Whether a model has converged, how fast, and how sure its parameters are."""

from sklearn_onlineem.diagnostics.certificates import (
    Certificate,
    convergence_certificate,
    step_certificate,
)
from sklearn_onlineem.diagnostics.drift import Drift, DriftWarning, DriftWatch
from sklearn_onlineem.diagnostics.early_stopping import EarlyStopping
from sklearn_onlineem.diagnostics.information import (
    Direction,
    MissingInformation,
    missing_information,
)
from sklearn_onlineem.diagnostics.standard_errors import StandardErrors, standard_errors
from sklearn_onlineem.diagnostics.streams import StreamCertificate

__all__ = [
    "Certificate",
    "Direction",
    "Drift",
    "DriftWarning",
    "DriftWatch",
    "EarlyStopping",
    "MissingInformation",
    "StandardErrors",
    "StreamCertificate",
    "convergence_certificate",
    "missing_information",
    "standard_errors",
    "step_certificate",
]

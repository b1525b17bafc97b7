"""Convergence, rates, standard errors, forecasts and drift."""

from sklearn_onlineem.diagnostics.certificates import convergence_certificate
from sklearn_onlineem.diagnostics.drift import DriftWarning, DriftWatch, StreamCertificate
from sklearn_onlineem.diagnostics.early_stopping import EarlyStopping
from sklearn_onlineem.diagnostics.information import missing_information
from sklearn_onlineem.diagnostics.standard_errors import forecast_moments, standard_errors

__all__ = [
    "DriftWarning", "DriftWatch", "EarlyStopping", "StreamCertificate",
    "convergence_certificate", "forecast_moments", "missing_information", "standard_errors",
]  # fmt: skip

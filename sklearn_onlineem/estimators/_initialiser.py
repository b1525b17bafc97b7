"""Initialisers: from parameters and data to the model that EM starts from."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["Initialiser"]


class Initialiser(ABC):
    """Makes the model that EM starts from."""

    def given(self, data):
        """Return the model that the parameters alone give, or None if they do not."""
        return None

    @abstractmethod
    def estimated(self, data, random_state):
        """Return a model that is estimated from data, with what the parameters give of it."""

    def model(self, data, random_state):
        """Return the model for `fit` to start from."""
        given = self.given(data)
        return self.estimated(data, random_state) if given is None else given

    @abstractmethod
    def stream_model(self, data, random_state):
        """Return the model that a stream starts from, estimated from its first batch.

        Returns
        -------
        model : Model
        pseudo_statistics : Statistics or None
            What keeps a start from few data proper.
        """

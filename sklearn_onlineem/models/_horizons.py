"""How far the inertia of a short piece of a sequence looks ahead.

A few rows that continue a sequence leave most states unvisited: occupancies for these rows alone
would let the first row in another state overwrite what the model knows of it. Any positive
occupancies have the same fixed points and lower the bound of a batch, so half of those of a short
piece are its own, and half are the model's expectation over `HORIZON` rows, as if it went on.
"""

from __future__ import annotations

__all__ = ["HORIZON", "OWN_SHARE"]

# Rows. Pieces of as many have occupancies of their own alone.
HORIZON = 300
OWN_SHARE = 0.5

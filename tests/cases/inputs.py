"""Inputs that estimators refuse beside 20 rows of which one input is known, named "price"."""

import numpy as np
import pandas as pd

NAMED = pd.DataFrame({"price": np.ones(20)})
WRONG = {
    "as many rows": {"inputs": np.ones(19)},
    "one input more": {"inputs": np.ones((20, 2))},
    "none": {},
    "NaN": {"inputs": np.full(20, np.nan)},
    "infinite": {"inputs": np.full(20, np.inf)},
    "too large": {"inputs": np.full(20, 1e200)},
    "texts": {"inputs": ["a"] * 20},
    "dates": {"inputs": np.full(20, "2026-01-01", "M8[D]")},
    "another cut": {"inputs": [np.ones(10), np.ones(10)]},
    "lengths": {"inputs": np.ones(20), "lengths": [10, 9]},
    "other names": {"inputs": NAMED.rename(columns={"price": "load"})},
    "complex": {"inputs": np.ones(20) * 1j},
}

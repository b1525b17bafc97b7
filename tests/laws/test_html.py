"""What notebooks show of a fitted estimator: scikit-learn's table, with all that was learnt."""

import re

import numpy as np
import pytest
from cases.merged_cases import MERGED


def shown_attributes(estimator):
    """Names of the fitted attributes in the table, with the types and values that it shows."""
    table = estimator._repr_html_().partition("<summary>Fitted attributes</summary>")[2]
    rows = re.findall(r"<tr class=\"default\">(.*?)</tr>", table, re.S)
    cells = [re.findall(r"<td.*?>(.*?)</td>", row, re.S) for row in rows]
    return {re.sub(r"<.*?>", "", name).strip(): (type_, value) for name, type_, value in cells}


@pytest.mark.parametrize("case", MERGED, ids=repr)
def test_notebooks_show_what_was_seen_the_last_score_and_shapes(case, rng):
    X, _ = case.data(rng, 40)
    fitted = case(max_iter=2).fit(X)
    shown = shown_attributes(fitted)
    assert shown["n_samples_seen_"] == ("int", str(fitted.n_samples_seen_))
    assert shown["lower_bound_"][1] == f"{fitted.lower_bound_:.4g}"
    arrays = {name: getattr(fitted, name) for name in shown if name.endswith("_")}
    arrays = {name: a for name, a in arrays.items() if isinstance(a, np.ndarray)}
    for name, array in arrays.items():
        assert shown[name][0] == f"ndarray[{array.dtype}]{array.shape}"

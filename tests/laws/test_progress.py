"""What users are told while estimators learn: rows in the history, and what `verbose` prints."""

import pickle
import re

import numpy as np
import pytest
from cases.merged_cases import REPRESENTATIVES

from sklearn_onlineem.distributed import DistributedEM

pytestmark = pytest.mark.filterwarnings("ignore:.*took no step:UserWarning")
all_estimators = pytest.mark.parametrize("case", REPRESENTATIVES, ids=repr)


def n_rows_of(X):
    """Rows of arrays and of lists of sequences; pairs of words."""
    is_nested = isinstance(X, list) and isinstance(X[0], np.ndarray)
    return sum(map(len, X)) if is_nested else len(X)


def rows_read(estimator):
    return [step.n_rows for step in estimator.history_]


@all_estimators
def test_a_stream_counts_its_rows(case, rng):
    """A batch that completes the start makes two updates, each with the rows up to it."""
    X, _ = case.data(rng, 40)
    parts, seen, after = [X[:20], X[20:21], X[21:35], X[35:]], [], []
    stream = case(callbacks=[seen.append])
    expected = np.cumsum([n_rows_of(part) for part in parts]).tolist()
    for part in parts[:2]:
        stream.partial_fit(part)
        after.append(seen[-1].n_rows)
    loaded = pickle.loads(pickle.dumps(stream.set_params(callbacks=None)))
    stream.set_params(callbacks=[seen.append])
    for part in parts[2:]:
        stream.partial_fit(part)
        loaded.partial_fit(part)
        after.append(seen[-1].n_rows)
    assert after == expected and len(expected) <= stream.n_steps_ <= len(expected) + 1
    assert rows_read(stream) == rows_read(loaded) == [step[-1] for step in seen]
    assert (np.diff(rows_read(stream)) > 0).all()
    assert stream.history_[0]._fields[-1] == "n_rows"


@all_estimators
def test_a_fit_counts_the_rows_of_all_passes(case, rng):
    X, _ = case.data(rng, 40)
    n_rows = n_rows_of(X)
    arguments = {"tol": 0.0, "max_iter": 3, "warm_start": True}
    batch = case(solver="batch", **arguments).fit(X)
    assert rows_read(batch) == [n_rows, 2 * n_rows, 3 * n_rows]
    assert rows_read(batch.fit(X))[3:] == [4 * n_rows, 5 * n_rows, 6 * n_rows]
    online = case(solver="online", batch_size=15, **arguments).fit(X)
    assert len(online.history_) == 9 and (np.diff(rows_read(online)) > 0).all()
    assert rows_read(online)[2::3] == [n_rows, 2 * n_rows, 3 * n_rows]


@all_estimators
@pytest.mark.parametrize("mode", ["batch", "synchronous", "asynchronous"])
def test_shards_count_their_rows(case, mode, rng):
    X, _ = case.data(rng, 40)
    passes = 2
    estimator = case(max_iter=passes, tol=0.0, batch_size=5)
    learner = DistributedEM(estimator, mode=mode, n_passes=passes, n_shards=3, n_jobs=1)
    rows = rows_read(learner.fit(X).estimator_)
    assert rows[-1] == passes * n_rows_of(X)
    assert (np.diff(rows) > 0).all()


# -------------------------------------------------------------------------------------- verbose


@all_estimators
def test_a_fit_prints_its_start_its_passes_and_its_end(case, rng, capsys):
    X, _ = case.data(rng, 40)
    case(solver="batch", max_iter=2, tol=0.0).fit(X)
    assert capsys.readouterr().out == ""
    fitted = case(solver="batch", max_iter=5, tol=0.0, verbose=1, verbose_interval=2).fit(X)
    name, number = type(fitted).__name__, r"-?\d+\.\d{6}"
    patterns = [
        f"start 1 of 1, from {n_rows_of(X)} rows",
        rf"pass 2, log-likelihood {number}",
        rf"pass 4, log-likelihood {number}",
        rf"reached max_iter after pass 5, log-likelihood {number}",
    ]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(f"{name}: {pattern}", line)
    fitted.set_params(tol=1e9, warm_start=True).fit(X)
    begin, *_, end = capsys.readouterr().out.splitlines()
    assert begin == f"{name}: continues from the fitted model"
    assert end.startswith(f"{name}: converged after pass ")


@all_estimators
def test_a_stream_prints_some_of_its_updates(case, rng, capsys):
    X, _ = case.data(rng, 24)
    stream = case(verbose=1, verbose_interval=2)
    for part in (X[:20], *(X[i : i + 1] for i in range(20, 24))):
        stream.partial_fit(part)
    lines = capsys.readouterr().out.splitlines()
    shown = [t for t in range(1, stream.n_steps_ + 1) if t == 1 or t % 2 == 0]
    steps = [stream.history_[t - 1] for t in shown]
    assert [line.partition(": ")[2] for line in lines] == [
        f"update {t}, {step.n_rows} rows, log-likelihood {step.log_likelihood:.6f}"
        for t, step in zip(shown, steps, strict=True)
    ]
    stream.set_params(verbose=0).partial_fit(X)
    assert capsys.readouterr().out == ""


def test_several_starts_and_shards_print_too(rng, capsys):
    X, _ = REPRESENTATIVES[0].data(rng, 60)
    REPRESENTATIVES[0](
        n_init=3, verbose=True, max_iter=1, solver="batch", callbacks=[lambda step: 1]
    ).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("start 1 of 3, from 60 rows") and "stopped by a callback" in lines[1]
    assert len(lines) == 2
    DistributedEM(REPRESENTATIVES[0](verbose=1, max_iter=2, tol=0.0), n_shards=2, n_jobs=1).fit(X)
    begin, end = capsys.readouterr().out.splitlines()
    assert "60 observations in 2 shards" in begin and "reached max_iter after pass 2" in end

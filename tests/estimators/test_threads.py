"""Placing threads: BLAS keeps to one where ours run, whichever thread asks."""

from concurrent.futures import ThreadPoolExecutor

from sklearn_onlineem.estimators.threads import _blas_libraries, single_threaded_blas


def blas_threads():
    return [library.get_num_threads() for library in _blas_libraries()]


def limited_blas_threads():
    with single_threaded_blas(1000):
        return blas_threads()


def test_every_thread_can_hold_blas_to_one():
    before = blas_threads()
    assert set(limited_blas_threads()) <= {1}
    assert blas_threads() == before
    with ThreadPoolExecutor(1) as pool:
        assert set(pool.submit(limited_blas_threads).result()) <= {1}
    assert blas_threads() == before


def test_few_rows_and_small_models_leave_blas_alone():
    before = blas_threads()
    for n_rows, n_numbers in ((1, 10_000), (20, 50)):
        with single_threaded_blas(n_rows, n_numbers):
            assert blas_threads() == before
    with single_threaded_blas(20, 10_000):
        assert set(blas_threads()) <= {1}

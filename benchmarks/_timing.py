"""Timing by turns: whatever else the machine does then falls on both sides."""

import time
from statistics import median

CPU, WALL = time.process_time, time.perf_counter


def seconds(run, clock=WALL, n_calls=1):
    """Seconds of one call."""
    start = clock()
    for _ in range(n_calls):
        run()
    return (clock() - start) / n_calls


def ratio(slow, fast, clock=WALL, n_rounds=5, n_calls=1):
    """Return how many times faster `fast` is: the median over rounds of slow then fast.

    Both are called once before, so that neither is timed cold.
    """
    slow(), fast()
    return median(
        seconds(slow, clock, n_calls) / seconds(fast, clock, n_calls) for _ in range(n_rounds)
    )


def scaling(one, several, n_rounds=50):
    """Return how many times faster several threads are than one: the ratio of their best times.

    Short runs on all cores are disturbed more often than not, and only ever made longer.
    """
    one(), several()
    rounds = [(seconds(one), seconds(several)) for _ in range(n_rounds)]
    return min(one for one, _ in rounds) / min(several for _, several in rounds)

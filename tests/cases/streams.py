"""Streams whose start is made from their first batch."""

from sklearn_onlineem.em import Online

# No first rows are kept, so that the second batch is an online step.
AT_ONCE = Online(start_rows=0)

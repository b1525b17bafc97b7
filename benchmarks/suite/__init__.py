"""What asv follows from commit to commit; small enough for seconds a benchmark."""

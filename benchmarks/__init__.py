"""Benchmarks, in rooms by question; README.md says what to run and what it showed.

speed    : is a pass faster than the best rival's (rivals)?
real_data: is what is learnt as good?
scale    : does it hold where data are large, in memory and on a cluster?
papers   : are the papers' claims met?
reading  : how much must one read to follow a call?
suite    : the passes that asv follows from commit to commit
"""

"""Does it hold where data are large: in memory, and on a cluster?"""

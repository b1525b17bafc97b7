"""Hidden Markov models: rows that come from states which follow each other."""

"""Hidden Markov models, with and without explicit durations."""

"""Is what is learnt as good? Held-out figures of real data, online against batch and rivals."""

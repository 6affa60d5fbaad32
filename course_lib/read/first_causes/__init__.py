"""`read.failure`: the cause of a failed run, its first rank, and remedies."""

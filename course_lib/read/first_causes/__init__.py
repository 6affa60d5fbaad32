"""`read.failure`: why a run failed, who was first, and what to try."""

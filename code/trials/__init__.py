"""A learner's function on real ranks, beside the serial model: what is tried, and what is found."""

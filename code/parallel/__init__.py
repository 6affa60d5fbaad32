"""Which rank does what, and what travels between ranks: one kind of parallelism per file."""

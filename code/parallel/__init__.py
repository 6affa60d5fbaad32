"""Kinds of parallelism, one per file: the work of each rank, and what travels between ranks."""

"""Kinds of parallelism, one per file: each rank's work and the communication between ranks."""

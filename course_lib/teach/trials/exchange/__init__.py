"""Trials of lesson 02: a ring, data parallelism, and buckets beside backward."""

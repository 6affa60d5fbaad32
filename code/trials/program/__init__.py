"""Execution and observation of a learner's whole program."""

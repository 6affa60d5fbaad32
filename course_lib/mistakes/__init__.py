"""Errors of wrong calls: one sentence, and the learner's own line."""

"""Tests of a learner's function on real ranks, against the serial model."""

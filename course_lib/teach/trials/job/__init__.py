"""Run a learner's batch script on false cluster commands."""

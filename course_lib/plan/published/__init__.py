"""Errors of predictions for published runs."""

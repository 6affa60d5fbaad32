"""Understand: text and traces in, tables out."""

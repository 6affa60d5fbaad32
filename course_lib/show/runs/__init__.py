"""Figures of a run: curves over its iterations, bars of its steps, its load, its timeline."""

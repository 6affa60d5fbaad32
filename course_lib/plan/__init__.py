"""Predict: shapes and layouts in, parameters, FLOPs, memory and time out. Imports no torch."""

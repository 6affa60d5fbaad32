"""Guesses and plans beside measurements."""

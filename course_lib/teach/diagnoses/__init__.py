"""Diagnoses of the blind cases of lesson 16: lists of choices, and their judgement."""

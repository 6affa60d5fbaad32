"""Check: exercises, hints, progress; builds notebooks from lessons."""

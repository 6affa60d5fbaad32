"""Exercise checks, hints, predictions, claims and progress."""

"""Text of the challenge, and the judge of the models trained on it."""

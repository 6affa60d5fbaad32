"""The text of the challenge, and the judge of what was learned from it."""

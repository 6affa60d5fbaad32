"""What the number of an answer may mean: its unit, how it is written, and likely wrong values."""

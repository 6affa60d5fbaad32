"""Checks of the exercises, one module per lesson. A notebook's `check` offers them all."""

"""The checks of the exercises, one module per lesson; `check` of a notebook offers them all."""

"""Models and layouts, and the numbers that follow from them by counting alone."""

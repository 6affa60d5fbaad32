"""Models and layouts, and the counts that follow from them."""

"""Recipes of the programs that the lessons run, such as `gpt`, `links` and `shell`."""

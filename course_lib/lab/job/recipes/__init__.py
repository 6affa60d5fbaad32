"""Recipes of the programs that the lessons run: `gpt`, `links` and `shell`."""

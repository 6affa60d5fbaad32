"""Functions of Python's standard library, and a small model that summarizes each in one line."""

"""Functions of Python's standard library, and a small model that says in a line what they do."""

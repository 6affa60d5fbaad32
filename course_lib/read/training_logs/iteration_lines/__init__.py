"""Lines of `name: value | name: value`, a million of them, as one table."""

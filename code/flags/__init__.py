"""The command line: which flags there are, what each may be, and what goes together."""

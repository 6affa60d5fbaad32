"""Subcommands of `course` that do in a terminal what a notebook does with a `Lab`."""

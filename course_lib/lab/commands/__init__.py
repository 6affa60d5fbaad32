"""The subcommands of `course` that mirror what a notebook does with a `Lab`."""

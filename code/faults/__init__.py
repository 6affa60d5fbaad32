"""Faults planted on purpose, one kind per file; `--planted-fault` selects one."""

"""Faults that are planted on purpose, one kind in each file: `--planted-fault` names one."""

"""Runs that were recorded elsewhere and replace jobs if no cluster answers."""

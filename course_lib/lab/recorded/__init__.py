"""Runs that were made elsewhere, handed back in place of jobs where no cluster answers."""

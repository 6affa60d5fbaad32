"""Commands that the user types, one module each, and their shared parts."""

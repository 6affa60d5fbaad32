"""The state file: what is known of every job and step, and how events change it."""

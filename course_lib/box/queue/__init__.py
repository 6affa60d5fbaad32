"""The state file: records of every job and step, and the events that change them."""

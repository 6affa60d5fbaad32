"""Records of a run: log lines, profiles, memory traces and the load of the node."""

"""Records of a run: its lines, profiles and memory traces, and the load of the node."""

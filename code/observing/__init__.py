"""How a run goes: its lines, profiles and memory traces, and the load of the node."""

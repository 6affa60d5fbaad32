"""What a person sees of a run while it goes on: a line, a panel, the replay of a recorded one."""

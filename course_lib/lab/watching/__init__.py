"""Views of a run in progress: a line, a panel, the replay of a recorded run."""

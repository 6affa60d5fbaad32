"""Start of jobs whose turn has come, and detection of dead jobs, on top of the queue."""

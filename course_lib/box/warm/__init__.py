"""Fast start: a process with torch loaded, from which supervisors and ranks are forked."""

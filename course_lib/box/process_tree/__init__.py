"""From a supervisor to the program of a task: guard, first process, step daemons, tasks."""

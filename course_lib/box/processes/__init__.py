"""All processes of the box below a command: roles, messages, guard, step daemons, tasks."""

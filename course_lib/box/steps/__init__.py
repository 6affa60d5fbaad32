"""A step as its srun sees it: the request, streams, signals, and the ends of tasks."""

"""A step as its srun sees it: the request, streams, signals and ends of tasks."""

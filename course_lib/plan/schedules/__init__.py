"""Pipeline schedules: the order of steps, when each begins, and the cost."""

"""Pipeline schedules, as planned and as measured."""

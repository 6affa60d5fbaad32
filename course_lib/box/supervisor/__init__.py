"""The supervisor: one process per running job, which creates its nodes and reports its end."""

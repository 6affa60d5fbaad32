"""The process that answers for a running job, from its nodes to its last line in the queue."""

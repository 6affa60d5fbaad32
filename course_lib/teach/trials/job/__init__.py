"""What a batch script of a learner's makes of the commands of a cluster."""

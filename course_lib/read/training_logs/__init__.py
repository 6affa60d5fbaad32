"""`read.training_log`: iterations, losses, memory and sizes of a run, from its log."""

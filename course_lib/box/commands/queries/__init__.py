"""squeue, sinfo and sacct: what there is and was."""

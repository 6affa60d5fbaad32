"""Rehearsal for a class: short jobs shaped like the lessons' jobs, one per expected learner."""

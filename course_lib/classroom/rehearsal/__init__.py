"""Rehearsal for a class: short jobs shaped like the lessons' jobs, one per expected learner.

shapes     resources of each lesson, from the course's recorded runs
waves      short jobs with the same shapes, and their results
command    checks disk and cluster, then reports what will fail and what to reserve
"""

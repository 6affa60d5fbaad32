"""Slides: one deck per part of the course, made from the lessons and their results."""

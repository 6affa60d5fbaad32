"""The slides: a deck for each part of the course, made of the lessons and of what they measured."""

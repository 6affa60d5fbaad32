"""A card for each lesson, one page: what was typed, what was called, what to take home.

content    what a lesson's source says of it; nothing that a gap hides
pages      the same as Markdown, and as a page that is printed
"""

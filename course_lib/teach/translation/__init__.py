"""Translating the course: catalogs of gettext (`locale/<language>/*.po`), a notebook from them, and
what is still missing.

A catalog for each lesson holds its cells of prose, with the id of the cell as context, and without
context the sentences of its code cells and checks. `course.po` holds those of the library.
"""

"""Translation of the course: gettext catalogs, translated notebooks, and missing messages.

Each lesson has a catalog, `locale/<language>/*.po`. Its prose cells have their ids as context. The
sentences of its code cells and checks have no context. `course.po` holds the library's sentences.
"""

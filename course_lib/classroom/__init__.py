"""The instructor's view of a class, and the progress that learners agree to share.

folder      the class folder: each learner may write one file, instructors may read
snapshot    the shared data: lesson, exercises, tries, hints, times; nothing else
sharing     a learner agrees once, or withdraws; the file is written when a cell ends
tables      rows of learners and exercises, for terminal, page and CSV
opening     solutions that learners may see
page        the tables in the browser
"""

"""What an instructor with a room full of people sees, and what a learner agrees to show.

folder      the class folder: learners may write one file each, instructors may read
consent     a learner agrees once, and may withdraw
snapshot    what is shared: lesson, exercises, tries, hints, times; nothing else
sharing     writes the learner's file; `pulse` does it as cells end
roster      reads all files, whatever somebody has laid there
tables      rows of learners and exercises, for terminal, page and CSV
page        the same in the browser
"""

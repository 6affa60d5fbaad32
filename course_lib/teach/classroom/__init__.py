"""What an instructor with a room full of people sees, and what a learner agrees to show.

folder      the class folder: learners may write one file each, instructors may read
snapshot    what is shared: lesson, exercises, tries, hints, times; nothing else
sharing     a learner agrees once, or withdraws; writes the file, and `pulse` does as cells end
roster      reads all files, whatever somebody has laid there
tables      rows of learners and exercises, for terminal, page and CSV
opening     from when on learners are brought solutions
page        the same in the browser
"""

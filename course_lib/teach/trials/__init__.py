"""What a trial of a learner's function found (`code/try_own.py`), and which mistake explains it."""

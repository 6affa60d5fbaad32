"""Results of a trial of a learner's function (`code/try_own.py`), and explanations of mistakes."""

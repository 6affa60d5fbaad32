"""A whole program of a learner's: how it is run and looked into."""

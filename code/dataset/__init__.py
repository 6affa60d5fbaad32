"""Training samples of a rank, from tokenized text on disk."""

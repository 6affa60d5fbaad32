"""What became of jobs: following, reading, comparing and deleting them."""

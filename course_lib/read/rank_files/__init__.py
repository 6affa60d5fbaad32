"""What each rank writes down by itself: its diary, and its stacks."""

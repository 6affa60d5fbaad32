"""Files that each rank writes by itself: its diary, and its stacks."""

"""The order in which pipeline stages work, when each step begins, and what that costs."""

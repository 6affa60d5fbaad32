"""What every process of the box is made of: roles, messages, the search for processes."""

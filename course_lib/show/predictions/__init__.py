"""What was guessed or planned, beside what was measured."""

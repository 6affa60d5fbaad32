"""Tell: what a learner reads where a call cannot be answered. One sentence, and the own line."""

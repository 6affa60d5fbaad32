"""The process that is one rank: its device, its memory, how it ends. All else stands on this."""

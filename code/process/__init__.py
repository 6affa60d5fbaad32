"""Process of one rank: its device, its memory and its end. All other folders depend on it."""

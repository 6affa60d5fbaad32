"""Which devices reach each other by what, how fast, and which of them work together."""

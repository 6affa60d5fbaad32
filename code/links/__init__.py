"""Messages that measure_links.py sends, times and prints: the speed of links."""

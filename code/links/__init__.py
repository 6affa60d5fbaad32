"""Measurements of link speed: the messages that measure_links.py sends, times and prints."""

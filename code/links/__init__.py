"""How fast the links between devices are: what measure_links.py sends, times and prints."""

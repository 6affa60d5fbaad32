"""Timed steps on the ranks of engine.py, peers.py and weather_loop.py."""

"""What the ranks of engine.py and peers.py run, timed."""

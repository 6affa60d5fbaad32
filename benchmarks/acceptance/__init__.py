"""The parts of gpu_acceptance.py: each a function that notes what it finds and checks."""

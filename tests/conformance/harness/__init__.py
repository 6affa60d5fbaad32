"""What runs the cases of tests/conformance on a real Slurm and on the box, and compares them."""

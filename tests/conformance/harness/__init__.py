"""Runner of the cases of tests/conformance on a real Slurm and on the box, with a comparison."""

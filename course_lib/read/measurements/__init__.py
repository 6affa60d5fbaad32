"""`read.links` and `read.monitor`: what was measured beside a training run."""

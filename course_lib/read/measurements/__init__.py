"""`read.links` and `read.monitor`: measurements beside a training run."""

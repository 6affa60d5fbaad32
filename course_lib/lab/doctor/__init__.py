"""Examination of the machine, the site and the cluster."""

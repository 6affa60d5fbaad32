"""Rules that give nodes, CPUs and devices to jobs. No process is started here."""

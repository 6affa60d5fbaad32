"""Draw: tables in, figures and diagrams out. Never opens a file of a run."""

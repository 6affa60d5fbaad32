"""How a job runs: its supervisor, its nodes, its steps and the processes in them."""

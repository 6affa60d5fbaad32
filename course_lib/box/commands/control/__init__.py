"""scancel and scontrol: look closely at jobs, change and end them."""

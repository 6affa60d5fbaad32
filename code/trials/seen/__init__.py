"""What is seen beside the calls themselves: works, and what comes by other ways."""

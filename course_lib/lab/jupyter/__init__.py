"""What the course adds to a Jupyter server: kernels that nobody else can listen to, and terminals
in which its commands are found. `deploy/jupyter/options.sh` hands both to the server."""

# shellcheck shell=bash
# Options for a Jupyter server of the course; ../jupyterhub/start_user.sh sources this file.
course=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export JUPYTER_CONFIG_PATH="$course/deploy/jupyter/config${JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}"
export JUPYTER_PATH="$course/deploy/jupyter/data${JUPYTER_PATH:+:$JUPYTER_PATH}"

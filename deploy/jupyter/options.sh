# shellcheck shell=bash
# Options for a Jupyter server of the course. The scripts that start one (../lab.sh,
# ../jupyterhub/start_user.sh) source this file, with the course's environment first in PATH.
course=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034
course_options=(
    --MappingKernelManager.kernel_manager_class=course_lib.lab.jupyter.kernels.ServerKernels
    --ServerApp.terminado_settings='{"shell_command": "python -P -m course_lib.cli shell"}'
    --LabApp.app_settings_dir="$course/deploy/jupyter/settings"
    --LabApp.custom_css=True
    --ServerApp.tornado_settings="{\"static_custom_path\": [\"$course/deploy/jupyter/custom\"]}"
)
# Pages exported from a notebook, by menu or by nbconvert, need no internet.
export JUPYTER_CONFIG_PATH="$course/deploy/jupyter/config${JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}"
export JUPYTER_PATH="$course/deploy/jupyter/data${JUPYTER_PATH:+:$JUPYTER_PATH}"

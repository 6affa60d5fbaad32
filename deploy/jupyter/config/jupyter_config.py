"""Options of the course's Jupyter servers, and of the pages that nbconvert exports."""

from __future__ import annotations

from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821

c.MappingKernelManager.kernel_manager_class = "course_lib.lab.jupyter.kernels.ServerKernels"
c.ServerApp.terminado_settings = {
    "shell_command": ["python", "-P", "-m", "course_lib.cli", "shell"]
}
c.LabApp.app_settings_dir = str(Path(__file__).resolve().parents[1] / "settings")
# Figures and listings turn round on dark pages.
c.LabApp.custom_css = True
c.ServerApp.tornado_settings = {
    "static_custom_path": [str(Path(__file__).resolve().parents[1] / "custom")]
}
# Exported pages need no internet.
c.HTMLExporter.template_name = "course"
c.HTMLExporter.embed_images = True

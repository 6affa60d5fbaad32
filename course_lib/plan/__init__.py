"""Predict: parameters, FLOPs, memory, time and the best layout, before anything runs."""

from course_lib.plan.checks import PlanError
from course_lib.plan.layout import Layout
from course_lib.plan.model import Model, Patches
from course_lib.plan.presets import PRESETS, preset

__all__ = ["PRESETS", "Layout", "Model", "Patches", "PlanError", "preset"]

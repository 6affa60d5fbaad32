"""Parts of gpu_acceptance.py: functions that record results and checks."""

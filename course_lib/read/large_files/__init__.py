"""Finds the lines that matter in files of gigabytes: eight bytes at a time, in two processes."""

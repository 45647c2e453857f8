"""A lock of the user's own: one class in one file, whatever it talks to."""

PREFIX = "holdfast_own_"
"""Before the module name of the user's file, so that it meets no module of anybody else."""

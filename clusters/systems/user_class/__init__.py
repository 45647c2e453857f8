"""A user's lock: one class in one file, with any server."""

PREFIX = "holdfast_own_"
"""Prefix of the module name of the user's file, so that it does not clash with other modules."""

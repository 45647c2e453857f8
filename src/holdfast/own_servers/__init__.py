"""Servers as the user has them: their configuration, and those that already run."""

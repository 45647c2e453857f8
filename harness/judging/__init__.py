"""Judges a run directory: verdicts and certificates."""

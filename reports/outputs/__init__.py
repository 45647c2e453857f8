"""Verdicts for terminals and other programs."""

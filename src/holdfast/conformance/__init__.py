"""Trials of what users bring: their client program, their system."""

"""Turns options and files into a complete plan."""

"""Nodes as containers."""

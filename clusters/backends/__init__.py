"""Backends: nodes, addresses and processes of a run."""

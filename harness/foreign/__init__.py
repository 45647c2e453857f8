"""Imports histories of other tools, and exports runs for them."""

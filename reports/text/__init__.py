"""Formatting of text and numbers."""

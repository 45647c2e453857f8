"""The pytest plugin."""

NOTE = "holdfast"
"""User property of a test with violations that do not fail it."""

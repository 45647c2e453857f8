"""Holdfast: find out whether a distributed lock can ever have two holders."""

__version__ = "0.1.0"

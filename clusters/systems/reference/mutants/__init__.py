"""Bugs planted in the lock service and its client."""

"""The client of the lock service."""

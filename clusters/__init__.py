"""Backends, which run processes, and the lock services under test."""

"""Faults that take resources from running processes: CPU time, open files."""

"""Faults that take resources from running processes: CPU time, memory, open files."""

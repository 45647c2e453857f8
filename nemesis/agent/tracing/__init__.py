"""Faults inside a running program: at a system call, or at a function."""

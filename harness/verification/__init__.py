"""Certificates of verdicts, checked against the recorded rows by a program of its own."""

"""Verifies the certificates of verdicts against the recorded rows, independently of checkers."""

"""Output of verdicts for terminals and CI."""

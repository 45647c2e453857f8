"""What a run is judged to be: verdicts, findings, evidence, as values."""

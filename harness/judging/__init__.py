"""From a run directory to its verdicts."""

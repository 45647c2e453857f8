"""Basic types of a run: operations, verdicts, faults, clocks, errors, ports."""

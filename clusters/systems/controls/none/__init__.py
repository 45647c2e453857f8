"""A control without a lock: its violations are those that a lock prevents."""

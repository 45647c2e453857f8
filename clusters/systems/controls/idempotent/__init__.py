"""A control without a lock: a resource with idempotent commands, which take effect once."""

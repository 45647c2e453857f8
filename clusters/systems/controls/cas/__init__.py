"""A control without a lock: a resource that accepts only writes based on its newest version."""

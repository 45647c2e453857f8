"""One lease server on one node: a single point of failure by design."""

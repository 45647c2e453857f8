"""Controls: no lock, compare-and-swap, idempotent writes."""

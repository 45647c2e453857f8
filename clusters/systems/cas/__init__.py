"""A control: no lock, but a resource that takes a write only on the version it was computed from."""

"""A control: no lock, but a resource that takes writes on its newest version only."""

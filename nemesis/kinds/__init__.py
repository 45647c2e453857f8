"""One nemesis per file."""

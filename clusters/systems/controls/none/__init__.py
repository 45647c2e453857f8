"""A control: no lock at all. What goes wrong here is what a lock buys."""

"""What goes wrong, as data, and the agent that does it on a host."""

"""How a fault is done on a host: a program of its own that speaks JSON lines."""

"""The fault agent: a separate program on a host that speaks JSON lines."""

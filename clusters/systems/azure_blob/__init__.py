"""Leases of Azure blobs as locks, against the emulator `azurite`."""

PORT = 10000
ACCOUNT = "locks"
KEY = "bG9ja3M="
"""Of the emulator's one account; it protects nothing."""
CONTAINER = "locks"
SHORTEST_S, LONGEST_S, INFINITE = 15, 60, -1
"""Durations of a lease that the service accepts, in seconds."""

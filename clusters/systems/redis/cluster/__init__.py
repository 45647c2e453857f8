"""Redis Cluster: three primaries with an asynchronous replica each, which fail over by election."""

from holdfast.clusters.systems.redis import PORT as DATA_PORT

BUS_PORT = DATA_PORT + 10000
PRIMARIES = 3
NODES = 2 * PRIMARIES
"""n1 to n3 are the initial primaries, n4 to n6 their replicas."""
SLOTS = 16384
DOWN_MS = 1000
"""Silence after which a node is considered down."""
WAIT = "wait"
"""Option: number of replicas that must acknowledge a grant or renewal."""

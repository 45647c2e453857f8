"""A Redis primary with a replica, and sentinels that promote it: asynchronous, as shipped."""

PORT = 26379
"""of the sentinels"""
GROUP = "lock"
"""the name under which they watch the primary"""
DATA = ("n1", "n2")
"""the primary at the start, and its replica; all other nodes are sentinels"""

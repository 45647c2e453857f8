"""Redis with Sentinel: a primary, an asynchronous replica, and sentinels that promote it."""

PORT = 26379
"""port of the sentinels"""
GROUP = "lock"
"""name under which they monitor the primary"""
DATA = ("n1", "n2")
"""the initial primary and its replica; all other nodes are sentinels"""

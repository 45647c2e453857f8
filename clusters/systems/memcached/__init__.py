"""Locks of memcached: `add` of a key with a time to live."""

PORT = 11211

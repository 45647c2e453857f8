"""Locks of memcached: `add` of a key with a time to live."""

PORT = 11211
MARGIN_S = {"2s": 2, "1s": 1, "none": 0}
"""Option `margin` -> by how much a requested lease is longer than its owner relies on.

The server's clock has whole seconds and is set about once per second by a timer. Where the timer is
a little late it advances by two at once, so that a key with a time to live of N s lasts N - 2 s.
"""

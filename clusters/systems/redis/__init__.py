"""Redis locks as commonly used: SET NX PX and compare-and-delete."""

PORT = 6379

"""Redis as people use it for locks: SET NX PX and compare-and-delete."""

PORT = 6379

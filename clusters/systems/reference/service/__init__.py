"""One server of the lock service: node, sockets, request validation."""

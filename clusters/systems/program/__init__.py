"""A lock in any language: a client program with a JSON lines protocol, and any server."""

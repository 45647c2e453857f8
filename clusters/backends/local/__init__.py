"""Nodes as network namespaces of this machine, or behind proxies on loopback."""

"""Local backends: nodes as network namespaces of this machine, or behind loopback proxies."""

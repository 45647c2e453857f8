"""MariaDB on three servers that replicate to each other by Galera: any of them accepts writes."""

GROUP_PORT, TRANSFER_PORT, COPY_PORT = 4567, 4568, 4444
"""Ports of the group's messages, of the writes that a server has missed, and of a whole copy."""
NOT_READY = 1047
"""Error number of a server that is not in a component with a majority."""

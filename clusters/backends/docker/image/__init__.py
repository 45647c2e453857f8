"""The node image: what a container of a cluster has on board, and how it is built."""

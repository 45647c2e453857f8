"""The node image: content of a cluster's containers, and its build."""

"""Clusters that a user describes in a compose file."""

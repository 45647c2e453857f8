"""Frames on a TCP stream between clients and servers."""

"""Plug-ins of Holdfast in a package of its own."""

"""A user's lock: one class in one file, with any server."""

"""Locks by files in one folder of one host: flock(2), fcntl record locks, O_EXCL."""

"""Locks that are objects of S3, written under conditions, against the emulator of `moto`."""

PORT = 9000
BUCKET = "locks"

"""Shared parts of the two kinds of PostgreSQL lock: server, sessions, errors."""

PORT = 5432
USER = "lock"
DATABASE = "postgres"

"""PostgreSQL advisory locks, held by a session or by a transaction."""

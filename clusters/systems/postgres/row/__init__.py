"""A row of PostgreSQL that a transaction has selected for update."""

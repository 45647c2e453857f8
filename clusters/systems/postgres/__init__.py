"""What the two kinds of PostgreSQL lock share: the server, its sessions, its words."""

PORT = 5432
USER = "lock"
DATABASE = "postgres"

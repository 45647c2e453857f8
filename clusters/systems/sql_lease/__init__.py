"""A row with a time in it as a lease, on PostgreSQL and MariaDB."""

"""A row of MariaDB that a transaction has selected for update."""

PORT = 3306
USER = "lock"
DATABASE = "holdfast"

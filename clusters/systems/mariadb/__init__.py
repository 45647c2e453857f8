"""Row locks (`SELECT ... FOR UPDATE`) of MariaDB."""

PORT = 3306
USER = "lock"
DATABASE = "holdfast"

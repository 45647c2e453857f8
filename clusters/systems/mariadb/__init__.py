"""Row locks (`SELECT ... FOR UPDATE`) and user locks (`GET_LOCK`) of MariaDB."""

PORT = 3306
USER = "lock"
DATABASE = "holdfast"

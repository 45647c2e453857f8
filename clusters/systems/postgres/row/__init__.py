"""Row locks (`SELECT ... FOR UPDATE`) of PostgreSQL."""

"""The lock state machine: holds, waiters, sessions, deadlocks, tokens."""
